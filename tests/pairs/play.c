/* SPDX-License-Identifier: BSD-2-Clause */
/* play.c - plays a row: both ends prepare, A posts, and both record what they see. */
#include "pairs.h"

#include <endian.h>

#include "seen.h"

enum {
	RECV = 100,
	RECVS = 4,
	A_RECVS = 2,
	B_SENDS = 2,
	SMALL = 16,
	WAIT_MS = 50, /* time in which nothing may happen */
	AHEAD_AT = 16 << 10,
	BEHIND_LAST = 64, /* bytes; all other messages have other lengths */
};

bool iwarp;
static const struct row *row;
static struct ibv_srq *srq;
static struct ibv_ah *ah;
static unsigned posted; /* number of A's requests, in order of posting */

static enum ibv_qp_type type(void)
{
	return row->type ? row->type : row->xrc ? IBV_QPT_XRC_SEND : IBV_QPT_RC;
}

static bool atomic(void)
{
	return row->op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       row->op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint32_t length(void)
{
	if (atomic() || row->op == IBV_WR_ATOMIC_WRITE)
		return 8;
	return row->len == NONE ? 0 : row->len ? row->len : 64;
}

static unsigned receives(void)
{
	return row->recvs == NONE ? 0 : row->recvs ? row->recvs : RECVS;
}

/* Is a good SEND posted ahead of the row's request? */
static bool ahead(void)
{
	return receives() && !row->late_ms && row->own == OWN_RTS &&
	       (row->peer == PEER_UP || row->peer == PEER_RTR || row->peer == PEER_SQD);
}

/* --- preparing ----------------------------------------------------------- */

static int remote_right(void)
{
	return atomic()			     ? IBV_ACCESS_REMOTE_ATOMIC
	       : row->op == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
					     : IBV_ACCESS_REMOTE_WRITE;
}

static void make_srq(struct side *s)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	CHECK((srq = ibv_create_srq(s->pd, &attr)));
}

static void make(struct side *s)
{
	struct ibv_sge target;

	memset(s->buf, s->is_b ? 0x5a : 0xa5, BY_AT);
	if (s->is_b && row->srq)
		make_srq(s);
	if (s->is_b && row->xrc)
		srq = xrc_open(s, row->xrc);
	if (row->xrc) {
		CHECK((s->qp = xrc_qp(s)));
		s->mine.qpn = s->qp->qp_num;
	} else if (!iwarp) {
		struct ibv_qp_init_attr init = {
			.send_cq = s->scq,
			.recv_cq = s->rcq,
			.srq = s->is_b ? srq : NULL,
			.qp_type = type(),
			.cap = { 16, 16, 4, 4, 64 },
		};
		CHECK((s->qp = ibv_create_qp(s->pd, &init)));
		s->mine.qpn = s->qp->qp_num;
	}
	if (!s->is_b)
		return;
	target = spoil(s, row->rkey, TARGET_AT, length(), remote_right());
	s->mine.addr = target.addr + (uint64_t)row->off;
	s->mine.rkey = target.lkey;
	if (row->peer == PEER_GONE) {
		CHECK(!ibv_destroy_qp(s->qp));
		s->qp = NULL;
	}
}

static enum ibv_qp_state up_to(const struct side *s)
{
	static const enum ibv_qp_state own[] = {
		[OWN_RTS] = IBV_QPS_RTS,   [OWN_RESET] = IBV_QPS_RESET,
		[OWN_INIT] = IBV_QPS_INIT, [OWN_RTR] = IBV_QPS_RTR,
		[OWN_SQD] = IBV_QPS_RTS,   [OWN_ERR] = IBV_QPS_RTS
	};
	static const enum ibv_qp_state peer[] = {
		[PEER_UP] = IBV_QPS_RTS,      [PEER_RTR] = IBV_QPS_RTR,
		[PEER_SQD] = IBV_QPS_RTS,     [PEER_GONE] = IBV_QPS_RESET,
		[PEER_RESET] = IBV_QPS_RESET, [PEER_INIT] = IBV_QPS_INIT,
		[PEER_ERR] = IBV_QPS_RTS,
	};

	return s->is_b ? peer[row->peer] : own[row->own];
}

