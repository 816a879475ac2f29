/* SPDX-License-Identifier: BSD-2-Clause */
/* What work requests do, between two QPs and over a stream. */
#include "iwarp/fix.h"

static void write_send_and_read(struct fix *f)
{
	static const uint32_t len[] = { 0,    1,    2,	  3,	255,	256,   257,
					1424, 1428, 1429, 3000, 100000, 300000 };
	uint64_t id = 1;

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct ibv_wc wc;

		memset(f->mem[1], 0xee, FIX_MEM);
		fix_post(f, IBV_WR_RDMA_WRITE, id, 64, len[i], 0);
		wc = fix_wc(f, 0, id++, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
		sim_run(f->s, SEC);
		fix_same(f, 64, len[i]);
		assert_int_equal(f->mem[1][63], 0xee);
		assert_int_equal(f->mem[1][64 + len[i]], 0xee);

		memset(f->mem[1], 0xee, FIX_MEM);
		fix_recv(f, 1000 + id, 128, len[i] + 5);
		fix_post(f, IBV_WR_SEND, id, 128, len[i], 0);
		wc = fix_wc(f, 1, 1000 + id, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, len[i]);
		assert_int_equal(wc.wc_flags, 0);
		fix_wc(f, 0, id++, IBV_WC_SUCCESS);
		fix_same(f, 128, len[i]);
		assert_int_equal(f->mem[1][128 + len[i]], 0xee);

		memset(f->mem[0], 0x55, FIX_MEM);
		for (size_t j = 0; j < FIX_MEM; j++)
			f->mem[1][j] = (uint8_t)(j + j / 256);
		fix_post(f, IBV_WR_RDMA_READ, id, 32, len[i], 0);
		wc = fix_wc(f, 0, id++, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
		assert_int_equal(wc.byte_len, len[i]);
		fix_same(f, 32, len[i]);
		assert_int_equal(f->mem[0][31], 0x55);
		assert_int_equal(f->mem[0][32 + len[i]], 0x55);
	}
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	/* As the program sees them, which has connected them. */
	assert_int_equal(f->p.qp[0]->ex.qp_base.state, IBV_QPS_RTS);
	assert_int_equal(f->p.qp[1]->ex.qp_base.state, IBV_QPS_RTS);
	assert_int_equal(sim_event(f->s, 0), -1);
	assert_int_equal(sim_event(f->s, 1), -1);
}

static void operations(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		struct sim_conf c = {
			.crc = i & 1,
			.markers = { i & 2, i & 4 },
			.stream = { .latency = 1000,
				    .seed = i & 8 ? i : 0,
				    .mss = i & 16 ? 65483 : 0,
				    .depth = 70000 },
			.rtr = i >> 1 & 7,
			.revision = i == 3 ? 1 : 2,
		};
		struct fix *f;

		if (c.revision == 1)
			c.rtr = 0;
		f = fix_open(&c);
		write_send_and_read(f);
		assert_int_equal(f->s->node[0].ready, 1);
		assert_int_equal(f->s->node[1].ready, 1);
		fix_close(f);
	}
}

static void immediates_and_solicited(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_wc wc;

	(void)state;
	fix_recv(f, 8, 0, 0);
	fix_recv(f, 9, 0, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 100, 5000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 100, 0, IBV_SEND_SOLICITED);
	wc = fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 5000);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	fix_same(f, 100, 5000);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static void no_send_with_immediate(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM }, *bad;

	(void)state;
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	fix_close(f);
}

static void atomics(void **state)
{
	struct fix *f = fix_open(NULL);
	uint64_t *word = (uint64_t *)(void *)(f->mem[1] + 64);
	uint64_t *mine = (uint64_t *)(void *)(f->mem[0] + 64);

	(void)state;
	*word = 41;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 64, 8, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*mine, 41);
	assert_int_equal(*word, 42);
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 64, 8, 0); /* swaps 1 for 77 */
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(*mine, 42);
	assert_int_equal(*word, 42);
	*word = 1;
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 64, 8, 0);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	assert_int_equal(*mine, 1);
	assert_int_equal(*word, 77);
	fix_close(f);
}

/* Completions stay in order, even if a WRITE is done before a READ. */
static void reads_wait_for_their_turn(void **state)
{
	struct sim_conf c = { .ord = { 3, 0 }, .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);

	(void)state;
	for (uint64_t i = 0; i < 40; i++)
		fix_post(f, i % 4 == 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i,
			 i * 2000, 2000, 0);
	for (uint64_t i = 0; i < 40; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 0, 80000);
	fix_close(f);
}

