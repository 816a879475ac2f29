/* SPDX-License-Identifier: BSD-2-Clause */
/* built.c - every ibv_wr_*() that posts, and every ibv_wc_read_*() of what it becomes. */
#include "../pairs/pairs.h"
#include "feature.h"

#include <time.h>

enum {
	OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
	      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
	      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
	      IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
	      IBV_QP_EX_WITH_SEND_WITH_INV,
	IB_OPS = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_WRITE,
	FIELDS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
		 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
		 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	BACK_AT = 4096,
	GRH = 40,
	IMM = 0x0a0b0c0d,
};

static struct ibv_cq_ex *seen; /* the CQ of B's receives */
static uint64_t since[2];      /* readings of the device's clock and of the time of day */

/* --- reading --------------------------------------------------------------- */

static uint64_t device_clock(struct side *s)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(!ibv_query_rt_values_ex(s->ctx, &v));
	return (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t time_of_day(void)
{
	struct timespec t;

	CHECK(!clock_gettime(CLOCK_REALTIME, &t));
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void open_seen(struct side *s)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 16, .wc_flags = FIELDS };

	CHECK((seen = ibv_create_cq_ex(s->ctx, &a)));
	since[0] = device_clock(s);
	since[1] = time_of_day();
}

static void close_seen(struct side *s)
{
	(void)s;
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(seen)));
}

/* Starts reading the next completion, and checks the fields that all have in common. */
static void next_seen(struct side *s, uint64_t id, enum ibv_wc_opcode opcode,
		      uint32_t len)
{
	struct ibv_poll_cq_attr none = { 0 };
	uint64_t end = now_ms() + 10000;
	int rc;

	do {
		rc = ibv_start_poll(seen, &none);
	} while (rc == ENOENT && now_ms() < end);
	CHECK(!rc && !seen->status && seen->wr_id == id);
	CHECK(!ibv_wc_read_vendor_err(seen));
	CHECK(ibv_wc_read_opcode(seen) == opcode);
	CHECK(ibv_wc_read_byte_len(seen) == len);
	CHECK(ibv_wc_read_qp_num(seen) == s->qp->qp_num);
	CHECK(ibv_wc_read_completion_ts(seen) >= since[0]);
	CHECK(ibv_wc_read_completion_ts(seen) <= device_clock(s));
	CHECK(ibv_wc_read_completion_wallclock_ns(seen) + 1000000 >= since[1]);
	CHECK(ibv_wc_read_completion_wallclock_ns(seen) <= time_of_day() + 1000000);
}

static void read_plain(struct side *s, uint64_t id, uint32_t len)
{
	next_seen(s, id, IBV_WC_RECV, len);
	CHECK(!(ibv_wc_read_wc_flags(seen) & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)));
	ibv_end_poll(seen);
}

static void read_imm(struct side *s, uint64_t id, enum ibv_wc_opcode opcode, uint32_t len)
{
	next_seen(s, id, opcode, len);
	CHECK(ibv_wc_read_wc_flags(seen) & IBV_WC_WITH_IMM);
	CHECK(ibv_wc_read_imm_data(seen) == IMM);
	ibv_end_poll(seen);
}

static void read_inv(struct side *s, uint64_t id, uint32_t len, uint32_t rkey)
{
	next_seen(s, id, IBV_WC_RECV, len);
	CHECK(ibv_wc_read_wc_flags(seen) & IBV_WC_WITH_INV);
	CHECK(ibv_wc_read_invalidated_rkey(seen) == rkey);
	ibv_end_poll(seen);
}

/* --- posting ---------------------------------------------------------------- */

static struct ibv_qp *with_all(struct side *s)
{
	return end_qp(s, s->pd, s->is_b ? ibv_cq_ex_to_cq(seen) : s->rcq,
		      (uint64_t)OPS | (is_iwarp() ? 0 : IB_OPS));
}

static struct ibv_qp_ex *start(struct side *s, uint64_t id)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);

	CHECK(x);
	x->wr_id = id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(x);
	return x;
}

