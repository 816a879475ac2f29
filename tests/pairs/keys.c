/* SPDX-License-Identifier: BSD-2-Clause */
/* keys.c - keys and windows, made invalid as a row says. */
#include "pairs.h"

enum { WINDOW_AT = TARGET_AT, WINDOW_LEN = 64, BIND_ID = 900, PATIENCE_MS = 10000 };

static struct {
	struct ibv_mw *mw;
	struct ibv_mr *mr; /* what it is bound to */
	struct ibv_qp *qp;
	struct ibv_cq *cq;
} w;

static uint32_t region(struct side *s, struct ibv_pd *pd, uint8_t *at, size_t len,
		       unsigned rights)
{
	return extra_mr(s, ibv_reg_mr_iova2(pd, at, len, (uintptr_t)at, rights))->lkey;
}

struct ibv_sge spoil(struct side *s, enum key key, uint32_t at, uint32_t len, int needed)
{
	struct ibv_sge good = local(s, at, len);
	struct ibv_mr *mr;
	unsigned rights = (unsigned)ALL_ACCESS & ~(unsigned)needed;

	if (needed & IBV_ACCESS_LOCAL_WRITE)
		rights = IBV_ACCESS_REMOTE_READ;
	switch (key) {
	case KEY_GOOD:
		break;
	case KEY_UNKNOWN:
		good.lkey = 0xdeadbe00;
		break;
	case KEY_GENERATION:
		good.lkey ^= 1;
		break;
	case KEY_STALE:
		CHECK((mr = ibv_reg_mr(s->pd, s->buf, BUF, IBV_ACCESS_LOCAL_WRITE)));
		good.lkey = mr->lkey;
		CHECK(!ibv_dereg_mr(mr));
		break;
	case KEY_EXACT:
		rights = ALL_ACCESS;
		good.lkey = region(s, s->pd, s->buf + at, 64, rights);
		break;
	case KEY_WRAP:
		good.addr = (uint64_t)-8;
		break;
	case KEY_PD:
		good.lkey = region(s, s->pd2, s->buf, BUF,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ);
		break;
	case KEY_RIGHTS:
		good.lkey = region(s, s->pd, s->buf, BUF, rights);
		break;
	case KEY_READ:
		good.lkey = region(s, s->pd, s->buf, BUF, IBV_ACCESS_REMOTE_READ);
		break;
	case KEY_LOCAL:
		good.lkey = region(s, s->pd, s->buf, BUF, IBV_ACCESS_LOCAL_WRITE);
		break;
	}
	return good;
}

/* --- windows ------------------------------------------------------------- */

static void bound(struct ibv_send_wr *wr)
{
	struct ibv_wc wc;

	CHECK(!post_send(w.qp, wr));
	CHECK(poll_one(w.cq, &wc, PATIENCE_MS));
	CHECK(wc.wr_id == BIND_ID && wc.status == IBV_WC_SUCCESS);
}

static struct ibv_mw_bind_info info_of(struct side *s, unsigned rights)
{
	return (struct ibv_mw_bind_info){ .mr = w.mr,
					  .addr = (uintptr_t)s->buf + WINDOW_AT,
					  .length = WINDOW_LEN,
					  .mw_access_flags = rights };
}

static void bind_1(struct ibv_mw_bind_info info)
{
	struct ibv_mw_bind b = { .wr_id = BIND_ID,
				 .send_flags = IBV_SEND_SIGNALED,
				 .bind_info = info };
	struct ibv_wc wc;

	CHECK(!ibv_bind_mw(w.qp, w.mw, &b));
	CHECK(poll_one(w.cq, &wc, PATIENCE_MS));
	CHECK(wc.wr_id == BIND_ID && wc.status == IBV_WC_SUCCESS);
}

static struct ibv_send_wr bind_2(struct ibv_mw_bind_info info)
{
	return (struct ibv_send_wr){ .wr_id = BIND_ID,
				     .opcode = IBV_WR_BIND_MW,
				     .send_flags = IBV_SEND_SIGNALED,
				     .bind_mw = { .mw = w.mw,
						  .rkey = ibv_inc_rkey(w.mw->rkey),
						  .bind_info = info } };
}

static void take_2(void)
{
	struct ibv_send_wr wr = { .wr_id = BIND_ID,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = w.mw->rkey };

	bound(&wr);
}

static void open_2(struct side *s, unsigned rights)
{
	struct ibv_send_wr wr = bind_2(info_of(s, rights));

	bound(&wr);
	w.mw->rkey = wr.bind_mw.rkey;
}

static bool is_type_1(enum win win)
{
	return win == WIN_1 || win == WIN_1_UNBOUND || win == WIN_1_TAKEN ||
	       win == WIN_1_RIGHTS || win == WIN_1_OLD || win == WIN_1_PD;
}

