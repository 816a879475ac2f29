/* SPDX-License-Identifier: BSD-2-Clause */
/* ops_test.c - which requests are outstanding, by what is posted and polled. */
#include "check/ops.h"

#include "check/fix.h"
#include "check/queue.h"

static uint32_t used(void)
{
	return check_queue_used(&fix_qp()->sq);
}

static void test_reaped_in_order(void **state)
{
	(void)state;
	assert_int_equal(fix_send(1, 0), 0);
	assert_int_equal(fix_send(2, 0), 0);
	assert_int_equal(fix_send(3, IBV_SEND_SIGNALED), 0);
	assert_int_equal(fix_send(4, 0), 0);
	assert_int_equal(used(), 4);
	fix_reap(3, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	assert_int_equal(used(), 1);
	fix_reap(4, IBV_WC_RDMA_WRITE, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(), 0);
	assert_false(fix_qp()->sq.unsure);
}

static void post(enum ibv_wr_opcode opcode, uint64_t wr_id, unsigned flags)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = opcode, .send_flags = flags },
			   *bad;

	assert_int_equal(ibv_post_send(&fix.qp.ex.qp_base, &wr, &bad), 0);
}

/* A request that fails completes, whether it is signalled or not. */
static void test_which_has_failed(void **state)
{
	struct check_queue *sq = &fix_qp()->sq;

	(void)state;
	check_queue_clear(sq);
	post(IBV_WR_RDMA_WRITE, 1, 0);
	post(IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED);
	fix_reap(1, IBV_WC_RDMA_READ, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(used(), 0);
	check_queue_clear(sq);
	post(IBV_WR_SEND, 1, 0);
	post(IBV_WR_RDMA_READ, 1, 0);
	fix_reap(1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(used(), 1);
	fix_reap(1, IBV_WC_RDMA_READ, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(), 0);
	check_queue_clear(sq);
	post(IBV_WR_SEND, 1, IBV_SEND_SIGNALED);
	for (int i = 0; i < 3; i++)
		post(IBV_WR_SEND, 1, 0);
	fix_reap(1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 3; i++)
		fix_reap(1, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(), 0);
	assert_false(sq->unsure);
}

static void test_one_of_several_has_failed(void **state)
{
	struct check_queue *sq = &fix_qp()->sq;

	(void)state;
	check_queue_clear(sq);
	post(IBV_WR_SEND, 1, 0);
	post(IBV_WR_SEND, 1, IBV_SEND_SIGNALED);
	fix_reap(1, IBV_WC_SEND, IBV_WC_RETRY_EXC_ERR);
	assert_true(sq->unsure);
	check_queue_clear(sq);
}

static void test_what_is_refused_is_not_outstanding(void **state)
{
	struct ibv_send_wr wr[3] = { { .wr_id = 1 }, { .wr_id = 2 }, { .wr_id = 3 } };
	struct ibv_send_wr *bad;

	(void)state;
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	fix.rc = EINVAL;
	fix.good = 1;
	assert_int_equal(ibv_post_send(&fix.qp.ex.qp_base, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(used(), 1);
	assert_int_equal(fix_recv(1), EINVAL);
	assert_int_equal(check_queue_used(&fix_qp()->rq), 0);
	fix.rc = 0;
	fix_reap(1, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(used(), 0);
}

static void test_what_a_request_says(void **state)
{
	const struct check_wr *w;

	(void)state;
	assert_int_equal(fix_send(7, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
	w = check_wr_at(&fix_qp()->sq, fix_qp()->sq.tail);
	assert_int_equal(w->wr_id, 7);
	assert_int_equal(w->opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(w->flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	assert_int_equal(w->remote_addr, 0x2000);
	assert_int_equal(w->rkey, 2);
	assert_int_equal(w->length, 64);
	assert_int_equal(w->num_sge, 1);
	assert_int_equal(w->sge[0].addr, 0x1000);
	assert_true(w->trace && w->at);
	fix_reap(7, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
}

static void test_receives(void **state)
{
	(void)state;
	assert_int_equal(fix_recv(1), 0);
	assert_int_equal(fix_recv(2), 0);
	assert_int_equal(check_queue_used(&fix_qp()->rq), 2);
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	fix_reap(2, IBV_WC_RECV, IBV_WC_SUCCESS);
	assert_int_equal(check_queue_used(&fix_qp()->rq), 0);
	assert_false(fix_qp()->rq.unsure);
}

/* Positions and lists are numbers of 32 bits. */
static void test_numbers_wrap(void **state)
{
	struct check_qp *qp = fix_qp();

	for (uint32_t before = 0; before < 4; before++) {
		qp->sq.head = qp->sq.tail = UINT32_MAX - before;
		qp->rq.head = qp->rq.tail = UINT32_MAX - before;
		qp->lists = UINT32_MAX - before;
		test_reaped_in_order(state);
		qp->sq.head = qp->sq.tail = UINT32_MAX - before;
		qp->rq.head = qp->rq.tail = UINT32_MAX - before;
		test_what_is_refused_is_not_outstanding(state);
		test_receives(state);
	}
}

/* A post of a signal handler that has interrupted another call is not looked at. */
static void test_in_a_handler(void **state)
{
	static struct live other;

	(void)state;
	assert_true(ops_begin());
	assert_int_equal(fix_send(1, 0), 0);
	checks->made(&other, LIVE_PD);
	ops_end();
	assert_null(check_find(&other, LIVE_PD));
	assert_int_equal(used(), 0);
	assert_true(fix_qp()->sq.unsure);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reaped_in_order),
		cmocka_unit_test(test_which_has_failed),
		cmocka_unit_test(test_one_of_several_has_failed),
		cmocka_unit_test(test_what_is_refused_is_not_outstanding),
		cmocka_unit_test(test_what_a_request_says),
		cmocka_unit_test(test_receives),
		cmocka_unit_test(test_numbers_wrap),
		cmocka_unit_test(test_in_a_handler),
	};

	fix_open("all");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