static uint16_t pkey_index(struct side *s, uint16_t pkey)
{
	int i = pkey ? ibv_get_pkey_index(s->ctx, 1, htobe16(pkey)) : 0;

	CHECK(i >= 0);
	return (uint16_t)i;
}

static void bring_up(struct side *s)
{
	struct ibv_qp_attr a = qp_attr(s, &s->theirs);

	if (iwarp)
		return;
	a.timeout = UNHURRIED;
	a.pkey_index = pkey_index(s, s->is_b ? row->pkey_b : row->pkey_a);
	if (s->is_b)
		a.qp_access_flags &= ~row->no_right;
	if (row->attr)
		row->attr(&a, s->is_b);
	for (int to = IBV_QPS_INIT; to <= (int)up_to(s); to++)
		qp_to(s->qp, &a, (enum ibv_qp_state)to);
}

static void post_receives(struct side *s, unsigned n, unsigned bad)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t len = row->recv_len && i == bad ? row->recv_len : 4096;
		struct ibv_sge sge = i == bad ? spoil(s, row->recv_key, RECV_AT, len,
						      IBV_ACCESS_LOCAL_WRITE)
					      : local(s, RECV_AT, len);
		struct ibv_recv_wr *none,
			wr = { .wr_id = RECV + i, .sg_list = &sge, .num_sge = 1 };

		CHECK(!(s->is_b && srq ? ibv_post_srq_recv(srq, &wr, &none)
				       : ibv_post_recv(s->qp, &wr, &none)));
	}
}

static void b_posts_receives(void)
{
	post_receives(side(true), receives(), ahead() ? 1 : 0);
}

static void to_state(struct side *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	CHECK(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE));
}

static void b_is_ready(struct side *s)
{
	struct ibv_srq_attr limit = { .srq_limit = row->limit };
	struct ibv_sge sge = local(s, 0, SMALL);
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, 1);

	if (row->win && row->op != IBV_WR_LOCAL_INV)
		window_open(s, row->win);
	if (!row->late_ms && row->peer != PEER_GONE && row->peer != PEER_RESET)
		b_posts_receives();
	if (row->limit)
		CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	for (; row->b_sends && wr.wr_id <= B_SENDS; wr.wr_id++)
		CHECK(!post_send(s->qp, &wr));
	if (row->peer == PEER_ERR)
		to_state(s, IBV_QPS_ERR);
	if (row->peer == PEER_SQD)
		to_state(s, IBV_QPS_SQD);
}

static void ready(struct side *s)
{
	if (s->is_b) {
		b_is_ready(s);
		return;
	}
	if (!row->b_sends && !row->xrc && row->own != OWN_RESET)
		post_receives(s, A_RECVS, A_RECVS);
	if (row->own == OWN_SQD)
		to_state(s, IBV_QPS_SQD);
	if (row->own == OWN_ERR)
		to_state(s, IBV_QPS_ERR);
}

/* --- A posts ------------------------------------------------------------- */