static void make(struct side *s, enum win win)
{
	struct ibv_pd *pd = win == WIN_1_PD ? s->pd2 : s->pd;

	w.qp = win == WIN_2_QP ? s->by_qp : s->qp;
	w.cq = win == WIN_2_QP ? s->by_cq : s->scq;
	CHECK((w.mr = ibv_reg_mr(pd, s->buf, BUF, ALL_ACCESS)));
	extra_mr(s, w.mr);
	CHECK((w.mw = ibv_alloc_mw(pd, is_type_1(win) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)));
}

/* The window is bound by a QP of the other PD, which is connected to itself only. */
static void bind_in_pd2(struct side *s)
{
	struct ibv_qp_init_attr init = { .send_cq = s->by_cq,
					 .recv_cq = s->by_cq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr a;

	CHECK((w.qp = ibv_create_qp(s->pd2, &init)));
	w.cq = s->by_cq;
	a = self_attr(s, w.qp->qp_num);
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		qp_to(w.qp, &a, (enum ibv_qp_state)to);
	bind_1(info_of(s, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
	CHECK(!ibv_destroy_qp(w.qp));
}

static uint32_t key_of(struct side *s, enum win win)
{
	const unsigned rights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	uint32_t old;

	if (win == WIN_REGION)
		return s->mr->rkey;
	if (win == WIN_NOBODY)
		return 0xdeadbe00;
	make(s, win);
	switch (win) {
	case WIN_1:
		bind_1(info_of(s, rights));
		break;
	case WIN_1_RIGHTS:
		bind_1(info_of(s, IBV_ACCESS_REMOTE_READ));
		break;
	case WIN_1_OLD:
		bind_1(info_of(s, rights));
		old = w.mw->rkey;
		bind_1(info_of(s, rights));
		return old;
	case WIN_1_TAKEN:
		bind_1(info_of(s, rights));
		old = w.mw->rkey;
		bind_1((struct ibv_mw_bind_info){ 0 });
		return old;
	case WIN_1_PD:
		bind_in_pd2(s);
		break;
	case WIN_2:
	case WIN_2_QP:
		open_2(s, rights);
		break;
	case WIN_2_RIGHTS:
		open_2(s, IBV_ACCESS_REMOTE_READ);
		break;
	case WIN_2_TAKEN:
		open_2(s, rights);
		take_2();
		break;
	case WIN_NONE:
	case WIN_1_UNBOUND:
	case WIN_2_UNBOUND:
	case WIN_REGION:
	case WIN_NOBODY:
		break;
	}
	return w.mw->rkey;
}

void window_open(struct side *s, enum win win)
{
	s->mine.rkey = key_of(s, win);
}

uint32_t own_key(struct side *s, enum win win)
{
	return key_of(s, win);
}

struct ibv_send_wr bind_of(struct side *s, enum bind bind)
{
	struct ibv_mw_bind_info *info;
	struct ibv_send_wr wr;
	struct ibv_mw *other;

	make(s, WIN_2);
	if (bind == BIND_TWICE)
		open_2(s, IBV_ACCESS_REMOTE_READ);
	wr = bind_2(info_of(s, IBV_ACCESS_REMOTE_WRITE));
	info = &wr.bind_mw.bind_info;
	switch (bind) {
	case BIND_NONE:
	case BIND_GOOD:
	case BIND_TWICE:
		break;
	case BIND_INDEX:
		wr.bind_mw.rkey ^= 0xffffff00;
		break;
	case BIND_NO_MW:
		info->mr = extra_mr(s, ibv_reg_mr(s->pd, s->buf, BUF,
						  IBV_ACCESS_LOCAL_WRITE |
							  IBV_ACCESS_REMOTE_WRITE));
		break;
	case BIND_NO_WRITE:
		info->mr =
			extra_mr(s, ibv_reg_mr(s->pd, s->buf, BUF, IBV_ACCESS_MW_BIND));
		break;
	case BIND_LONG:
		info->addr = (uintptr_t)s->buf;
		info->length = BUF + 1;
		break;
	case BIND_BELOW:
		info->addr = (uintptr_t)s->buf - 1;
		break;
	case BIND_WRAP:
		info->length = (uint64_t)-8;
		break;
	case BIND_ZERO:
		info->length = 0;
		break;
	case BIND_PD:
		info->mr = extra_mr(s, ibv_reg_mr(s->pd2, s->buf, BUF, ALL_ACCESS));
		break;
	case BIND_WIN_PD:
		CHECK((other = ibv_alloc_mw(s->pd2, IBV_MW_TYPE_2)));
		CHECK(!ibv_dealloc_mw(w.mw));
		w.mw = other;
		wr.bind_mw.mw = other;
		wr.bind_mw.rkey = ibv_inc_rkey(other->rkey);
		break;
	}
	return wr;
}

void windows_drop(void)
{
	if (w.mw)
		CHECK(!ibv_dealloc_mw(w.mw));
	w.mw = NULL;
}
