/* SPDX-License-Identifier: BSD-2-Clause */
/* side.c - one side: its objects, its bystander, and the checks that it makes. */
#include "errors.h"

#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

enum { PATIENCE_MS = 10000, PSN = 0xfffff0 }; /* such a first PSN wraps in every row */

/* --- objects ------------------------------------------------------------- */

static struct ibv_context *open_named(const char *device)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int n;

	list = ibv_get_device_list(&n);
	if (!list || !n)
		errx(1, "no RDMA device");
	for (int i = 0; i < n && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), device ? device : "roce_lo"))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		err(1, "cannot open %s", device ? device : "roce_lo");
	ibv_free_device_list(list);
	return ctx;
}

/* Connects the bystanders; only once, after the sides have met. */
static void connect_by(struct side *s)
{
	struct info by = s->theirs;
	struct ibv_qp_attr a;

	if (s->by_qp->state == IBV_QPS_RTS)
		return;
	by.qpn = by.by_qpn;
	a = qp_attr(s, &by);
	a.timeout = UNHURRIED;
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		qp_to(s->by_qp, &a, (enum ibv_qp_state)to);
}

static struct ibv_qp *by_make(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->by_cq,
		.recv_cq = s->by_cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 2, 2, 0 },
	};

	return ibv_create_qp(s->pd, &init);
}

void side_open(struct side *s, const char *device, int gid_index)
{
	side_open_on(s, open_named(device), gid_index);
}

void side_open_on(struct side *s, struct ibv_context *ctx, int gid_index)
{
	struct ibv_port_attr port;

	s->ctx = ctx;
	CHECK(!fcntl(s->ctx->async_fd, F_SETFL, O_NONBLOCK));
	s->gid_index = (uint8_t)gid_index;
	CHECK(!ibv_query_gid(s->ctx, 1, gid_index, &s->mine.gid));
	CHECK(!ibv_query_port(s->ctx, 1, &port));
	s->mine.lid = port.lid;
	s->buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	CHECK(s->buf != MAP_FAILED);
	CHECK((s->pd = ibv_alloc_pd(s->ctx)) && (s->pd2 = ibv_alloc_pd(s->ctx)));
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buf, BUF, ALL_ACCESS)));
	CHECK((s->scq = ibv_create_cq(s->ctx, 256, NULL, NULL, 0)));
	CHECK((s->rcq = ibv_create_cq(s->ctx, 256, NULL, NULL, 0)));
	CHECK((s->by_cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0)));
	CHECK((s->by_qp = by_make(s)));
	s->mine.by_qpn = s->by_qp->qp_num;
	s->mine.by_rkey = s->mr->rkey;
	s->mine.by_addr = (uintptr_t)s->buf + BY_AT;
}

void side_close(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->by_qp));
	CHECK(!ibv_destroy_cq(s->by_cq));
	CHECK(!ibv_destroy_cq(s->scq) && !ibv_destroy_cq(s->rcq));
	CHECK(!ibv_dereg_mr(s->mr));
	CHECK(!ibv_dealloc_pd(s->pd) && !ibv_dealloc_pd(s->pd2));
	CHECK(!ibv_close_device(s->ctx));
	munmap(s->buf, BUF);
}

struct ibv_qp *qp_make(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = s->scq,
		.recv_cq = s->rcq,
		.qp_type = type,
		.cap = { 16, 16, 4, 4, 64 },
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp);
	return qp;
}

void qp_drop(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->qp));
	s->qp = NULL;
	drop_extras(s);
	expect_none(s->scq);
	expect_none(s->rcq);
}

struct ibv_qp_attr qp_attr(const struct side *s, const struct info *peer)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = ALL_ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.max_rd_atomic = 8,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .dlid = peer->lid,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = s->gid_index,
				      .hop_limit = 64 } },
	};
}

