/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP that has failed: flushed requests are neither completed again nor sent. */
#include "shm/fix.h"

/* The peer has executed a request and its word says so.  Before the requester sees the
 * word its QP fails, with another request not sent yet. */
static void who_has_failed_does_not_hear_its_word(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct qp *qp = f->p.qp[0];
	struct ibv_wc wc;

	(void)state;
	/* Uses each entry of the send queue once. */
	for (uint32_t i = 0; i < qp->sq.cap; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 100, 0);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	pair_stop(f, 1);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(*pair_expected(f, 1), qp->sq.cap + 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	lock_take(&qp->lock);
	qp_fail(qp, false, -1, f->s->now);
	lock_give(&qp->lock);
	fix_wc(f, 0, 1, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	pair_go(f, 0);
	pair_run(f, 1 * MS);
	assert_int_equal(cq_poll(f->p.cq[0], 1, &wc), 0);
	assert_int_equal(qp->sq.tail, qp->sq.head);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_failed_does_not_hear_its_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
