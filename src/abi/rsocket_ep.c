/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_ep.c - a connection's QP, its buffers, and the messages that go and
 * come.  All under rs->lock. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/rsocket.h"

enum { RECEIVES = 32, CONTROL = 1 };		/* CONTROL: a bit of wr_id */

/* --- buffers ------------------------------------------------------------------------- */

static int make_region(struct rsock *rs, struct rsock_region *r, size_t size, unsigned access)
{
	r->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->at == MAP_FAILED) {
		r->at = NULL;
		return -ENOMEM;
	}
	r->size = size;
	r->mr = ibv_reg_mr(rs->id->pd, r->at, size, access);
	return r->mr ? 0 : -errno;
}

static void drop_region(struct rsock_region *r)
{
	if (r->mr)
		ibv_dereg_mr(r->mr);
	if (r->at)
		munmap(r->at, r->size);
	*r = (struct rsock_region){ 0 };
}

static int make_buffers(struct rsock *rs)
{
	enum { REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	size_t shared = (size_t)RS_TARGETS * sizeof(struct rs_sge) +
			rs->iomaps * sizeof(struct rs_iomap);
	int rc = make_region(rs, &rs->rbuf, (size_t)rs->rcvbuf * 2, REMOTE);
	struct rs_memory m;

	if (!rc)
		rc = make_region(rs, &rs->sbuf, (size_t)rs->sndbuf * 2,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!rc)
		rc = make_region(rs, &rs->shared, shared, REMOTE);
	if (rc)
		return rc;
	m = (struct rs_memory){
		.rbuf = rs->rbuf.at, .sbuf = rs->sbuf.at,
		.rbuf_size = rs->rcvbuf * 2, .sbuf_size = rs->sndbuf * 2,
		.shared = rs->shared.at, .rbuf_key = rs->rbuf.mr->rkey,
		.shared_key = rs->shared.mr->rkey, .sq = rs->sq_size,
		.rq = rs->rq_size, .iomaps = rs->iomaps,
	};
	rs_init(&rs->s, &m);
	return 0;
}

/* --- the QP ----------------------------------------------------------------------------- */

static int receive(struct rsock *rs, int n)
{
	struct ibv_recv_wr wr[RECEIVES], *bad;

	memset(wr, 0, sizeof(wr));
	while (n > 0) {
		int now = n < RECEIVES ? n : RECEIVES, rc;

		for (int i = 0; i < now; i++)
			wr[i].next = i + 1 < now ? &wr[i + 1] : NULL;
		rc = ibv_post_recv(rs->id->qp, wr, &bad);
		if (rc)
			return -rc;
		n -= now;
	}
	return 0;
}

static int make_qp(struct rsock *rs)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = rs->sq_size + RS_CONTROLS,
			 .max_recv_wr = rs->rq_size + RS_CONTROLS,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = rs->inline_size > RS_IMAGE_MAX ?
					    rs->inline_size : RS_IMAGE_MAX },
	};

	rs->ch = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->ch || fcntl(rs->ch->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	rs->sleep_fd = rs->ch->fd;
	rs->rcq = ibv_create_cq(rs->id->verbs, (int)attr.cap.max_recv_wr, rs, rs->ch, 0);
	rs->scq = ibv_create_cq(rs->id->verbs, (int)attr.cap.max_send_wr, rs, rs->ch, 0);
	if (!rs->rcq || !rs->scq)
		return -errno;
	attr.recv_cq = rs->rcq;
	attr.send_cq = rs->scq;
	if (rdma_create_qp(rs->id, rs->id->pd, &attr))
		return -errno;
	return receive(rs, (int)attr.cap.max_recv_wr > rs->rq_size + RS_CONTROLS ?
			   rs->rq_size + RS_CONTROLS : (int)attr.cap.max_recv_wr);
}

int rsock_ep_create(struct rsock *rs)
{
	int rc = make_buffers(rs);

	return rc ? rc : make_qp(rs);
}

void rsock_ep_destroy(struct rsock *rs)
{
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	list_for_safe(n, &rs->maps) {
		struct rsock_map *m = container_of(n, struct rsock_map, node);

		ibv_dereg_mr(m->mr);
		free(m);
	}
	list_init(&rs->maps);
	drop_region(&rs->rbuf);
	drop_region(&rs->sbuf);
	drop_region(&rs->shared);
	if (rs->rcq)
		ibv_destroy_cq(rs->rcq);
	if (rs->scq)
		ibv_destroy_cq(rs->scq);
	if (rs->ch)
		ibv_destroy_comp_channel(rs->ch);
	rs->rcq = rs->scq = NULL;
	rs->ch = NULL;
	rs->sleep_fd = -1;
}

/* --- out --------------------------------------------------------------------------------- */

