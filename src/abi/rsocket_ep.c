/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_ep.c - a connection's QP, its buffers, and the messages that go and
 * come.  All under rs->lock. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/rsocket.h"

enum {
	RECEIVES = 32,
	CONTROL = 1, PART = 2,		/* bits of wr_id; PART: more follows */
};

/* iWARP has no immediates (rdma-core uses none of RFC 7306's): they are sent. */
static bool is_by_send(const struct rsock *rs)
{
	return rs->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

static int receives(const struct rsock *rs)
{
	return rs->rq_size + (is_by_send(rs) ? RS_CONTROLS_SENT : RS_CONTROLS);
}

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
	if (!rc && is_by_send(rs))
		rc = make_region(rs, &rs->messages, (size_t)receives(rs) * RS_MESSAGE,
				 IBV_ACCESS_LOCAL_WRITE);
	if (rc)
		return rc;
	m = (struct rs_memory){
		.rbuf = rs->rbuf.at, .sbuf = rs->sbuf.at,
		.rbuf_size = rs->rcvbuf * 2, .sbuf_size = rs->sndbuf * 2,
		.shared = rs->shared.at, .rbuf_key = rs->rbuf.mr->rkey,
		.shared_key = rs->shared.mr->rkey, .sq = rs->sq_size,
		.rq = rs->rq_size, .iomaps = rs->iomaps, .no_rnr = is_by_send(rs),
	};
	rs_init(&rs->s, &m);
	return 0;
}

/* --- the QP ----------------------------------------------------------------------------- */

static uint8_t *message_at(const struct rsock *rs, uint64_t slot)
{
	return rs->messages.at + slot * RS_MESSAGE;
}

/* n <= RECEIVES */
static int receive(struct rsock *rs, const uint64_t *slots, int n)
{
	struct ibv_recv_wr wr[RECEIVES], *bad;
	struct ibv_sge sge[RECEIVES];

	for (int i = 0; i < n; i++) {
		wr[i] = (struct ibv_recv_wr){ .wr_id = slots[i],
					      .next = i + 1 < n ? &wr[i + 1] : NULL };
		if (!rs->messages.at)
			continue;
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)message_at(rs, slots[i]),
			.length = RS_MESSAGE, .lkey = rs->messages.mr->lkey,
		};
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
	}
	return n ? -ibv_post_recv(rs->id->qp, wr, &bad) : 0;
}

static int receive_all(struct rsock *rs)
{
	uint64_t slots[RECEIVES];
	int rc = 0, n;

	for (int at = 0; !rc && at < receives(rs); at += n) {
		for (n = 0; n < RECEIVES && at + n < receives(rs); n++)
			slots[n] = (uint64_t)(at + n);
		rc = receive(rs, slots, n);
	}
	return rc;
}

