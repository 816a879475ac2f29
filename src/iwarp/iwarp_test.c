/* SPDX-License-Identifier: BSD-2-Clause */
/* Two QPs and a stream: what work requests do, and how connections end. */
#include "iwarp/fix.h"

#include <sys/mman.h>

static void write_send_and_read(struct fix *f)
{
	static const uint32_t len[] = { 0, 1, 2, 3, 255, 256, 257, 1424, 1428, 1429,
					3000, 100000, 300000 };
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
	assert_int_equal(sim_event(f->s, 0), -1);
	assert_int_equal(sim_event(f->s, 1), -1);
}

static void operations(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 32; i++) {
		struct sim_conf c = {
			.crc = i & 1, .markers = { i & 2, i & 4 },
			.stream = { .latency = 1000, .seed = i & 8 ? i : 0,
				    .mss = i & 16 ? 65483 : 0, .depth = 70000 },
			.rtr = i >> 1 & 7, .revision = i == 3 ? 1 : 2,
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
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 64, 8, 0);	/* 1 to 77 */
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

/* Completions stay in order, also of what overtakes. */
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
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	fix_send(f, 1, &wr);
}

/* No more than ORD are out. */
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
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge,
				  .num_sge = 8, .send_flags = IBV_SEND_SIGNALED };
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
		.addr = f->mr[1]->mkey.base, .length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_send_wr inv = {
		.wr_id = 2, .opcode = IBV_WR_SEND_WITH_INV,
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
			.wr_id = 1, .opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = { .mw = &mw->ibv, .rkey = key, .bind_info = info },
		};
		bind.bind_mw.bind_info.mr = &mr->ibv;
		/* Nothing that the responder sends goes before its peer's first. */
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
	/* The second time there is nothing to invalidate. */
	fix_recv(f, 9, 0, 10);
	fix_send(f, 0, &inv);
	fix_wc(f, 1, 9, IBV_WC_REM_INV_REQ_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(mw_dealloc(mw), 0);
	sim_unpair(f->s, &f->p);
	f->p = sim_pair(f->s, NULL);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* RFC 5044, 7.1: not before the initiator's first FPDU. */
static void the_responder_waits(void **state)
{
	struct sim_conf c = { .rtr = MPA_RTR_READ };
	struct fix *f = fix_open(NULL);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 100);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
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

	/* With an RTR it need not. */
	f = fix_open(&c);
	sge = fix_sge(f->mr[1], 0, 100);
	wr.wr.rdma.remote_addr = f->mr[0]->mkey.base;
	wr.wr.rdma.rkey = f->mr[0]->mkey.key;
	fix_send(f, 1, &wr);
	fix_wc(f, 1, 0, IBV_WC_SUCCESS);
	fix_close(f);
}

/* --- ends ----------------------------------------------------------------------- */

static void no_way_to_rts_without_a_connection(void **state)
{
	struct fix *f = fix_make();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };

	(void)state;
	assert_int_equal(qp_modify(f->p.qp[0], &a, IBV_QP_STATE, 1), -EINVAL);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(f->p.qp[0], &a, IBV_QP_STATE, 1), -EINVAL);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_INIT);
	fix_close(f);
}

/* SQD: what is posted goes out, then FIN; the peer's QP is flushed. */
static void closing_in_order(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);

	(void)state;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 100000, 0);
	sim_modify(f->s, f->p.qp[0], IBV_QPS_SQD);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->s->node[1].ended[IW_END_PEER], 1);
	assert_int_equal(f->s->node[0].ended[IW_END_US], 1);
	assert_int_equal(sim_event(f->s, 1), -1);
	assert_null(f->s->node[0].conn[0].qp);
	assert_null(f->s->node[1].conn[0].qp);
	fix_close(f);
}

