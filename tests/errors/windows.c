/* SPDX-License-Identifier: BSD-2-Clause */
/* windows.c - memory windows: bound, used, invalidated; and every wrong use of them. */
#include "errors.h"

static struct duo d;
static struct ibv_mr *region; /* QP b's region, to which windows may be bound */
static struct ibv_mw *mw;

enum { AT = TARGET_AT, LEN = 4096 };

static void open_duo(enum ibv_mw_type type)
{
	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	CHECK((region = ibv_reg_mr(d.s->pd, d.s->buf, BUF, ALL_ACCESS)));
	CHECK((mw = ibv_alloc_mw(d.s->pd, type)));
}

static void close_duo(void)
{
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(region));
	duo_drop(&d);
}

static struct ibv_send_wr bind_wr(void)
{
	return (struct ibv_send_wr){
		.wr_id = 20,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = { .mr = region,
					    .addr = (uintptr_t)d.s->buf + AT,
					    .length = LEN,
					    .mw_access_flags =
						    IBV_ACCESS_REMOTE_WRITE } },
	};
}

static uint32_t bound(void)
{
	struct ibv_send_wr wr = bind_wr();

	CHECK(!post_send(d.b, &wr));
	expect(d.bcq, 20, IBV_WC_SUCCESS, V_NONE);
	return mw->rkey = wr.bind_mw.rkey;
}

static void write_to(uint32_t rkey, uint32_t at, uint32_t len, bool good)
{
	struct ibv_sge s = local(d.s, 0, len);
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_WRITE, &s, 1);

	wr.wr.rdma.remote_addr = (uintptr_t)d.s->buf + at;
	wr.wr.rdma.rkey = rkey;
	CHECK(!post_send(d.a, &wr));
	if (good) {
		expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
		return;
	}
	expect(d.acq, 1, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	expect_event(d.s, IBV_EVENT_QP_ACCESS_ERR, d.b);
	CHECK(state_of(d.a) == IBV_QPS_ERR && state_of(d.b) == IBV_QPS_ERR);
}

static void revive(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	CHECK(!ibv_modify_qp(d.a, &reset, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(d.b, &reset, IBV_QP_STATE));
	duo_up(&d);
}

static void use(void)
{
	struct ibv_sge s = local(side(false), 0, 64);
	struct ibv_send_wr wr;
	uint32_t rkey;

	open_duo(IBV_MW_TYPE_2);
	write_to(mw->rkey, AT, 64, false); /* the window is not bound yet */
	log_must("%B: .*rkey .*window not bound");
	revive();
	rkey = bound();
	write_to(rkey, AT, LEN, true);
	write_to(rkey, AT, LEN + 1, false);
	log_must("%B: .*range outside");
	revive();
	wr = wr_of(IBV_WR_RDMA_READ, &s, 2);
	wr.wr.rdma.remote_addr = (uintptr_t)d.s->buf + AT;
	wr.wr.rdma.rkey = rkey;
	CHECK(!post_send(d.a, &wr)); /* the window is bound for WRITE only */
	expect(d.acq, 2, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	expect_event(d.s, IBV_EVENT_QP_ACCESS_ERR, d.b);
	revive();

	/* The key of a window is no lkey. */
	s.lkey = rkey;
	wr = wr_of(IBV_WR_SEND, &s, 3);
	CHECK(!post_send(d.b, &wr));
	expect(d.bcq, 3, IBV_WC_LOC_PROT_ERR, V_LOCAL_KEY);
	revive();
	close_duo();
}

static void invalidate(void)
{
	struct ibv_sge s, r;
	struct ibv_recv_wr *bad, rwr = { .wr_id = 10, .sg_list = &r, .num_sge = 1 };
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	uint32_t rkey;

	open_duo(IBV_MW_TYPE_2);
	s = local(d.s, 0, 64);
	r = local(d.s, RECV_AT, 64);
	rkey = bound();
	CHECK(!ibv_post_recv(d.b, &rwr, &bad));
	wr = wr_of(IBV_WR_SEND_WITH_INV, &s, 4);
	wr.invalidate_rkey = rkey;
	CHECK(!post_send(d.a, &wr));
	expect(d.acq, 4, IBV_WC_SUCCESS, V_NONE);
	wc = expect(d.bcq, 10, IBV_WC_SUCCESS, V_NONE);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == rkey);
	write_to(rkey, AT, 64, false);
	log_must("%B: .*invalidated");
	revive();

	/* The key of an invalidated window, or of a region, is not that of a bound
	 * window. */
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_post_recv(d.b, &rwr, &bad));
		wr.invalidate_rkey = i ? region->rkey : 0x12345600;
		CHECK(!post_send(d.a, &wr));
		expect(d.acq, 4, IBV_WC_RETRY_EXC_ERR, V_TIMEOUT); /* no NAK */
		expect(d.bcq, 10, IBV_WC_REM_INV_REQ_ERR, V_INVALIDATE);
		log_must("%B: .*cannot be invalidated");
		log_mark();
		revive();
	}
	write_to(region->rkey, AT, 64, true);

	/* Local invalidation: by b, which has bound the window, then by a. */
	rkey = bound();
	wr = wr_of(IBV_WR_LOCAL_INV, NULL, 5);
	wr.invalidate_rkey = rkey;
	CHECK(!post_send(d.b, &wr));
	expect(d.bcq, 5, IBV_WC_SUCCESS, V_NONE);
	rkey = bound();
	wr.invalidate_rkey = rkey;
	CHECK(!post_send(d.a, &wr)); /* the window is bound to b */
	expect(d.acq, 5, IBV_WC_MW_BIND_ERR, V_INVALIDATE);
	CHECK(state_of(d.a) == IBV_QPS_ERR && state_of(d.b) == IBV_QPS_RTS);
	log_must("%A: .*not a type 2 window");
	close_duo();
}

