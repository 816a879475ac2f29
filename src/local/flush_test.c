/* SPDX-License-Identifier: BSD-2-Clause */
/* A QP that has failed: flushed requests are neither completed again nor sent. */
#include "local/fix.h"

static const struct sim_conf direct = { .timeout = 10, .retry_cnt = 3 };

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

/* The second request would be executed directly if the first was executed.  It was, but
 * its completion overruns the CQ, which fails the QP. */
static void what_was_flushed_is_not_sent(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t was;

	(void)state;
	pair_peer(f, 0)->reach.vm = false; /* the first goes as a packet */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	pair_stop(f, 1);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_run(f, 1000);
	pair_stop(f, 1);
	pair_peer(f, 0)->reach.vm = true;
	was = f->mem[1][5000];
	assert_int_not_equal(was, f->mem[0][5000]);
	f->p.cq[0]->overrun = true;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 5000, 8000, 0);
	/* Output runs before anything else looks at the word. */
	turn_take(&f->s->node[0].core.turn);
	lock_take(&f->p.qp[0]->lock);
	(void)ib_transport.output(f->p.qp[0], &f->s->node[0].batch, f->s->now);
	lock_give(&f->p.qp[0]->lock);
	turn_give(&f->s->node[0].core.turn);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(pair_look(f, 0, &(struct rec){ 0 }, 1), 0);
	pair_go(f, 0);
	pair_go(f, 1);
	pair_run(f, 1 * MS);
	assert_int_equal(f->mem[1][5000], was);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_failed_does_not_hear_its_word),
	};
	/* A segment does not wait until the requests before it were executed. */
	const struct CMUnitTest packets[] = {
		cmocka_unit_test(what_was_flushed_is_not_sent),
	};

	return cmocka_run_group_tests(packets, NULL, NULL) +
	       cmocka_run_group_tests_name("packets", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("segments", tests, by_segments, NULL);
}
