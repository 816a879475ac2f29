/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - which requests can be posted, in which states, and how many. */
#include "errors.h"

enum { SQ = 16, RQ = 16, SGES = 4, INLINE = 64 };

static struct duo d;

static struct ibv_sge sge(void)
{
	return local(d.s, 0, 64);
}

static void set_target(struct ibv_send_wr *wr)
{
	wr->wr.rdma.remote_addr = (uintptr_t)d.s->buf + TARGET_AT;
	wr->wr.rdma.rkey = d.s->mr->rkey;
}

static int send_one(uint64_t id, unsigned flags)
{
	struct ibv_sge s = sge();
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_WRITE, &s, id);

	wr.send_flags = flags;
	set_target(&wr);
	return post_send(d.a, &wr);
}

static int recv_on(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge s = local(d.s, RECV_AT, 4096);
	struct ibv_recv_wr *bad = NULL, wr = { .wr_id = id, .sg_list = &s, .num_sge = 1 };
	int rc = ibv_post_recv(qp, &wr, &bad);

	CHECK(!rc || bad == &wr);
	return rc;
}

static void to(enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	CHECK(!ibv_modify_qp(d.a, &a, IBV_QP_STATE));
}

/* --- states -------------------------------------------------------------- */

static void reset_to_rts(void)
{
	struct ibv_qp_attr a;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	a = self_attr(d.s, d.b->qp_num);
	REFUSED(EINVAL, send_one(1, IBV_SEND_SIGNALED));
	log_must("%A: post refused: .*state");
	REFUSED(EINVAL, recv_on(d.a, 1));
	log_must("%A: post refused: .*RESET");
	qp_to(d.a, &a, IBV_QPS_INIT);
	REFUSED(EINVAL, send_one(2, IBV_SEND_SIGNALED));
	CHECK(!recv_on(d.a, 2));
	qp_to(d.a, &a, IBV_QPS_RTR);
	REFUSED(EINVAL, send_one(3, IBV_SEND_SIGNALED));
	CHECK(!recv_on(d.a, 3));
	expect_none(d.acq);
	to(IBV_QPS_ERR);
	expect(d.acq, 2, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	expect(d.acq, 3, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	expect_none(d.acq);
	duo_drop(&d);
}

static void in_error(void)
{
	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	to(IBV_QPS_ERR);
	CHECK(!send_one(1, 0));
	expect(d.acq, 1, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	CHECK(!recv_on(d.a, 2));
	expect(d.acq, 2, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	CHECK(state_of(d.b) == IBV_QPS_RTS);
	to(IBV_QPS_RESET);
	REFUSED(EINVAL, send_one(3, 0));
	duo_drop(&d);
}

static void in_sqd(void)
{
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	to(IBV_QPS_SQD);
	CHECK(!send_one(1, IBV_SEND_SIGNALED));
	CHECK(!poll_one(d.acq, &wc, 30)); /* the SEND is queued */
	CHECK(!recv_on(d.a, 2));
	to(IBV_QPS_RTS);
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.acq);
	duo_drop(&d);
}

/* A bad lkey brings UC and UD to SQE: sends are flushed, receives go on. */
static void in_sqe(enum ibv_qp_type type)
{
	struct ibv_sge bad = { (uintptr_t)side(false)->buf, 64, 0 }, good;
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &bad, 1);
	struct ibv_ah *ah;

	d = duo_make(type, 64, 64, NULL);
	duo_up(&d);
	CHECK((ah = ah_to(d.s, &d.s->mine.gid)));
	if (type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = d.b->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	CHECK(!post_send(d.a, &wr));
	expect(d.acq, 1, IBV_WC_LOC_PROT_ERR, V_LOCAL_KEY);
	CHECK(state_of(d.a) == IBV_QPS_SQE);
	good = sge();
	wr.sg_list = &good;
	wr.wr_id = 2;
	wr.send_flags = 0;
	CHECK(!post_send(d.a, &wr));
	expect(d.acq, 2, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);

	/* receives still work */
	CHECK(!recv_on(d.a, 3));
	wr.wr_id = 4;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (type == IBV_QPT_UD)
		wr.wr.ud.remote_qpn = d.a->qp_num;
	CHECK(!post_send(d.b, &wr));
	expect(d.acq, 3, IBV_WC_SUCCESS, V_NONE);
	expect(d.bcq, 4, IBV_WC_SUCCESS, V_NONE);

	/* after a move to RTS the QP sends again */
	to(IBV_QPS_RTS);
	CHECK(!recv_on(d.b, 5));
	wr.wr_id = 6;
	if (type == IBV_QPT_UD)
		wr.wr.ud.remote_qpn = d.b->qp_num;
	CHECK(!post_send(d.a, &wr));
	expect(d.acq, 6, IBV_WC_SUCCESS, V_NONE);
	expect(d.bcq, 5, IBV_WC_SUCCESS, V_NONE);
	CHECK(!ibv_destroy_ah(ah));
	duo_drop(&d);
}

static void uc_in_sqe(void)
{
	in_sqe(IBV_QPT_UC);
}

static void ud_in_sqe(void)
{
	in_sqe(IBV_QPT_UD);
}

/* --- how much ------------------------------------------------------------ */

/* Each row makes one field of a good request wrong. */
static void bad_requests(void)
{
	static uint8_t data[2 * INLINE];
	struct ibv_sge many[SGES + 1], s, in = { (uintptr_t)data, INLINE + 1, 0 };
	struct ibv_sge eight[2], huge[2];
	struct ibv_send_wr good, wr;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	s = sge();
	good = wr_of(IBV_WR_RDMA_WRITE, &s, 1);
	set_target(&good);
	for (int i = 0; i <= SGES; i++)
		many[i] = local(d.s, 0, 8);
	huge[0] = huge[1] = (struct ibv_sge){ s.addr, 0x40000000, s.lkey };
	eight[0] = eight[1] = local(d.s, 0, 8);

#define SPOIL(re, ...)                                                                   \
	do {                                                                             \
		wr = good;                                                               \
		__VA_ARGS__;                                                             \
		REFUSED(EINVAL, post_send(d.a, &wr));                                    \
		log_must("%A: post refused: .*" re);                                     \
		log_mark();                                                              \
	} while (0)

	SPOIL("max_send_sge", wr.sg_list = many, wr.num_sge = SGES + 1);
	SPOIL("max_send_sge", wr.num_sge = INT32_MAX);
	SPOIL("negative", wr.num_sge = -1);
	SPOIL("negative", wr.num_sge = INT32_MIN);
	SPOIL("sg_list is NULL", wr.sg_list = NULL);
	SPOIL("opcode", wr.opcode = (enum ibv_wr_opcode)99);
	SPOIL("opcode", wr.opcode = (enum ibv_wr_opcode) - 1);
	SPOIL("opcode", wr.opcode = IBV_WR_TSO);
	SPOIL("opcode", wr.opcode = IBV_WR_DRIVER1);
	SPOIL("flag", wr.send_flags = 1u << 31);
	SPOIL("flag", wr.send_flags = 1u << 10);
	SPOIL("max_inline", wr.sg_list = &in, wr.send_flags = IBV_SEND_INLINE);
	SPOIL("inline", wr.opcode = IBV_WR_RDMA_READ, wr.send_flags = IBV_SEND_INLINE);
	SPOIL("inline", wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, wr.sg_list = eight,
	      wr.send_flags = IBV_SEND_INLINE);
	SPOIL("bytes, of which 2147483647 are possible", wr.sg_list = huge,
	      wr.num_sge = 2);
	SPOIL("bytes, of which 2147483647 are possible", wr.sg_list = huge,
	      wr.num_sge = 2, wr.opcode = IBV_WR_RDMA_READ);
	SPOIL("bytes, of which 2147483647 are possible", wr.sg_list = huge,
	      wr.num_sge = 2, wr.opcode = IBV_WR_SEND);
	SPOIL("8 bytes", wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD);
	SPOIL("8 bytes", wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, wr.num_sge = 0);
	SPOIL("8 bytes", wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, wr.sg_list = eight,
	      wr.num_sge = 2);
	SPOIL("window", wr.opcode = IBV_WR_BIND_MW, wr.bind_mw.mw = NULL);
#undef SPOIL
	CHECK(state_of(d.a) == IBV_QPS_RTS);
	expect_none(d.acq);
	CHECK(!post_send(d.a, &good));
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	duo_drop(&d);
}

/* Which QP type takes which opcode (IBTA table 37), typed here again. */
static void opcodes_by_type(void)
{
	static const struct {
		enum ibv_wr_opcode op;
		bool uc, ud;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, true, false },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, true, false },
		{ IBV_WR_SEND, true, true },
		{ IBV_WR_SEND_WITH_IMM, true, true },
		{ IBV_WR_RDMA_READ, false, false },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, false, false },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, false, false },
		{ IBV_WR_SEND_WITH_INV, false, false },
		{ IBV_WR_TSO, false, false },
	};
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_sge s = local(side(false), 0, 8);

	for (size_t t = 0; t < COUNT(types); t++) {
		struct ibv_ah *ah;

		d = duo_make(types[t], 64, 64, NULL);
		duo_up(&d);
		CHECK((ah = ah_to(d.s, &d.s->mine.gid)));
		for (size_t i = 0; i < COUNT(ops); i++) {
			bool ok = types[t] == IBV_QPT_UC ? ops[i].uc : ops[i].ud;
			struct ibv_send_wr wr = wr_of(ops[i].op, &s, i);

			if (types[t] == IBV_QPT_UD) {
				wr.wr.ud.ah = ah;
				wr.wr.ud.remote_qpn = d.b->qp_num;
			} else {
				set_target(&wr);
			}
			REFUSED(ok ? 0 : EINVAL, post_send(d.a, &wr));
			if (ok)
				expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
			else
				log_must("%A: post refused: the opcode");
			log_mark();
		}
		CHECK(!ibv_destroy_ah(ah));
		duo_drop(&d);
	}
}