static int mask_to(enum ibv_qp_type type, enum ibv_qp_state to)
{
	const bool rc = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND ||
			type == IBV_QPT_XRC_RECV;
	const bool ud = type == IBV_QPT_UD;

	switch (to) {
	case IBV_QPS_INIT:
		return ud ? TO_INIT_UD : TO_INIT;
	case IBV_QPS_RTR:
		return ud ? IBV_QP_STATE : rc ? TO_RTR : TO_RTR_UC;
	case IBV_QPS_RTS:
		return type == IBV_QPT_XRC_RECV ? TO_RTS_UC | IBV_QP_TIMEOUT
		       : rc			? TO_RTS
						: TO_RTS_UC;
	case IBV_QPS_RESET:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return IBV_QP_STATE;
}

/* Moves the QP by one step. */
void qp_to(struct ibv_qp *qp, const struct ibv_qp_attr *a, enum ibv_qp_state to)
{
	struct ibv_qp_attr now = *a;

	now.qp_state = to;
	CHECK(!ibv_modify_qp(qp, &now, mask_to(qp->qp_type, to)));
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
	CHECK(a.qp_state == qp->state);
	return a.qp_state;
}

struct ibv_ah *ah_to(struct side *s, const union ibv_gid *gid)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.dlid = s->theirs.lid,
		.grh = { .dgid = *gid, .sgid_index = s->gid_index, .hop_limit = 64 }
	};

	return ibv_create_ah(s->pd, &a);
}

struct ibv_mr *extra_mr(struct side *s, struct ibv_mr *mr)
{
	CHECK(mr && s->extras < EXTRAS);
	return s->extra[s->extras++] = mr;
}

void drop_extras(struct side *s)
{
	while (s->extras)
		CHECK(!ibv_dereg_mr(s->extra[--s->extras]));
}

/* --- completions --------------------------------------------------------- */

bool poll_one(struct ibv_cq *cq, struct ibv_wc *wc, unsigned ms)
{
	uint64_t end = now_ms() + ms;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		CHECK(n >= 0);
	} while (!n && now_ms() < end);
	return n == 1;
}

struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, int status, unsigned verr)
{
	struct ibv_wc wc;

	if (!poll_one(cq, &wc, PATIENCE_MS)) {
		say("no completion of %llu", (unsigned long long)wr_id);
		broken(__FILE__, __LINE__, "a completion comes");
	}
	if (wc.wr_id != wr_id || (int)wc.status != status || wc.vendor_err != verr) {
		say("completion of %llu: %s, vendor_err %u; expected %llu: %s, %u",
		    (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
		    wc.vendor_err, (unsigned long long)wr_id,
		    ibv_wc_status_str((enum ibv_wc_status)status), verr);
		broken(__FILE__, __LINE__, "the completion is the expected one");
	}
	return wc;
}

void expect_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (poll_one(cq, &wc, 0)) {
		say("completion of %llu: %s, vendor_err %u; expected none",
		    (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
		    wc.vendor_err);
		broken(__FILE__, __LINE__, "no completion");
	}
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(qp, wr, &bad);

	CHECK(!rc || bad == wr);
	return rc;
}

struct ibv_sge local(const struct side *s, uint32_t at, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)s->buf + at, length, s->mr->lkey };
}

int post_recv(struct side *s, uint64_t wr_id, uint32_t length)
{
	struct ibv_sge sge = local(s, RECV_AT, length);
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(s->qp, &wr, &bad);
}

/* --- events -------------------------------------------------------------- */

static bool about_nobody(enum ibv_event_type type)
{
	return type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_PORT_ACTIVE ||
	       type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_LID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE;
}

int next_event(struct side *s, void **about, unsigned ms)
{
	struct pollfd p = { s->ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event e;

	while (poll(&p, 1, (int)ms) == 1) {
		CHECK(!ibv_get_async_event(s->ctx, &e));
		ibv_ack_async_event(&e);
		if (about_nobody(e.event_type))
			continue;
		if (about)
			*about = e.element.qp;
		return (int)e.event_type;
	}
	return -1;
}

void expect_event(struct side *s, int type, const void *about)
{
	void *got_about = NULL;
	int got = next_event(s, &got_about, PATIENCE_MS);

	if (got != type || got_about != about) {
		say("side %c: event %d (%s), expected %d (%s)", s->is_b ? 'b' : 'a', got,
		    got < 0 ? "none" : ibv_event_type_str((enum ibv_event_type)got), type,
		    ibv_event_type_str((enum ibv_event_type)type));
		broken(__FILE__, __LINE__, "the event comes");
	}
}

void expect_no_event(struct side *s)
{
	int got = next_event(s, NULL, 0);

	if (got >= 0) {
		say("side %c: event %d (%s), expected none", s->is_b ? 'b' : 'a', got,
		    ibv_event_type_str((enum ibv_event_type)got));
		broken(__FILE__, __LINE__, "no event comes");
	}
}

/* --- bystanders ---------------------------------------------------------- */

enum { BY_LEN = 3000, BY_SEND = 0, BY_WRITE = 8192, BY_RECV = 16384, BY_READ = 24576 };

static void by_recv(struct side *s)
{
	struct ibv_sge sge = local(s, BY_AT + BY_RECV, BY_LEN);
	struct ibv_recv_wr *bad, wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };

	memset(s->buf + BY_AT, 0, BUF - BY_AT);
	memset(s->buf + BY_AT + BY_SEND, s->is_b ? 0xb0 : 0xa0, BY_LEN);
	CHECK(!ibv_post_recv(s->by_qp, &wr, &bad));
}