static void done(struct side *s, struct ibv_qp_ex *x, enum ibv_wc_opcode opcode)
{
	CHECK(!ibv_wr_complete(x));
	CHECK(expect(s->scq, x->wr_id, IBV_WC_SUCCESS, V_NONE).opcode == opcode);
}

static void sge(struct side *s, struct ibv_qp_ex *x, uint32_t at, uint32_t len)
{
	ibv_wr_set_sge(x, s->mr->lkey, (uintptr_t)s->buf + at, len);
}

/* Returns the key of the window once it is bound. */
static uint32_t bind(struct side *s, struct ibv_mw *mw, uint32_t at)
{
	struct ibv_mw_bind_info info = { .mr = s->mr,
					 .addr = (uintptr_t)s->buf + at,
					 .length = 256,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
							    IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_ATOMIC };
	const uint32_t key = ibv_inc_rkey(mw->rkey);
	struct ibv_qp_ex *x = start(s, 90);

	ibv_wr_bind_mw(x, mw, key, &info);
	done(s, x, IBV_WC_BIND_MW);
	return key;
}

static void writes(struct side *s)
{
	struct ibv_sge list[2] = { local(s, 0, 32), local(s, 32, 32) };
	static const char half[] = "0123456", rest[] = "789";
	struct ibv_data_buf bufs[2] = { { (void *)(uintptr_t)half, 7 },
					{ (void *)(uintptr_t)rest, 4 } };
	struct ibv_qp_ex *x = start(s, 1);

	memset(s->buf, 0x11, 32);
	memset(s->buf + 32, 0x22, 32);
	ibv_wr_rdma_write(x, s->theirs.rkey, s->theirs.addr);
	ibv_wr_set_sge_list(x, 2, list);
	done(s, x, IBV_WC_RDMA_WRITE);
	x = start(s, 2);
	ibv_wr_rdma_write_imm(x, s->theirs.rkey, s->theirs.addr + 64, IMM);
	ibv_wr_set_inline_data_list(x, 2, bufs);
	done(s, x, IBV_WC_RDMA_WRITE);
}

static void reads_and_atomics(struct side *s)
{
	uint64_t *word = (uint64_t *)(s->buf + BACK_AT), value = 77;
	struct ibv_qp_ex *x = start(s, 3);

	ibv_wr_rdma_read(x, s->theirs.rkey, s->theirs.addr);
	sge(s, x, BACK_AT, 75);
	done(s, x, IBV_WC_RDMA_READ);
	CHECK(s->buf[BACK_AT] == 0x11 && s->buf[BACK_AT + 63] == 0x22);
	CHECK(!strcmp((char *)s->buf + BACK_AT + 64, "0123456789"));
	x = start(s, 4);
	ibv_wr_atomic_cmp_swp(x, s->theirs.rkey, s->theirs.addr + 128, 0x5a5a5a5a5a5a5a5a,
			      40);
	sge(s, x, BACK_AT, 8);
	done(s, x, IBV_WC_COMP_SWAP);
	CHECK(*word == 0x5a5a5a5a5a5a5a5a);
	x = start(s, 5);
	ibv_wr_atomic_fetch_add(x, s->theirs.rkey, s->theirs.addr + 128, 2);
	sge(s, x, BACK_AT, 8);
	done(s, x, IBV_WC_FETCH_ADD);
	CHECK(*word == 40);
	if (is_iwarp())
		return;
	x = start(s, 6);
	newer(x).wr_atomic_write(x, s->theirs.rkey, s->theirs.addr + 136, &value);
	done(s, x, IBV_WC_ATOMIC_WRITE);
}

static void sends(struct side *s)
{
	struct ibv_qp_ex *x = start(s, 7);

	ibv_wr_send(x);
	sge(s, x, 0, 64);
	done(s, x, IBV_WC_SEND);
	if (!is_iwarp()) {
		x = start(s, 8);
		ibv_wr_send_imm(x, IMM);
		ibv_wr_set_inline_data(x, s->buf, 5);
		done(s, x, IBV_WC_SEND);
	}
	x = start(s, 9);
	ibv_wr_send_inv(x, s->theirs.rkey);
	sge(s, x, 0, 9);
	done(s, x, IBV_WC_SEND);
}