/* payload: what goes inline instead of w->from. */
int rsock_post(struct rsock *rs, const struct rs_write *w, const void *payload)
{
	const void *from = payload ? payload : w->from ? w->from : w->image;
	struct ibv_sge sge = {
		.addr = (uintptr_t)from, .length = w->len,
		.lkey = w->from ? rs->sbuf.mr->lkey : 0,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = (uint64_t)w->sbuf_bytes << 8 | (w->control ? CONTROL : 0),
		.sg_list = &sge, .num_sge = w->len ? 1 : 0,
		.opcode = w->has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.send_flags = from != w->from ? IBV_SEND_INLINE : 0,
		.imm_data = htobe32(w->imm),
		.wr.rdma = { .remote_addr = w->addr, .rkey = w->key },
	};
	int rc = ibv_post_send(rs->id->qp, &wr, &bad);

	if (rc)
		rsock_fail(rs, rc == EIO ? EIO : ECONNRESET);
	return -rc;
}

void rsock_fail(struct rsock *rs, int err)
{
	if (rs->state == RSOCK_DOWN)
		return;
	rs->state = RSOCK_DOWN;
	rs->read_end = rs->write_end = true;
	/* After a farewell there is nothing to miss. */
	if (!rs->peer_gone && !rs->said_bye)
		rs->err = err;
	rsock_wake(rs);
}

bool rsock_all_sent(const struct rsock *rs)
{
	return rs->state != RSOCK_UP || (!rs->s.data_out && !rs->s.control_out);
}

/* --- in ---------------------------------------------------------------------------------- */

static void take_immediate(struct rsock *rs, uint32_t imm)
{
	switch (rs_came(&rs->s, imm)) {
	case RS_EV_NONE: case RS_EV_DATA: case RS_EV_GRANT:
		break;
	case RS_EV_SHUTDOWN:
		rs->read_end = true;
		break;
	case RS_EV_DISCONNECT:
		rs->read_end = rs->write_end = rs->peer_gone = true;
		break;
	case RS_EV_BROKEN:
		rsock_fail(rs, EPROTO);
		break;
	}
}

/* All receives that have completed.  *status: of one that failed. */
static int take_receives(struct rsock *rs, enum ibv_wc_status *status)
{
	struct ibv_wc wc[RECEIVES];
	int all = 0, n;

	do {
		int good = 0;

		n = ibv_poll_cq(rs->rcq, RECEIVES, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS) {
				*status = wc[i].status;
				continue;
			}
			good++;
			if (!(wc[i].wc_flags & IBV_WC_WITH_IMM) &&
			    rs->state == RSOCK_UP)
				rsock_fail(rs, EPROTO);
			else if (rs->state == RSOCK_UP && !rs->peer_gone)
				take_immediate(rs, be32toh(wc[i].imm_data));
		}
		if (good && receive(rs, good))
			rsock_fail(rs, ECONNRESET);
		all += n > 0 ? n : 0;
	} while (n == RECEIVES);
	return all;
}

static int take_sends(struct rsock *rs, enum ibv_wc_status *status)
{
	struct ibv_wc wc[RECEIVES];
	int all = 0, n;

	do {
		n = ibv_poll_cq(rs->scq, RECEIVES, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS &&
			    (*status == IBV_WC_SUCCESS ||
			     *status == IBV_WC_WR_FLUSH_ERR))
				*status = wc[i].status;
			rs_sent(&rs->s, wc[i].wr_id & CONTROL,
				(uint32_t)(wc[i].wr_id >> 8));
		}
		all += n > 0 ? n : 0;
	} while (n == RECEIVES);
	return all;
}

static void grant(struct rsock *rs)
{
	struct rs_write w;

	while (rs->state == RSOCK_UP && !rs->peer_gone && rs_grant_due(&rs->s)) {
		rs_send_grant(&rs->s, &w);
		if (rsock_post(rs, &w, NULL))
			return;
	}
}

/* What came before a failure counts: the other queue may have more of it. */
void rsock_progress(struct rsock *rs)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	int n;

	if (rs->state < RSOCK_UP || !rs->rcq)
		return;
	n = take_receives(rs, &status);
	n += take_sends(rs, &status);
	if (status != IBV_WC_SUCCESS) {
		take_receives(rs, &status);
		rsock_fail(rs, status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
	}
	grant(rs);
	if (n)
		rsock_wake(rs);
}

/* --- sleeping ------------------------------------------------------------------------------ */

void rsock_arm(struct rsock *rs, bool for_space)
{
	if (rs->state < RSOCK_UP || !rs->rcq)
		return;
	if (!rs->armed_r)
		rs->armed_r = !ibv_req_notify_cq(rs->rcq, 0);
	if (!rs->armed_s && (for_space || !rs_may_control(&rs->s)))
		rs->armed_s = !ibv_req_notify_cq(rs->scq, 0);
}

/* Others may have counted on what is taken here. */
void rsock_take_events(struct rsock *rs)
{
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	if (!rs->ch)
		return;
	while (!ibv_get_cq_event(rs->ch, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		*(cq == rs->rcq ? &rs->armed_r : &rs->armed_s) = false;
		any = true;
	}
	if (any)
		rsock_wake(rs);
}