static void post_read(struct fix *f, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = fix_sge(f->mr[1], 0, len);
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	fix_send(f, 1, &wr);
}

/* No more READs than ORD are outstanding. */
static void reads_are_held_to_ord(void **state)
{
	struct sim_conf c = { .ord = { 0, 3 } };
	struct fix *f = fix_raw(&c, true);
	struct ddp d = { .tagged = true, .last = true, .version = 1, .ulp = 0x42 };
	struct raw_got g;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		post_read(f, i, 4);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(raw_next(f, &g));
		assert_int_equal(g.d.ulp, 0x41);
		assert_int_equal(g.d.qn, 1);
		assert_int_equal(g.d.msn, 1 + i);
		assert_int_equal(g.n, RDMAP_READ_LEN);
	}
	assert_false(raw_next(f, &g));
	d.stag = f->mr[1]->mkey.key;
	d.to = f->mr[1]->mkey.base;
	raw_segment(f, &d, "abcd", 4);
	assert_true(raw_next(f, &g));
	assert_int_equal(g.d.msn, 4);
	assert_false(raw_next(f, &g));
	fix_wc(f, 1, 0, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1], "abcd", 4);
	fix_close(f);
}

static void fences_wait_for_reads(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);
	uint64_t *word = (uint64_t *)(void *)f->mem[0];

	(void)state;
	*(uint64_t *)(void *)f->mem[1] = 5;
	*word = 0;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 8, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 8, IBV_SEND_FENCE);
	fix_recv(f, 8, 64, 8);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)(f->mem[1] + 64), 5);
	fix_close(f);
}

static void many_sges(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_sge sge[8];
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = sge,
				  .num_sge = 8,
				  .send_flags = IBV_SEND_SIGNALED };
	size_t at = 0;

	(void)state;
	for (int i = 0; i < 8; i++) {
		uint32_t n = i == 4 ? 0 : 700 + (uint32_t)i * 333;

		sge[i] = fix_sge(f->mr[0], at, n);
		at += n;
	}
	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	fix_send(f, 0, &wr);
	fix_wc(f, 0, 0, IBV_WC_SUCCESS);
	sim_run(f->s, SEC);
	fix_same(f, 0, at);
	for (size_t i = 0; i < at; i++)
		f->mem[1][i] ^= 0x5a;
	wr.opcode = IBV_WR_RDMA_READ;
	fix_send(f, 0, &wr);
	fix_wc(f, 0, 0, IBV_WC_SUCCESS);
	fix_same(f, 0, at);
	fix_close(f);
}