/* A window of A's own, which can be invalidated while it is bound. */
static void invalidates(struct side *s)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
	struct ibv_qp_ex *x;
	uint32_t key;

	CHECK(mw);
	key = bind(s, mw, 0);
	x = start(s, 10);
	ibv_wr_local_inv(x, key);
	done(s, x, IBV_WC_LOCAL_INV);
	x = start(s, 11);
	ibv_wr_local_inv(x, key ^ 0x5a5a5a00);
	CHECK(!ibv_wr_complete(x));
	expect(s->scq, 11, IBV_WC_MW_BIND_ERR, V_INVALIDATE);
	CHECK(!ibv_dealloc_mw(mw));
}

static void all_arrived(struct side *s, uint32_t rkey)
{
	const uint8_t *at = s->buf + TARGET_AT;
	uint64_t words[2];

	read_imm(s, 20, IBV_WC_RECV_RDMA_WITH_IMM, 11);
	read_plain(s, 21, 64);
	if (!is_iwarp())
		read_imm(s, 22, IBV_WC_RECV, 5);
	read_inv(s, is_iwarp() ? 22 : 23, 9, rkey);
	CHECK(at[0] == 0x11 && at[31] == 0x11 && at[32] == 0x22 && at[63] == 0x22);
	CHECK(!strcmp((const char *)at + 64, "0123456789") && at[75] == 0x5a);
	memcpy(words, at + 128, sizeof(words));
	CHECK(words[0] == 42 && (is_iwarp() || words[1] == 77));
}

static void every_post(void)
{
	struct ibv_mw *mw = NULL;

	ON_B(s)
	{
		open_seen(s);
		memset(s->buf + TARGET_AT, 0x5a, 256);
		CHECK((mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2)));
	}
	up_with(with_all);
	ON_B(s)
	{
		s->mine.addr = (uintptr_t)s->buf + TARGET_AT;
		s->mine.rkey = bind(s, mw, TARGET_AT);
		for (uint64_t id = 20; id < 24; id++)
			CHECK(!post_recv(s, id, 4096));
	}
	sync_sides();
	ON_A(s)
	{
		writes(s);
		reads_and_atomics(s);
		sends(s);
	}
	sync_sides();
	ON_B(s) all_arrived(s, s->mine.rkey);
	sync_sides();
	/* The key that B was asked to invalidate is no longer valid. */
	ON_A(s)
	CHECK(read_64(s, s->theirs.addr, s->theirs.rkey) == IBV_WC_REM_ACCESS_ERR);
	down();
	ON_B(s) CHECK(!ibv_dealloc_mw(mw));
	up_with(with_all);
	ON_A(s) invalidates(s);
	down();
	ON_B(s) close_seen(s);
}

/* --- datagrams -------------------------------------------------------------- */

static struct ibv_qp *datagrams(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->scq,
		.recv_cq = s->is_b ? ibv_cq_ex_to_cq(seen) : s->rcq,
		.qp_type = IBV_QPT_UD,
		.cap = { 16, 16, 4, 4, 64 },
		.pd = s->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};

	return ibv_create_qp_ex(s->ctx, &init);
}

static uint32_t violations(struct side *s)
{
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(s->ctx, 1, &port));
	return port.qkey_viol_cntr;
}

/* B drops one datagram for its Q_Key, between two good ones. */
static void send_three(struct side *s)
{
	struct ibv_ah *ah = ah_to(s, &s->theirs.gid);

	CHECK(ah);
	for (uint64_t id = 1; id <= 3; id++) {
		struct ibv_qp_ex *x = start(s, id);

		if (id == 3)
			ibv_wr_send_imm(x, IMM);
		else
			ibv_wr_send(x);
		ibv_wr_set_ud_addr(x, ah, s->theirs.qpn, id == 2 ? QKEY ^ 1 : QKEY);
		sge(s, x, 0, (uint32_t)id);
		done(s, x, IBV_WC_SEND);
	}
	CHECK(!ibv_destroy_ah(ah));
}