static void ud_addresses(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah, *other;
	struct ibv_send_wr wr;
	struct ibv_sge s;

	d = duo_make(IBV_QPT_UD, 64, 64, NULL);
	duo_up(&d);
	s = sge();
	wr = wr_of(IBV_WR_SEND, &s, 1);
	attr.grh.dgid = d.s->mine.gid;
	attr.grh.sgid_index = d.s->gid_index;
	CHECK((ah = ibv_create_ah(d.s->pd, &attr)));
	CHECK((other = ibv_create_ah(d.s->pd2, &attr)));
	REFUSED(EINVAL, post_send(d.a, &wr));
	log_must("%A: post refused: there is no address");
	wr.wr.ud.ah = other;
	REFUSED(EINVAL, post_send(d.a, &wr));
	log_must("%A: post refused: .*another PD");
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 1 << 24;
	REFUSED(EINVAL, post_send(d.a, &wr));
	log_must("%A: post refused: .*24 bits");
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(other));
	duo_drop(&d);
}

/* --- full queues and chains ---------------------------------------------- */

static void queues_full(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	CHECK(!ibv_query_qp(d.a, &a, IBV_QP_CAP, &init));
	CHECK(a.cap.max_send_wr >= SQ && a.cap.max_recv_wr >= RQ);
	to(IBV_QPS_SQD); /* nothing leaves the queue */
	for (unsigned i = 0; i < a.cap.max_send_wr; i++)
		CHECK(!send_one(i, IBV_SEND_SIGNALED));
	REFUSED(ENOMEM, send_one(99, 0));
	log_must("%A: post refused: .*send queue is full");
	log_mark();
	for (unsigned i = 0; i < a.cap.max_recv_wr; i++)
		CHECK(!recv_on(d.a, 200 + i));
	REFUSED(ENOMEM, recv_on(d.a, 99));
	log_must("%A: post refused: .*receive queue is full");
	to(IBV_QPS_RTS);
	for (unsigned i = 0; i < a.cap.max_send_wr; i++)
		expect(d.acq, i, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.acq);
	CHECK(!send_one(5, IBV_SEND_SIGNALED));
	expect(d.acq, 5, IBV_WC_SUCCESS, V_NONE);
	duo_drop(&d);
}