static void by_send(struct side *s)
{
	struct ibv_sge out = local(s, BY_AT + BY_SEND, BY_LEN);
	struct ibv_sge back = local(s, BY_AT + BY_READ, BY_LEN);
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_WRITE, &out, 1);

	wr.wr.rdma.remote_addr = s->theirs.by_addr + BY_WRITE;
	wr.wr.rdma.rkey = s->theirs.by_rkey;
	CHECK(!post_send(s->by_qp, &wr));
	wr.wr_id = 2;
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = &back;
	CHECK(!post_send(s->by_qp, &wr));
	wr = wr_of(IBV_WR_SEND, &out, 3);
	CHECK(!post_send(s->by_qp, &wr));
}

static void by_check(struct side *s)
{
	const int mine = s->is_b ? 0xb0 : 0xa0, theirs = s->is_b ? 0xa0 : 0xb0;
	struct ibv_wc wc;

	for (int i = 0; i < 4; i++) {
		if (!poll_one(s->by_cq, &wc, PATIENCE_MS))
			broken(__FILE__, __LINE__, "the bystander works");
		if (wc.status)
			say("bystander: %s", ibv_wc_status_str(wc.status));
		CHECK(!wc.status);
	}
	for (int i = 0; i < BY_LEN; i++) {
		CHECK(s->buf[BY_AT + BY_RECV + i] == theirs);
		CHECK(s->buf[BY_AT + BY_WRITE + i] == theirs);
		CHECK(s->buf[BY_AT + BY_READ + i] == mine);
	}
}

void bystanders(void)
{
	sync_sides();
	each(connect_by);
	each(by_recv);
	sync_sides();
	each(by_send);
	each(by_check);
	sync_sides();
}

/* --- two QPs of one side ------------------------------------------------- */

struct ibv_send_wr wr_of(enum ibv_wr_opcode op, struct ibv_sge *sge, uint64_t id)
{
	return (struct ibv_send_wr){
		.wr_id = id,
		.opcode = op,
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED,
	};
}

struct ibv_qp_attr self_attr(const struct side *s, uint32_t peer_qpn)
{
	struct info peer = { .qpn = peer_qpn, .lid = s->mine.lid, .gid = s->mine.gid };

	return qp_attr(s, &peer);
}

struct ibv_qp *duo_qp(struct side *s, struct ibv_cq *cq, enum ibv_qp_type type,
		      struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = type,
		.cap = { 16, 16, 4, 4, 64 },
	};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp);
	return qp;
}

struct duo duo_make(enum ibv_qp_type type, int acqe, int bcqe, struct ibv_srq *srq)
{
	struct duo d = { .s = side(false) };

	CHECK((d.acq = ibv_create_cq(d.s->ctx, acqe, NULL, NULL, 0)));
	CHECK((d.bcq = ibv_create_cq(d.s->ctx, bcqe, NULL, NULL, 0)));
	d.a = duo_qp(d.s, d.acq, type, NULL);
	d.b = duo_qp(d.s, d.bcq, type, srq);
	d.s->mine.qpn = d.a->qp_num;
	side(true)->mine.qpn = d.b->qp_num;
	return d;
}

void duo_up(struct duo *d)
{
	struct ibv_qp_attr a = self_attr(d->s, d->b->qp_num);
	struct ibv_qp_attr b = self_attr(d->s, d->a->qp_num);

	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		qp_to(d->a, &a, (enum ibv_qp_state)to);
		qp_to(d->b, &b, (enum ibv_qp_state)to);
	}
}

void duo_drop(struct duo *d)
{
	CHECK(!ibv_destroy_qp(d->a) && !ibv_destroy_qp(d->b));
	CHECK(!ibv_destroy_cq(d->acq) && !ibv_destroy_cq(d->bcq));
	drop_extras(d->s);
}