static void datagram_read(struct side *s, uint64_t id, uint32_t len, bool imm)
{
	next_seen(s, id, IBV_WC_RECV, GRH + len);
	CHECK(ibv_wc_read_src_qp(seen) == s->theirs.qpn);
	CHECK(ibv_wc_read_slid(seen) == s->theirs.lid);
	/* On RoCE v2 the type of the network header takes the place of the SL, as on
	 * ConnectX: 8 is UDP. */
	CHECK(!ibv_wc_read_sl(seen) || (!s->theirs.lid && ibv_wc_read_sl(seen) & 8));
	CHECK(!ibv_wc_read_dlid_path_bits(seen));
	CHECK(ibv_wc_read_wc_flags(seen) & IBV_WC_GRH);
	CHECK(!(ibv_wc_read_wc_flags(seen) & IBV_WC_WITH_IMM) == !imm);
	CHECK(!imm || ibv_wc_read_imm_data(seen) == IMM);
	ibv_end_poll(seen);
}

static void every_datagram(void)
{
	struct ibv_device_attr attr;
	uint32_t before = 0;

	ON_B(s) open_seen(s);
	up_with(datagrams);
	ON_B(s)
	{
		before = violations(s);
		CHECK(!post_recv(s, 30, 4096) && !post_recv(s, 31, 4096));
	}
	sync_sides();
	ON_A(s) send_three(s);
	sync_sides();
	ON_B(s)
	{
		datagram_read(s, 30, 1, false);
		datagram_read(s, 31, 3, true);
		CHECK(!ibv_query_device(s->ctx, &attr));
		CHECK(attr.device_cap_flags & IBV_DEVICE_BAD_QKEY_CNTR);
		CHECK(violations(s) == before + 1);
	}
	down();
	ON_B(s) close_seen(s);
}

/* --- XRC --------------------------------------------------------------------- */

static struct ibv_qp *xrc_sender(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = s->pd,
		.send_cq = s->scq,
		.cap = { .max_send_wr = 16, .max_send_sge = 4 },
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return s->is_b ? xrc_qp(s) : ibv_create_qp_ex(s->ctx, &init);
}

/* Two SENDs to B's SRQ, and one to an SRQ that does not exist. */
static void send_to_srqs(struct side *s)
{
	for (uint64_t id = 1; id <= 3; id++) {
		struct ibv_qp_ex *x = start(s, id);

		s->buf[0] = (uint8_t)(0x30 + id);
		ibv_wr_send(x);
		ibv_wr_set_xrc_srqn(x, s->theirs.srqn[id > 2]);
		sge(s, x, 0, (uint32_t)id);
		if (id <= 2) {
			done(s, x, IBV_WC_SEND);
			continue;
		}
		CHECK(!ibv_wr_complete(x));
		expect(s->scq, id, IBV_WC_REM_INV_REQ_ERR, V_REM_INVALID);
	}
}

static void every_xrc_post(void)
{
	struct ibv_srq *srq = NULL;

	ON_B(s)
	{
		CHECK((srq = xrc_open(s, XRC_GOOD)));
		for (uint32_t id = 40; id < 43; id++) {
			struct ibv_sge into = local(s, RECV_AT + id * 64, 64);
			struct ibv_recv_wr *bad,
				wr = { .wr_id = id, .sg_list = &into, .num_sge = 1 };

			CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
		}
	}
	up_with(xrc_sender);
	ON_A(s) send_to_srqs(s);
	sync_sides();
	ON_B(s)
	{
		for (uint32_t id = 40; id < 42; id++) {
			struct ibv_wc wc = expect(s->rcq, id, IBV_WC_SUCCESS, V_NONE);

			CHECK(wc.byte_len == id - 39);
			CHECK(s->buf[RECV_AT + id * 64] == 0x30 + id - 39);
		}
		expect_none(s->rcq);
	}
	down();
	ON_B(s)
	{
		CHECK(!ibv_destroy_srq(srq));
		xrc_drop();
	}
}

const struct feature built_rows[] = {
	{ "every_post", every_post, false },
	{ "every_datagram", every_datagram, true },
	{ "every_xrc_post", every_xrc_post, true },
	{ NULL, NULL, false },
};
