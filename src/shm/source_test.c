/* SPDX-License-Identifier: BSD-2-Clause */
/* How requests end that are not acknowledged. */
#include "shm/fix.h"

static void other_requests(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_QP_OP_ERR);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void a_peer_that_is_stopped(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 2, .timeout = 10 });

	(void)state;
	pair_stop(f, 1);
	post_at(f, 0, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(f->s->now > 3 * 4 * MS);
	pair_go(f, 1);
	fix_close(f);
}

static void a_peer_that_ends(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, MS);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* The request that has begun ends, although it has to be sent again; the next one waits
 * for RTS, and no timer runs for it. */
static void a_queue_that_drains(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });

	(void)state;
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, 20 * MS);
	fix_modify(f, 0, IBV_QPS_SQD);
	post_at(f, 0, 2, 100, 8, 0);
	pair_run(f, 20 * MS);
	recv_at(f, 1, 1, 5000, 8);
	recv_at(f, 1, 2, 6000, 8);
	came(f, 1, 1, 5000, 0, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_run(f, 100 * MS);
	fix_no_wc(f, 0);
	fix_modify(f, 0, IBV_QPS_RTS);
	came(f, 1, 2, 6000, 100, 8);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* Nobody tells when a request without a completion was executed: the queue drains, and a
 * request fails behind it, without a timeout. */
static void what_waits_for_unsignaled_requests(void **state)
{
	for (int drains = 0; drains < 2; drains++) {
		struct fix *f = plain_pair();
		struct qp *qp = f->p.qp[0];
		struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
		struct ibv_send_wr wr = send_wr(1, &sge, 1, 0);

		(void)state;
		wr.send_flags = 0;
		recv_at(f, 1, 1, 0, 8);
		pair_stop(f, 1);
		post_now(qp, &wr);
		if (drains)
			fix_modify(f, 0, IBV_QPS_SQD);
		else
			fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
		pair_run(f, MS);
		fix_no_wc(f, 0);
		assert_int_equal(qp->sq.head - qp->sq.tail, drains ? 1 : 2);
		pair_go(f, 1);
		pair_run(f, 3 * MS);
		assert_int_equal(qp->sq.tail, qp->sq.head);
		if (drains)
			assert_false(qp->sqd.draining);
		else
			fix_wc(f, 0, 2, IBV_WC_LOC_QP_OP_ERR);
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_drains),
		cmocka_unit_test(other_requests),
		cmocka_unit_test(a_peer_that_is_stopped),
		cmocka_unit_test(what_waits_for_unsignaled_requests),
		cmocka_unit_test(a_peer_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