/* Each row makes one field of a good bind wrong; the QP fails with
 * IBV_WC_MW_BIND_ERR. */
static void bad_binds(void)
{
	struct ibv_mr *unbindable, *unwritable, *foreign;
	struct ibv_send_wr wr;
	struct ibv_mw *other;
	uint32_t rkey;

	open_duo(IBV_MW_TYPE_2);
	CHECK((unbindable = ibv_reg_mr(d.s->pd, d.s->buf, BUF, IBV_ACCESS_LOCAL_WRITE)));
	CHECK((unwritable = ibv_reg_mr(d.s->pd, d.s->buf, BUF, IBV_ACCESS_MW_BIND)));
	CHECK((foreign = ibv_reg_mr(d.s->pd2, d.s->buf, BUF, ALL_ACCESS)));
	CHECK((other = ibv_alloc_mw(d.s->pd2, IBV_MW_TYPE_2)));
#define SPOIL(re, ...)                                                                   \
	do {                                                                             \
		wr = bind_wr();                                                          \
		__VA_ARGS__;                                                             \
		log_mark();                                                              \
		CHECK(!post_send(d.b, &wr));                                             \
		expect(d.bcq, 20, IBV_WC_MW_BIND_ERR, V_BIND);                           \
		CHECK(state_of(d.b) == IBV_QPS_ERR);                                     \
		log_must("bind of window .* refused: .*" re);                            \
		revive();                                                                \
	} while (0)
	SPOIL("MW_BIND", wr.bind_mw.bind_info.mr = unbindable);
	SPOIL("LOCAL_WRITE", wr.bind_mw.bind_info.mr = unwritable);
	SPOIL("protection domain", wr.bind_mw.bind_info.mr = foreign);
	SPOIL("no such memory region", wr.bind_mw.bind_info.mr = NULL);
	SPOIL("protection domain", wr.bind_mw.mw = other,
	      wr.bind_mw.rkey = ibv_inc_rkey(other->rkey));
	SPOIL("no length", wr.bind_mw.bind_info.length = 0);
	SPOIL("range", wr.bind_mw.bind_info.length = BUF);
	SPOIL("range", wr.bind_mw.bind_info.length = UINT64_MAX);
	SPOIL("range", wr.bind_mw.bind_info.addr -= BUF);
	SPOIL("access flags", wr.bind_mw.bind_info.mw_access_flags = 1u << 31);
#undef SPOIL
	/* Of the new key only the low byte counts, which may be the old one. */
	wr = bind_wr();
	rkey = wr.bind_mw.rkey = mw->rkey;
	wr.bind_mw.rkey ^= 0x12345600;
	CHECK(!post_send(d.b, &wr) && mw->rkey == rkey);
	expect(d.bcq, 20, IBV_WC_SUCCESS, V_NONE);
	write_to(rkey, AT, LEN, true);
	wr = bind_wr(); /* the window is bound already */
	CHECK(!post_send(d.b, &wr));
	expect(d.bcq, 20, IBV_WC_MW_BIND_ERR, V_BIND);
	log_must("invalidated first");
	CHECK(!ibv_dealloc_mw(other));
	CHECK(!ibv_dereg_mr(unbindable) && !ibv_dereg_mr(unwritable) &&
	      !ibv_dereg_mr(foreign));
	close_duo();
}

