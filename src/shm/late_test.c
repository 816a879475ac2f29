/* SPDX-License-Identifier: BSD-2-Clause */
/* A message that comes before its receive is asked for again, and nobody else
 * waits for it. */
#include "shm/fix.h"

static const struct sim_conf by_pipe = { .pipe_only = true, .late = RECV_WAIT_NS };
static const struct sim_conf all = { .late = RECV_WAIT_NS };

static uint64_t counted(const struct fix *f, int side, enum ib_counter c)
{
	return ib_counter(&f->s->node[side].core, c);
}

/* 100,000 bytes are seven segments. */
static void comes_late(const struct sim_conf *conf)
{
	struct fix *f = pair_strict(pair_open(IBV_QPT_RC, conf));
	uint64_t since = f->s->now;

	fix_post(f, IBV_WR_SEND, 1, 0, 100000, 0);
	fix_post(f, IBV_WR_SEND, 2, 100000, 10, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 200000, 3000, 0);
	pair_run(f, 100000);
	fix_no_wc(f, 0);
	fix_recv(f, 7, 0, 100000);
	fix_recv(f, 8, 100000, 10);
	fix_wc(f, 1, 7, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	pair_run(f, 100000);
	fix_no_wc(f, 1);
	fix_recv(f, 9, 0, 0);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 0, 100010);
	fix_same(f, 200000, 3000);
	assert_true(f->s->now - since < RECV_WAIT_NS);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 0);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 2);
	assert_int_equal(counted(f, 0, IB_TX_TIMEOUT), 0);
	fix_close(f);
}

static void the_receive_comes_late(void **state)
{
	(void)state;
	comes_late(&by_pipe);
	comes_late(&all);
}

/* More messages follow than are taken in at once: all are sent once more, not twice. */
static void what_follows_comes_once_more(void **state)
{
	enum { N = 150, LEN = 100 };
	struct fix *f = pair_strict(pair_open(IBV_QPT_RC, &by_pipe));

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_post(f, IBV_WR_SEND, i, i * LEN, LEN, 0);
	pair_run(f, 100000);
	for (unsigned i = 0; i < N; i++)
		fix_recv(f, i, i * LEN, LEN);
	for (unsigned i = 0; i < N; i++) {
		fix_wc(f, 1, i, IBV_WC_SUCCESS);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	assert_int_equal(counted(f, 1, IB_RX_LATE), 1);
	assert_int_equal(counted(f, 0, IB_RX_NAK), 1);
	assert_int_equal(counted(f, 1, IB_RX_DUPLICATE), 0);
	fix_close(f);
}

static void rnr_is_said_after_the_wait(void **state)
{
	struct fix *f = pair_strict(pair_open(IBV_QPT_RC, &by_pipe));
	uint64_t since = f->s->now;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, RECV_WAIT_NS, RECV_WAIT_NS + 1000);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 1);
	fix_close(f);
}

/* The receive was posted, and the peer is asked; it does not run. The time that it takes
 * is not the message's. */
static void the_peer_takes_its_time(void **state)
{
	struct fix *f = pair_strict(pair_open(IBV_QPT_RC, &by_pipe));

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(f, 100000);
	pair_stop(f, 0);
	fix_recv(f, 9, 0, 100);
	pair_run(f, 10 * RECV_WAIT_NS);
	pair_go(f, 0);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(counted(f, 1, IB_TX_RNR), 0);
	fix_close(f);
}

/* Another QP of the same pair of processes. */
static void nobody_else_waits(void **state)
{
	struct fix *f = pair_strict(pair_open(IBV_QPT_RC, &by_pipe));
	struct sim_pair other = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	struct ibv_sge to = sim_sge(f->mr[1], 500, 10), from = sim_sge(f->mr[0], 500, 10);
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &from, .num_sge = 1 };
	struct ibv_wc wc;

	(void)state;
	wr.opcode = IBV_WR_SEND;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(f, 10000);
	sim_recv(other.qp[1], 6, &to, 1);
	sim_send(other.qp[0], &wr);
	assert_true(sim_wait(f->s, other.cq[1], 10000, &wc));
	assert_int_equal(wc.wr_id, 6);
	fix_same(f, 500, 10);
	fix_recv(f, 9, 0, 100);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_unpair(f->s, &other);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_receive_comes_late),
		cmocka_unit_test(what_follows_comes_once_more),
		cmocka_unit_test(rnr_is_said_after_the_wait),
		cmocka_unit_test(the_peer_takes_its_time),
		cmocka_unit_test(nobody_else_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