/* Requests before the bad one are executed; the bad one and those behind it are not. */
static void chain(void)
{
	struct ibv_sge s = local(side(false), 0, 64);
	struct ibv_send_wr wr[4], *bad = NULL;
	struct ibv_recv_wr rwr[3], *rbad = NULL;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	for (int i = 0; i < 4; i++) {
		wr[i] = wr_of(IBV_WR_RDMA_WRITE, &s, (uint64_t)i);
		set_target(&wr[i]);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	wr[2].num_sge = 99;
	errno = 0;
	CHECK(ibv_post_send(d.a, wr, &bad) == EINVAL && bad == &wr[2]);
	expect(d.acq, 0, IBV_WC_SUCCESS, V_NONE);
	expect(d.acq, 1, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.acq);

	for (int i = 0; i < 3; i++)
		rwr[i] = (struct ibv_recv_wr){ .wr_id = 10 + (uint64_t)i,
					       .sg_list = &s,
					       .num_sge = i == 1 ? 99 : 1,
					       .next = i < 2 ? &rwr[i + 1] : NULL };
	CHECK(ibv_post_recv(d.a, rwr, &rbad) == EINVAL && rbad == &rwr[1]);
	log_must("%A: post refused: .*max_recv_sge");
	rwr[0] = (struct ibv_recv_wr){ .num_sge = -1, .sg_list = &s };
	CHECK(ibv_post_recv(d.a, rwr, &rbad) == EINVAL && rbad == &rwr[0]);
	rwr[0] = (struct ibv_recv_wr){ .num_sge = 1 };
	CHECK(ibv_post_recv(d.a, rwr, &rbad) == EINVAL && rbad == &rwr[0]);
	to(IBV_QPS_ERR);
	expect(d.acq, 10, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	expect_none(d.acq);
	duo_drop(&d);
}

/* Requests are flushed in the order of posting, each once; sends and receives. */
static void flush_order(void)
{
	unsigned sends = 0, recvs = 0;
	struct ibv_wc wc;

	d = duo_make(IBV_QPT_RC, 64, 64, NULL);
	duo_up(&d);
	to(IBV_QPS_SQD);
	for (uint64_t i = 0; i < 8; i++) {
		CHECK(!send_one(i, i % 2 ? IBV_SEND_SIGNALED : 0));
		CHECK(!recv_on(d.a, 100 + i));
	}
	to(IBV_QPS_ERR);
	while (sends + recvs < 16) {
		CHECK(poll_one(d.acq, &wc, 1000));
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.vendor_err == V_FLUSHED);
		CHECK(wc.qp_num == d.a->qp_num);
		if (wc.wr_id < 100)
			CHECK(wc.wr_id == sends++);
		else
			CHECK(wc.wr_id == 100 + recvs++);
	}
	expect_none(d.acq);
	CHECK(state_of(d.b) == IBV_QPS_RTS);
	duo_drop(&d);
}

const struct local_row post_rows[] = {
	{ "post_in_reset_init_rtr", reset_to_rts },
	{ "post_in_error", in_error },
	{ "post_in_sqd", in_sqd },
	{ "post_uc_in_sqe", uc_in_sqe },
	{ "post_ud_in_sqe", ud_in_sqe },
	{ "post_bad_requests", bad_requests },
	{ "post_opcodes_by_type", opcodes_by_type },
	{ "post_ud_addresses", ud_addresses },
	{ "post_queues_full", queues_full },
	{ "post_chain", chain },
	{ "post_flush_order", flush_order },
	{ NULL, NULL },
};