static void reset_and_connect_again(void **state)
{
	struct fix *f = fix_open(NULL);
	struct sim_conf c = { .crc = true };

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_modify(f->s, f->p.qp[0], IBV_QPS_ERR);
	sim_run(f->s, 10 * SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE };

		sim_modify(f->s, f->p.qp[i], IBV_QPS_RESET);
		assert_int_equal(qp_modify(f->p.qp[i], &a, IBV_QP_STATE |
					   IBV_QP_ACCESS_FLAGS, f->s->now), 0);
	}
	sim_connect(f->s, &f->p, &c);
	memset(f->mem[1], 0, 5000);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 5000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	sim_run(f->s, SEC);
	fix_same(f, 0, 5000);
	fix_close(f);
}

static void a_lost_connection(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);

	(void)state;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	stream_loop_break(f->p.stream[0], ECONNRESET);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_CONNECTION);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->s->node[0].ended[IW_END_ERROR], 1);
	assert_int_equal(f->s->node[1].ended[IW_END_ERROR], 1);
	fix_close(f);
}

/* What has begun cannot go out, for the peer takes nothing: after a second it is
 * over all the same. */
static void a_peer_that_takes_nothing(void **state)
{
	struct sim_conf c = { .stream = { .depth = 3000 } };
	struct fix *f = fix_raw(&c, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 100000);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	(void)state;
	fix_send(f, 1, &wr);
	sim_run(f->s, SEC / 2);
	assert_true(fix_iw(f, 1)->tail_at < fix_iw(f, 1)->tail_end);
	sim_modify(f->s, f->p.qp[1], IBV_QPS_ERR);
	sim_run(f->s, SEC / 2);
	assert_non_null(f->s->node[1].conn[0].qp);
	sim_run(f->s, SEC);
	assert_null(f->s->node[1].conn[0].qp);
	fix_close(f);
}

static void a_bad_lkey(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_sge sge = { (uintptr_t)f->mem[0], 100, f->mr[0]->mkey.key ^ 1 };
	struct ibv_send_wr wr = { .wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge,
				  .num_sge = 1 };

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100, 0);
	fix_send(f, 0, &wr);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err,
			 VERR_LOCAL_KEY);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_FATAL);
	fix_close(f);
}

/* Memory that goes away: the work request fails, in its order. */
static void unmapped(bool crc)
{
	struct sim_conf c = { .crc = crc };
	struct fix *f = fix_open(&c);
	void *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(f->s, 0, at, 1 << 16, FIX_ALL);
	struct ibv_sge sge = fix_sge(mr, 0, 1 << 16);
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
	};

	munmap((char *)at + 8192, (1 << 16) - 8192);
	fix_iw(f, 0)->careful = true;		/* as after sendmsg's EFAULT */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_send(f, 0, &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err,
			 VERR_LOCAL_FAULT);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(at, 8192);
	fix_close(f);
}

static void unmapped_memory(void **state)
{
	(void)state;
	unmapped(false);
	unmapped(true);
}

static void a_full_cq(void **state)
{
	struct fix *f = fix_open(NULL);
	struct cq *cq;

	(void)state;
	assert_int_equal(cq_create(&f->s->node[0].ctx, 2, NULL, NULL, &cq), 0);
	f->p.qp[0]->send_cq = cq;
	for (uint64_t i = 0; i < 20; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
	sim_run(f->s, 10 * SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	f->p.qp[0]->send_cq = f->p.cq[0];
	while (sim_event(f->s, 0) >= 0)
		;
	assert_int_equal(cq_destroy(cq), 0);
	fix_close(f);
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
		cmocka_unit_test(the_responder_waits),
		cmocka_unit_test(no_way_to_rts_without_a_connection),
		cmocka_unit_test(closing_in_order),
		cmocka_unit_test(reset_and_connect_again),
		cmocka_unit_test(a_lost_connection),
		cmocka_unit_test(a_peer_that_takes_nothing),
		cmocka_unit_test(a_bad_lkey),
		cmocka_unit_test(unmapped_memory),
		cmocka_unit_test(a_full_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