static void send_with_invalidate(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_mw_bind_info info = {
		.addr = f->mr[1]->mkey.base,
		.length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_send_wr inv = {
		.wr_id = 2,
		.opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
	};
	struct ibv_wc wc;
	struct mr *mr;
	struct mw *mw;
	uint32_t key;

	(void)state;
	mr = sim_mr(f->s, 1, f->mem[1], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	assert_int_equal(mw_alloc(f->s->node[1].pd, IBV_MW_TYPE_2, &mw), 0);
	key = (mw->ibv.rkey & ~255u) | ((mw->ibv.rkey + 1) & 255);
	{
		struct ibv_send_wr bind = {
			.wr_id = 1,
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = { .mw = &mw->ibv, .rkey = key, .bind_info = info },
		};
		bind.bind_mw.bind_info.mr = &mr->ibv;
		/* The responder may send nothing before the initiator's first FPDU. */
		fix_post(f, IBV_WR_RDMA_WRITE, 9, 0, 8, 0);
		fix_wc(f, 0, 9, IBV_WC_SUCCESS);
		sim_run(f->s, SEC);
		fix_send(f, 1, &bind);
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	}
	fix_recv(f, 8, 0, 10);
	inv.invalidate_rkey = key;
	fix_send(f, 0, &inv);
	wc = fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	/* The second time nothing is left to invalidate. */
	fix_recv(f, 9, 0, 10);
	fix_send(f, 0, &inv);
	fix_wc(f, 1, 9, IBV_WC_REM_INV_REQ_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(mw_dealloc(mw), 0);
	sim_unpair(&f->p);
	f->p = sim_pair(f->s, NULL);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* Whatever else there is to send, the RTR has gone out when the initiator is attached. */
static void the_rtr_leaves_at_once(void **state)
{
	static const struct sim_conf c = { .rtr = MPA_RTR_WRITE };
	struct fix *f = fix_open(&c);

	(void)state;
	assert_true(f->s->sent[0] > 0);
	assert_int_equal(f->s->sent[1], 0);
	fix_close(f);
}

static void shared_receives(void **state)
{
	static const struct sim_conf c = { .crc = true };
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct fix *f = fix_make();
	struct sim_pair p;
	struct srq *srq;

	(void)state;
	assert_int_equal(srq_create(&f->s->node[1].ctx, f->s->node[1].pd, &a, &srq), 0);
	p = sim_pair(f->s, srq);
	sim_unpair(&f->p);
	f->p = p;
	sim_connect(f->s, &f->p, &c);
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = fix_sge(f->mr[1], i * 5000, 5000);
		struct ibv_recv_wr wr = { .wr_id = 8 + i, .sg_list = &sge, .num_sge = 1 },
				   *bad;

		assert_int_equal(srq_post(srq, &wr, &bad), 0);
	}
	fix_post(f, IBV_WR_SEND, 1, 0, 5000, 0);
	fix_post(f, IBV_WR_SEND, 2, 5000, 4000, 0);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 5000);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 4000);
	fix_same(f, 0, 9000);
	/* Now no receive is posted, and none is while the message waits. */
	fix_post(f, IBV_WR_SEND, 3, 0, 1, 0);
	sim_run(f->s, IW_RECV_WAIT_NS + MS);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_REQ_ERR);
	sim_unpair(&f->p);
	f->p = sim_pair(f->s, NULL);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

/* RFC 5044, 7.1: the responder sends nothing before the initiator's first FPDU. */
static void the_responder_waits(void **state)
{
	struct sim_conf c = { .rtr = MPA_RTR_READ };
	struct fix *f = fix_open(NULL);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 100);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { f->mr[0]->mkey.base, f->mr[0]->mkey.key },
	};

	(void)state;
	fix_send(f, 1, &wr);
	sim_run(f->s, SEC);
	fix_no_wc(f, 1);
	assert_int_equal(f->s->node[1].ready, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 500, 1, 0);
	fix_wc(f, 1, 0, IBV_WC_SUCCESS);
	assert_int_equal(f->s->node[1].ready, 1);
	fix_close(f);

	/* With an RTR it need not wait. */
	f = fix_open(&c);
	sge = fix_sge(f->mr[1], 0, 100);
	wr.wr.rdma.remote_addr = f->mr[0]->mkey.base;
	wr.wr.rdma.rkey = f->mr[0]->mkey.key;
	fix_send(f, 1, &wr);
	fix_wc(f, 1, 0, IBV_WC_SUCCESS);
	fix_close(f);
}

static unsigned count_writes(struct fix *f, uint64_t ns)
{
	struct raw_got g;
	unsigned n = 0;

	sim_run(f->s, ns);
	while (raw_any(f, &g)) {
		n += g.d.tagged && g.d.ulp == 0x40 && g.n == 0 && g.d.last;
		assert_true(g.d.tagged || g.n > 0);
	}
	return n;
}

/* A silent peer gets three zero-length WRITEs, within about a second, but none once it
 * has answered or if nothing was sent. */
static void a_peer_that_looks_away(void **state)
{
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);

	(void)state;
	for (int heard = 0; heard < 3; heard++) {
		struct fix *f = fix_raw(NULL, true);
		struct ibv_sge sge = fix_sge(f->mr[1], 0, 20000);
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .sg_list = &sge,
					  .num_sge = 1 };

		fix_recv(f, 8, 0, 10);
		if (heard < 2)
			fix_send(f, 1, &wr);
		sim_run(f->s, MS);
		if (heard == 1)
			raw_segment(f, &d, "x", 1);
		assert_int_equal(count_writes(f, 10 * SEC), heard ? 0 : NUDGES);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations),
		cmocka_unit_test(immediates_and_solicited),
		cmocka_unit_test(no_send_with_immediate),
		cmocka_unit_test(atomics),
		cmocka_unit_test(reads_wait_for_their_turn),
		cmocka_unit_test(reads_are_held_to_ord),
		cmocka_unit_test(fences_wait_for_reads),
		cmocka_unit_test(many_sges),
		cmocka_unit_test(send_with_invalidate),
		cmocka_unit_test(the_rtr_leaves_at_once),
		cmocka_unit_test(shared_receives),
		cmocka_unit_test(the_responder_waits),
		cmocka_unit_test(a_peer_that_looks_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
