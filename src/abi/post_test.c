/* SPDX-License-Identifier: BSD-2-Clause */
/* Chains of work requests: post.c. */
#include "abi/fix.h"
#include "verbs/cq.h"
#include "verbs/transport.h"

static struct swqe *last(struct ibv_qp *qp)
{
	return sq_at(&qp_of(qp)->sq, qp_of(qp)->sq.head - 1);
}

static void posts(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_send_wr second = { .wr_id = 2, .opcode = IBV_WR_SEND }, *bad = NULL;
	struct ibv_send_wr first = { .wr_id = 1, .next = &second, .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(abi_post_send(qp, &first, &bad), 0);
	assert_int_equal(last(qp)->wr_id, 2);
	assert_string_equal(fix_said(), "post");
	assert_int_equal(fix.number, qp->qp_num);
	assert_false(fix.nested);
	/* Requests before a bad one are posted. */
	second.opcode = IBV_WR_DRIVER1;
	fix_errno(abi_post_send(qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_int_equal(last(qp)->wr_id, 1);
	assert_string_equal(fix_said(), "post");
	/* In a signal handler that has interrupted one of our calls. */
	inside_begin();
	assert_int_equal(abi_post_send(qp, &first, &bad), EINVAL);
	assert_true(fix.nested);
	abi_end();
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static struct ibv_send_wr *done_at_once(struct qp *qp, struct ibv_send_wr *wr)
{
	qp_is_held(qp);
	sq_count_at_once(qp, 1, 1);
	sq_end_at_once(qp, wr, 1, IBV_WC_SUCCESS, VERR_NONE, fix.now);
	return wr->next;
}

/* The engine is not told of requests that are complete when they are posted. */
static void posts_what_is_done_at_once(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_sge sge = { .length = 1 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;
	struct transport quick = *qp_of(qp)->transport;
	struct ibv_wc wc;

	(void)state;
	quick.at_once = done_at_once;
	qp_of(qp)->transport = &quick;
	qp_of(qp)->tp.at_once = true;
	errno = 0;
	assert_int_equal(abi_post_send(qp, &wr, &bad), 0);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(errno, 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(abi_poll_cq(fix.cq, 1, &wc), 1);
	assert_int_equal(abi_poll_cq(fix.cq, 1, &wc), 1);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The engine is told of a receive that a message waits for. */
static void calls_the_message_that_waits(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_recv_wr bad_one = { .num_sge = 99 };
	struct ibv_recv_wr wr = { .wr_id = 1, .next = &bad_one }, *bad;

	(void)state;
	qp_of(qp)->recv.awaited = true;
	assert_int_equal(abi_post_recv(qp, &wr, &bad), EINVAL);
	assert_string_equal(fix_said(), "called");
	assert_false(fix.nested);
	wr.next = NULL;
	assert_int_equal(abi_post_recv(qp, &wr, &bad), 0);
	assert_string_equal(fix_said(), "");
	qp_of(qp)->recv.awaited = true;
	inside_begin();
	assert_int_equal(abi_post_recv(qp, &wr, &bad), 0);
	assert_true(fix.nested);
	abi_end();
	assert_string_equal(fix_said(), "called");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void posts_receives(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_srq *srq = fix_srq();
	struct ibv_recv_wr second = { .wr_id = 2, .num_sge = 99 }, *bad;
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second };

	(void)state;
	bad = NULL;
	fix_errno(abi_post_recv(qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_int_equal(qp_of(qp)->rq.head, 1);
	bad = NULL;
	fix_errno(abi_post_srq_recv(srq, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	/* Some were posted, for which a message may have waited. */
	assert_string_equal(fix_said(), "called called");
	second.num_sge = 0;
	assert_int_equal(abi_post_recv(qp, &first, &bad), 0);
	assert_int_equal(qp_of(qp)->rq.head, 3);
	assert_int_equal(abi_post_srq_recv(srq, &second, &bad), 0);
	assert_string_equal(fix_said(), ""); /* nothing to send */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void posts_to_a_dead_context(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_srq *srq = fix_srq();
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_recv_wr recv = { 0 }, *bad_recv = NULL, *bad_srq = NULL;
	struct ibv_cq *cq = fix.cq;
	struct ibv_wc wc;

	(void)state;
	abi_of(fix.ibv)->ctx.dead = true;
	fix_errno(abi_post_send(qp, &send, &bad_send), EIO);
	fix_errno(abi_post_recv(qp, &recv, &bad_recv), EIO);
	fix_errno(abi_post_srq_recv(srq, &recv, &bad_srq), EIO);
	assert_ptr_equal(bad_send, &send);
	assert_ptr_equal(bad_recv, &recv);
	assert_ptr_equal(bad_srq, &recv);
	assert_int_equal(abi_poll_cq(cq, 1, &wc), -EIO);
	fix_errno(abi_req_notify_cq(cq, 0), EIO);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(cq->comp_events_completed, 0);
	assert_string_equal(fix_said(), "");
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(qp_of(qp)->sq.head, 0);
	assert_int_equal(qp_of(qp)->rq.head, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(posts),
		TEST(posts_what_is_done_at_once),
		TEST(calls_the_message_that_waits),
		TEST(posts_receives),
		TEST(posts_to_a_dead_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
