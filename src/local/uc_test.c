/* SPDX-License-Identifier: BSD-2-Clause */
/* UC through a pipe: no answers; a broken message is dropped as a whole. */
#include "local/fix.h"

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

/* A request is complete when it is written: the peer need not read it. */
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

/* A peer whose ring is full delays requests only for a while. */
static void nor_does_one_whose_ring_is_full(void **state)
{
	/* A request takes 251 slots and the ring the last one without room for a pad. */
	enum { N = 40, FIT = 28 };
	struct fix *f = pair_open(IBV_QPT_UC, NULL);
	uint64_t since;

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++)
		fix_post(f, IBV_WR_SEND, i, 0, 16000, 0);
	pair_run(f, 50 * MS);
	for (unsigned i = 0; i < FIT; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_no_wc(f, 0);
	pair_run(f, 60 * MS);
	for (unsigned i = FIT; i < N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	since = f->s->now; /* it does not wait a second time */
	fix_post(f, IBV_WR_SEND, N, 0, 40000, 0);
	fix_wc(f, 0, N, IBV_WC_SUCCESS);
	assert_true(f->s->now - since < MS);
	f->s->node[1].stopped = false;
	pair_run(f, MS);
	fix_recv(f, 8, 0, 16000);
	fix_post(f, IBV_WR_SEND, N + 1, 0, 100, 0);
	fix_wc(f, 0, N + 1, IBV_WC_SUCCESS);
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
	fix_post(f, IBV_WR_SEND, 1, 0, 30000, 0); /* no receive is posted */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_recv(f, 8, 0, 20000);
	fix_post(f, IBV_WR_SEND, 2, 100000, 30000, 0); /* longer than the receive */
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

/* A local error stops only the send queue; after RTS it goes on. */
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
		cmocka_unit_test(sqe_and_back),
	};

	return cmocka_run_group_tests_name("packets", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("segments", tests, by_segments, NULL);
}
