/* SPDX-License-Identifier: BSD-2-Clause */
/* UC through a pipe: no answers; what is broken is dropped whole. */
#include "local/fix.h"

static const uint8_t data[2048] = { 1, 2, 3 };

static void sends_and_writes(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);
	uint32_t before = pair_peer(f, 1)->out.head;

	(void)state;
	fix_recv(f, 8, 0, 30000);
	sim_recv(f->p.qp[1], 9, NULL, 0);
	fix_post(f, IBV_WR_SEND, 1, 0, 30000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 50000, 50000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 100000, 100, 0);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 30000);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 100);
	fix_same(f, 0, 30000);
	fix_same(f, 50000, 50000);
	fix_same(f, 100000, 100);
	assert_int_equal(pair_peer(f, 1)->out.head, before);
	fix_close(f);
}

/* Complete when it is written: nobody has to read it. */
static void a_stopped_peer_costs_nothing(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_run(f, 10 * SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

/* Nor room for it, for longer than a while. */
static void nor_does_one_whose_ring_is_full(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);
	uint64_t since;

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 12; i++)
		fix_post(f, IBV_WR_SEND, i, 0, 16000, 0);
	pair_run(f, 50 * MS);
	for (unsigned i = 0; i < 7; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_no_wc(f, 0);
	pair_run(f, 60 * MS);
	for (unsigned i = 7; i < 12; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	since = f->s->now; /* nor does it wait again */
	fix_post(f, IBV_WR_SEND, 12, 0, 40000, 0);
	fix_wc(f, 0, 12, IBV_WC_SUCCESS);
	assert_true(f->s->now - since < MS);
	f->s->node[1].stopped = false;
	pair_run(f, MS);
	fix_recv(f, 8, 0, 16000);
	fix_post(f, IBV_WR_SEND, 13, 0, 100, 0);
	fix_wc(f, 0, 13, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
	fix_close(f);
}

static void an_ended_peer_costs_nothing(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);

	(void)state;
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	for (unsigned i = 0; i < 3; i++) {
		fix_post(f, IBV_WR_SEND, i, 0, 3000, 0);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

static void no_receive_no_error(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 30000, 0); /* none */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_recv(f, 8, 0, 20000);
	fix_post(f, IBV_WR_SEND, 2, 100000, 30000, 0); /* too long for it */
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1);
	fix_post(f, IBV_WR_SEND, 3, 0, 10, 0);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 10);
	fix_same(f, 0, 10);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	fix_close(f);
}

static void no_right_no_error(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);
	uint8_t before = f->mem[1][0];

	(void)state;
	f->mr[1]->mkey.access = 0;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 20000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(f->mem[1][0], before);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(sim_event(f->s, 1), -1);
	f->mr[1]->mkey.access = FIX_ALL;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 20000, 0);
	fix_quiet(f);
	fix_same(f, 0, 20000);
	fix_close(f);
}

/* 9.8.2: what is broken is dropped, what begins next is taken into the same
 * receive. */
static void a_gap_ends_the_message(void **state)
{
	static const struct {
		struct rec r;
		uint32_t len;
	} breaks[] = {
		{ { .op = REC_SEND, .flags = REC_LAST, .psn = 2 }, 8 },
		{ { .op = REC_WRITE, .flags = REC_LAST, .psn = 1 }, 8 },
		{ { .op = REC_SEND, .psn = 1 }, 8 }, /* not a whole packet */
		{ { .op = REC_SEND, .flags = REC_FIRST, .psn = 1 }, 1024 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		struct fix *f = pair_open(IBV_QPT_UC, NULL);

		fix_recv(f, 8, 0, 3000);
		pair_write(f, 0, &(struct rec){ .op = REC_SEND, .flags = REC_FIRST },
			   f->mem[0] + 5000, 1024);
		pair_write(f, 0, &breaks[i].r, data, breaks[i].len);
		pair_run(f, 1000);
		fix_no_wc(f, 1);
		pair_write(f, 0,
			   &(struct rec){ .op = REC_SEND,
					  .flags = REC_FIRST | REC_LAST,
					  .psn = 7 },
			   f->mem[0], 100);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
		fix_same(f, 0, 100);
		assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
		fix_close(f);
	}
}

/* What has lost its beginning is nothing. */
static void a_tail_alone_is_dropped(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 3000);
	pair_write(f, 0, &(struct rec){ .op = REC_SEND, .flags = REC_LAST }, data, 8);
	pair_write(f, 0, &(struct rec){ .op = REC_SEND, .flags = REC_LAST, .psn = 9 },
		   data, 8);
	pair_write(f, 0, &(struct rec){ .op = REC_READ, .flags = REC_FIRST | REC_LAST },
		   NULL, 0);
	pair_run(f, 1000);
	fix_no_wc(f, 1);
	fix_close(f);
}

/* 9.9.3, class E: others use the SRQ, so what was begun does not wait. */
static void receive_of_an_srq_ends_in_error(void **state)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	const struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_UC, NULL);
		struct ibv_sge sge = sim_sge(f->mr[1], 0, 2000);
		struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 },
				   *bad;
		struct sim_node *b = &f->s->node[1];
		struct srq *srq;
		struct qp *qp;

		assert_int_equal(srq_create(&b->ctx, b->pd, &a, &srq), 0);
		qp = sim_qp(f->s, 1, IBV_QPT_UC, f->p.cq[1], f->p.cq[1], srq, &cap);
		sim_bring(f->s, qp, f->p.qp[0], &f->conf);
		f->p.qp[0]->attr.dest_qp_num = qp->qpn;
		assert_int_equal(srq_post(srq, &wr, &bad), 0);
		pair_write(f, 0, &(struct rec){ .op = REC_SEND, .flags = REC_FIRST },
			   data, 1024);
		/* Too long, or without end. */
		pair_write(f, 0,
			   &(struct rec){ .op = REC_SEND,
					  .psn = 1 + (uint32_t)i,
					  .flags = REC_LAST | (i ? REC_FIRST : 0) },
			   data, 1000);
		fix_wc(f, 1, 8, IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(qp->state, IBV_QPS_RTS);
		sim_destroy(f->s, qp);
		assert_int_equal(srq_destroy(srq), 0);
		fix_close(f);
	}
}

/* A local error stops the send queue only; RTS again, and on it goes. */
static void sqe_and_back(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, NULL);
	uint32_t key = f->mr[0]->mkey.key;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 20000, 0);
	f->mr[0]->mkey.key ^= 0x100;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	f->mr[0]->mkey.key = key;
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_SQE);
	fix_modify(f, 0, IBV_QPS_RTS);
	fix_recv(f, 8, 30000, 100);
	fix_post(f, IBV_WR_SEND, 4, 30000, 100, 0);
	fix_wc(f, 0, 4, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_same(f, 30000, 100);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_and_writes),
		cmocka_unit_test(a_stopped_peer_costs_nothing),
		cmocka_unit_test(nor_does_one_whose_ring_is_full),
		cmocka_unit_test(an_ended_peer_costs_nothing),
		cmocka_unit_test(no_receive_no_error),
		cmocka_unit_test(no_right_no_error),
		cmocka_unit_test(a_gap_ends_the_message),
		cmocka_unit_test(a_tail_alone_is_dropped),
		cmocka_unit_test(receive_of_an_srq_ends_in_error),
		cmocka_unit_test(sqe_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