static int make_qp(struct rsock *rs)
{
	uint32_t sends = (uint32_t)(rs->sq_size + RS_CONTROLS) * (is_by_send(rs) ? 2 : 1);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = sends, .max_recv_wr = (uint32_t)receives(rs),
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = rs->inline_size > RS_IMAGE_MAX ?
					    rs->inline_size : RS_IMAGE_MAX },
	};

	rs->ch = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->ch || fcntl(rs->ch->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	rs->sleep_fd = rs->ch->fd;
	rs->rcq = ibv_create_cq(rs->id->verbs, receives(rs), rs, rs->ch, 0);
	rs->scq = ibv_create_cq(rs->id->verbs, (int)sends, rs, rs->ch, 0);
	if (!rs->rcq || !rs->scq)
		return -errno;
	attr.recv_cq = rs->rcq;
	attr.send_cq = rs->scq;
	if (rdma_create_qp(rs->id, rs->id->pd, &attr))
		return -errno;
	return receive_all(rs);
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
	drop_region(&rs->messages);
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

/* payload: what goes inline instead of w->from.  On iWARP what would be an
 * immediate follows in a message of its own. */
int rsock_post(struct rsock *rs, const struct rs_write *w, const void *payload)
{
	const void *from = payload ? payload : w->from ? w->from : w->image;
	bool two = w->has_imm && rs->messages.at;
	struct ibv_sge data = {
		.addr = (uintptr_t)from, .length = w->len,
		.lkey = w->from ? rs->sbuf.mr->lkey : 0,
	}, message = { .addr = (uintptr_t)&w->imm, .length = RS_MESSAGE };
	struct ibv_send_wr *bad, send = {
		.wr_id = (uint64_t)w->sbuf_bytes << 8 | (w->control ? CONTROL : 0),
		.sg_list = &message, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	}, write = {
		.wr_id = two ? PART : send.wr_id, .next = two ? &send : NULL,
		.sg_list = &data, .num_sge = w->len ? 1 : 0,
		.opcode = w->has_imm && !two ? IBV_WR_RDMA_WRITE_WITH_IMM :
					       IBV_WR_RDMA_WRITE,
		.send_flags = (from != w->from ? IBV_SEND_INLINE : 0u) |
			      (two ? 0u : IBV_SEND_SIGNALED),
		.imm_data = htobe32(w->imm),
		.wr.rdma = { .remote_addr = w->addr, .rkey = w->key },
	};
	int rc = ibv_post_send(rs->id->qp, two && !w->len ? &send : &write, &bad);

	if (rc)
		rsock_fail(rs, rc == EIO ? EIO : ECONNRESET);
	return -rc;
}

void rsock_fail(struct rsock *rs, int err)
{
	bool ended = rs->read_end && rs->write_end;

	if (rs->state == RSOCK_DOWN)
		return;
	rs->state = RSOCK_DOWN;
	rs->read_end = rs->write_end = true;
	/* After a farewell, or both ends' last data, there is nothing to miss. */
	if (!rs->peer_gone && !rs->said_bye && !ended)
		rs->err = err;
	rsock_wake(rs);
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
		if (rs->messages.at)	/* see rsock_is_over() */
			rdma_disconnect(rs->id);
		break;
	case RS_EV_BROKEN:
		rsock_fail(rs, EPROTO);
		break;
	}
}

/* False: it is no message of rsockets. */
static bool immediate_of(const struct rsock *rs, const struct ibv_wc *wc, uint32_t *imm)
{
	bool by_send = rs->messages.at;

	if (by_send == !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (by_send && wc->byte_len != RS_MESSAGE))
		return false;
	*imm = by_send ? rs_message(&rs->s, message_at(rs, wc->wr_id)) :
			 be32toh(wc->imm_data);
	return true;
}

/* All receives that have completed, but no more than there are: a peer may send
 * faster than we look.  *status: of one that failed. */
static int take_receives(struct rsock *rs, enum ibv_wc_status *status)
{
	struct ibv_wc wc[RECEIVES];
	uint64_t slots[RECEIVES];
	int all = 0, n;

	do {
		uint32_t imm;
		int good = 0;

		n = ibv_poll_cq(rs->rcq, RECEIVES, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS) {
				*status = wc[i].status;
				continue;
			}
			slots[good++] = wc[i].wr_id;
			if (rs->state != RSOCK_UP)
				continue;
			if (!immediate_of(rs, &wc[i], &imm))
				rsock_fail(rs, EPROTO);
			else if (!rs->peer_gone)
				take_immediate(rs, imm);
		}
		if (good && receive(rs, slots, good))
			rsock_fail(rs, ECONNRESET);
		all += n > 0 ? n : 0;
	} while (n == RECEIVES && all < receives(rs));
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
			if (!(wc[i].wr_id & PART))
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

static void say_due(struct rsock *rs)
{
	struct rs_write w;

	for (unsigned i = 0; rs->due && i <= RS_SHUTDOWN; i++) {
		if (rs->state != RSOCK_UP || rs->peer_gone)
			rs->due = 0;
		if (!(rs->due & 1u << i) || !rs_may_control(&rs->s))
			continue;
		rs->due &= ~(1u << i);
		rs_send_control(&rs->s, (enum rs_control)i, &w);
		(void)rsock_post(rs, &w, NULL);
	}
}

void rsock_say(struct rsock *rs, enum rs_control what)
{
	rs->due |= 1u << what;
	rsock_progress(rs);
}

void rsock_grant(struct rsock *rs)
{
	if (rs_may_control(&rs->s))
		grant(rs);
	else
		rsock_progress(rs);
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
	say_due(rs);
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