/* ibv_bind_mw(), which is for type 1 only. */
static void bind_verb(void)
{
	struct ibv_mw_bind good, b;
	struct ibv_mw *second;
	struct ibv_mr *foreign;

	open_duo(IBV_MW_TYPE_1);
	CHECK((second = ibv_alloc_mw(d.s->pd, IBV_MW_TYPE_2)));
	CHECK((foreign = ibv_reg_mr(d.s->pd2, d.s->buf, BUF, ALL_ACCESS)));
	good = (struct ibv_mw_bind){ .wr_id = 20,
				     .send_flags = IBV_SEND_SIGNALED,
				     .bind_info = { .mr = region,
						    .addr = (uintptr_t)d.s->buf + AT,
						    .length = LEN,
						    .mw_access_flags =
							    IBV_ACCESS_REMOTE_WRITE } };
	REFUSED(EINVAL, ibv_bind_mw(d.b, second, &good));
	b = good, b.bind_info.mr = NULL;
	REFUSED(EINVAL, ibv_bind_mw(d.b, mw, &b));
	b = good, b.bind_info.mr = foreign;
	REFUSED(EPERM, ibv_bind_mw(d.b, mw, &b));
	CHECK(!ibv_bind_mw(d.b, mw, &good));
	expect(d.bcq, 20, IBV_WC_SUCCESS, V_NONE);
	write_to(mw->rkey, AT, LEN, true);
	CHECK(!ibv_bind_mw(d.b, mw, &good)); /* each bind gives another key */
	expect(d.bcq, 20, IBV_WC_SUCCESS, V_NONE);
	write_to(mw->rkey, AT, LEN, true);
	b = (struct ibv_mw_bind){ .wr_id = 20, .send_flags = IBV_SEND_SIGNALED };
	CHECK(!ibv_bind_mw(d.b, mw, &b)); /* length 0 unbinds */
	expect(d.bcq, 20, IBV_WC_SUCCESS, V_NONE);
	write_to(mw->rkey, AT, 8, false);
	CHECK(!ibv_dealloc_mw(second) && !ibv_dereg_mr(foreign));
	close_duo();
}

static void freed_while_bound(void)
{
	uint32_t rkey;

	open_duo(IBV_MW_TYPE_2);
	rkey = bound();
	write_to(rkey, AT, 64, true);
	CHECK(!ibv_dealloc_mw(mw));
	write_to(rkey, AT, 64, false);
	log_must("%B: .*key unknown");
	CHECK((mw = ibv_alloc_mw(d.s->pd, IBV_MW_TYPE_2)));
	close_duo();
}

/* A type 2 window can be used by the QP that bound it only. */
static void other_qp(void)
{
	struct ibv_send_wr wr;
	uint32_t rkey;

	open_duo(IBV_MW_TYPE_2);
	wr = bind_wr();
	CHECK(!post_send(d.a, &wr));
	expect(d.acq, 20, IBV_WC_SUCCESS, V_NONE);
	rkey = wr.bind_mw.rkey;
	write_to(rkey, AT, 64, false); /* by QP b */
	log_must("%B: .*bound to another QP");
	close_duo();
}

const struct local_row window_rows[] = {
	{ "window_use", use },
	{ "window_invalidate", invalidate },
	{ "window_bad_binds", bad_binds },
	{ "window_bind_verb", bind_verb },
	{ "window_freed_while_bound", freed_while_bound },
	{ "window_other_qp", other_qp },
	{ NULL, NULL },
};