static void address(struct side *s, struct ibv_send_wr *wr)
{
	if (type() == IBV_QPT_UD) {
		wr->wr.ud.ah = ah;
		wr->wr.ud.remote_qpn = s->theirs.qpn;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (atomic()) {
		wr->wr.atomic.remote_addr = s->theirs.addr;
		wr->wr.atomic.rkey = s->theirs.rkey;
		wr->wr.atomic.compare_add = 0x5a5a5a5a5a5a5a5a;
		wr->wr.atomic.swap = 1;
	} else {
		wr->wr.rdma.remote_addr = s->theirs.addr;
		wr->wr.rdma.rkey = s->theirs.rkey;
	}
}

static struct ibv_send_wr request(struct side *s, struct ibv_sge *sge)
{
	const bool into = row->op == IBV_WR_RDMA_READ || atomic();
	struct ibv_send_wr wr;

	if (row->bind) {
		wr = bind_of(s, row->bind);
		return wr;
	}
	*sge = spoil(s, row->lkey, 0, length(), into ? IBV_ACCESS_LOCAL_WRITE : 0);
	sge->addr += (uint64_t)row->loff;
	wr = wr_of(row->op, row->op == IBV_WR_LOCAL_INV ? NULL : sge, 0);
	wr.send_flags |= row->flags;
	address(s, &wr);
	if (type() == IBV_QPT_UD)
		wr.wr.ud.remote_qkey ^= row->qkey_xor;
	wr.qp_type.xrc.remote_srqn = s->theirs.srqn[row->xrc > XRC_GOOD];
	if (row->op == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = own_key(s, row->win);
	if (row->op == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = s->theirs.rkey;
	return wr;
}

static struct ibv_send_wr small(struct side *s, struct ibv_sge *sge, uint32_t len)
{
	struct ibv_send_wr wr;

	*sge = local(s, AHEAD_AT, len);
	wr = wr_of(IBV_WR_SEND, sge, 0);
	if (type() == IBV_QPT_UD)
		address(s, &wr);
	wr.qp_type.xrc.remote_srqn = s->theirs.srqn[0];
	return wr;
}

static void post_chain(struct side *s, struct ibv_send_wr *wr, unsigned n)
{
	struct ibv_send_wr *bad = NULL;
	int rc;

	for (unsigned i = 0; i < n; i++) {
		wr[i].wr_id = ++posted;
		wr[i].send_flags |= IBV_SEND_SIGNALED;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	rc = ibv_post_send(s->qp, wr, &bad);
	if (rc)
		seen_refused(rc);
}

static unsigned behind(struct side *s, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	if (row->last)
		return 0;
	wr[0] = small(s, &sge[0], SMALL);
	wr[1] = small(s, &sge[1], BEHIND_LAST);
	return 2;
}

/* Over iWARP a SEND completes when it is sent, so chance decides whether the SENDs
 * behind a failing request complete. There (apart) they are posted after the failure. */
static void post_all(struct side *s, bool apart)
{
	unsigned n = row->count ? row->count : 1, k = 0;
	struct ibv_send_wr wr[16];
	struct ibv_sge sge[4];

	if (ahead())
		wr[k++] = small(s, &sge[0], SMALL);
	for (unsigned i = 0; i < n; i++, k++)
		wr[k] = i ? wr[k - 1] : request(s, &sge[1]);
	if (!apart)
		k += behind(s, &wr[k], &sge[2]);
	post_chain(s, wr, k);
	if (!apart)
		return;
	seen_until_err(s);
	post_chain(s, wr, behind(s, wr, sge));
}

/* --- both look ----------------------------------------------------------- */

static void wait_a_while(struct side *s)
{
	if (plays(false) && (row->late_ms || row->own == OWN_SQD))
		seen_nothing_for(s, row->late_ms ? row->late_ms : WAIT_MS);
	sync_sides();
	if (plays(true) && row->late_ms)
		b_posts_receives();
	if (plays(false) && row->own == OWN_SQD)
		to_state(s, IBV_QPS_RTS);
}

static bool changed(const struct side *s)
{
	uint32_t from = s->is_b ? TARGET_AT : 0;

	for (uint32_t i = from; i < from + TARGET_LEN; i++)
		if (s->buf[i] != (s->is_b ? 0x5a : 0xa5))
			return true;
	return false;
}

static void connect_all(void)
{
	if (iwarp)
		iwarp_connect(NULL);
	sync_sides();
	each(bring_up);
	sync_sides();
}

static void drop(struct side *s)
{
	if (!iwarp && s->qp)
		CHECK(!ibv_destroy_qp(s->qp));
	s->qp = NULL;
}

static void tidy(void)
{
	if (iwarp)
		iwarp_drop();
	each(drop);
	windows_drop();
	if (srq)
		CHECK(!ibv_destroy_srq(srq));
	xrc_drop();
	if (ah)
		CHECK(!ibv_destroy_ah(ah));
	each(drop_extras);
}

void play(const struct row *r, const char *want_a, const char *want_b)
{
	struct side *a = plays(false) ? side(false) : NULL;

	row = r;
	seen_begin(row->some);
	bystanders();
	each(make);
	connect_all();
	each(ready);
	sync_sides();
	if (a) {
		if (type() == IBV_QPT_UD)
			CHECK((ah = ah_to(a, &a->theirs.gid)));
		post_all(a, iwarp && strstr(row->ia, ", ERR"));
	}
	wait_a_while(a);
	if (a)
		seen_until(a, want_a, changed);
	sync_sides();
	if (plays(true))
		seen_until(side(true), want_b, changed);
	bystanders();
	if (a)
		seen_say(a, row->name, changed);
	if (plays(true))
		seen_say(side(true), row->name, changed);
	sync_sides();
	tidy();
}
