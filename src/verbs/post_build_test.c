/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are built with ibv_wr_*. */
#include <pthread.h>
#include <sched.h>

#include "sys/hang_testing.h"
#include "verbs/post.h"
#include "verbs/qp_fixture.h"

static struct ibv_sge sge[2] = {
	{ .addr = 0x1000, .length = 10, .lkey = 1 },
	{ .addr = 0x2000, .length = 20, .lkey = 2 },
};

static struct qp *ready_ex(struct fix *f, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = fix_init(f, type);
	struct qp *qp;

	a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = ops;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	fix_bring(qp, IBV_QPS_RTS);
	return qp;
}

static void drafts_become_visible_together(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready_ex(f, IBV_QPT_RC,
				 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
					 IBV_QP_EX_WITH_RDMA_READ);
	struct ibv_data_buf bufs[2] = { { "ab", 2 }, { "cde", 3 } };
	struct swqe *w;

	(void)state;
	post_start(qp);
	qp->ex.wr_id = 1;
	qp->ex.wr_flags = IBV_SEND_SIGNALED;
	w = post_draft(qp, IBV_WR_RDMA_WRITE);
	assert_non_null(w);
	w->rkey = 9;
	post_sge_list(qp, 2, sge);
	qp->ex.wr_id = 2;
	/* Ignored: the setter decides whether data are inline. */
	qp->ex.wr_flags = IBV_SEND_INLINE;
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	post_inline_list(qp, 2, bufs);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	post_inline(qp, "x", 1);
	post_sge(qp, 3, 0x3000, 33); /* replaces the inline data */
	assert_non_null(post_draft(qp, IBV_WR_RDMA_READ));
	assert_int_equal(qp->sq.head, qp->sq.tail);
	assert_int_equal(post_complete(qp), 0);
	assert_int_equal(qp->sq.head - qp->sq.tail, 4);
	w = sq_at(&qp->sq, qp->sq.tail);
	assert_int_equal(w->wr_id, 1);
	assert_int_equal(w->rkey, 9);
	assert_int_equal(w->length, 30);
	assert_int_equal(w->flags, IBV_SEND_SIGNALED);
	w = sq_at(&qp->sq, qp->sq.tail + 1);
	assert_int_equal(w->flags, IBV_SEND_INLINE);
	assert_memory_equal((void *)(uintptr_t)sq_sges(&qp->sq, qp->sq.tail + 1)->addr,
			    "abcde", 5);
	w = sq_at(&qp->sq, qp->sq.tail + 2);
	assert_int_equal(w->flags, 0);
	assert_int_equal(w->length, 33);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void one_error_refuses_the_whole_batch(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp =
		ready_ex(f, IBV_QPT_RC,
			 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
	struct qp *ud = ready_ex(f, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	char big[65] = { 0 };

	(void)state;
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	post_inline(qp, big, sizeof(big));
	assert_null(post_draft(qp, IBV_WR_SEND));
	post_sge(qp, 1, 2, 3); /* no effect, since no request is being built */
	assert_int_equal(post_complete(qp), -EINVAL);
	post_start(qp);
	assert_null(post_draft(qp, IBV_WR_RDMA_READ)); /* not in send_ops_flags */
	assert_int_equal(post_complete(qp), -EINVAL);
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_ATOMIC_FETCH_AND_ADD));
	assert_int_equal(post_complete(qp), -EINVAL); /* the SGE is missing */
	post_start(qp);
	post_sge(qp, 1, 2, 3); /* no request was begun */
	assert_int_equal(post_complete(qp), -EINVAL);
	post_start(qp);
	for (int i = 0; i < 8; i++)
		assert_non_null(post_draft(qp, IBV_WR_SEND));
	assert_null(post_draft(qp, IBV_WR_SEND));
	assert_int_equal(post_complete(qp), -ENOMEM);
	post_start(ud);
	assert_non_null(post_draft(ud, IBV_WR_SEND));
	/* Ibv_wr_set_ud_addr() is missing. */
	assert_int_equal(post_complete(ud), -EINVAL);
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	post_abort(qp);
	assert_int_equal(qp->sq.head, qp->sq.tail);
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	assert_int_equal(post_complete(qp), 0);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(ud), 0);
	fix_close(f);
}

/* --- while requests are built -------------------------------------------- */

NO_TSA static void nothing_else_waits_for_a_builder(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready_ex(f, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	assert_int_equal(fix_send(qp, 1, IBV_SEND_SIGNALED), 0);
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	/* Input and completions go on. */
	assert_true(lock_try(&qp->lock));
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 0);
	lock_give(&qp->lock);
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	/* Control calls go on. */
	assert_int_equal(qp_query(qp, &attr, &init), 0);
	assert_int_equal(fix_recv(qp, 3), 0);
	attr.min_rnr_timer = 3;
	assert_int_equal(qp_modify(qp, &attr, IBV_QP_MIN_RNR_TIMER, 0), 0);
	qp->ex.wr_id = 2;
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	assert_int_equal(post_complete(qp), 0);
	assert_int_equal(qp->sq.head - qp->sq.tail, 2);
	assert_int_equal(fix_last(qp)->wr_id, 2);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* The queue is full when the building starts, and makes room as completions are polled
 * meanwhile. */
static void a_builder_sees_the_room_that_completions_make(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready_ex(f, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);

	(void)state;
	for (int i = 0; i < 8; i++)
		assert_int_equal(fix_send(qp, 1, i == 2 ? IBV_SEND_SIGNALED : 0), 0);
	post_start(qp);
	lock_take(&qp->lock);
	for (int i = 0; i < 3; i++)
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 0);
	lock_give(&qp->lock);
	fix_wc(f->scq, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		assert_non_null(post_draft(qp, IBV_WR_SEND));
	assert_null(post_draft(qp, IBV_WR_SEND));
	assert_int_equal(post_complete(qp), -ENOMEM);
	assert_int_equal(qp->sq.head - qp->sq.tail, 5);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void fail_it(struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };

	assert_int_equal(qp_modify(qp, &attr, IBV_QP_STATE, 0), 0);
}

/* The QP goes to ERR during the building: the requests are flushed when they are
 * complete. The QP goes to RESET: ibv_wr_complete() fails, and the QP is as new. */
static void a_qp_fails_under_its_builder(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready_ex(f, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);

	(void)state;
	assert_int_equal(fix_send(qp, 1, 0), 0);
	post_start(qp);
	qp->ex.wr_id = 2;
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	fail_it(qp, IBV_QPS_ERR);
	fix_wc(f->scq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_true(cq_empty(f->scq));
	qp->ex.wr_id = 3;
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	assert_int_equal(post_complete(qp), 0);
	fix_wc(f->scq, 2, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f->scq, 3, IBV_WC_WR_FLUSH_ERR);
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	fail_it(qp, IBV_QPS_RESET);
	assert_int_equal(post_complete(qp), -EINVAL);
	assert_int_equal(qp->sq.head, qp->sq.tail);
	assert_int_equal(qp->sq.head, qp->sq.draft);
	post_start(qp);
	fail_it(qp, IBV_QPS_RESET);
	post_abort(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

enum { POSTERS = 4, ROUNDS = 2000 };

struct poster {
	pthread_t thread;
	struct qp *qp;
	uint64_t me;
	atomic_int *running;
};

static void build_two(struct qp *qp, uint64_t id)
{
	post_start(qp);
	for (int i = 0; i < 2; i++) {
		qp->ex.wr_id = id;
		if (!post_draft(qp, IBV_WR_SEND))
			break;
		sched_yield();
	}
	(void)post_complete(qp); /* fails now and then: the queue is full */
}

static void *pair_after_pair(void *arg)
{
	struct poster *p = arg;
	struct ibv_send_wr two = { .wr_id = p->me, .opcode = IBV_WR_SEND },
			   one = { .wr_id = p->me, .opcode = IBV_WR_SEND, .next = &two },
			   *bad;

	for (int i = 0; i < ROUNDS; i++) {
		if (p->me % 2) {
			build_two(p->qp, p->me);
			post_start(p->qp);
			(void)post_draft(p->qp, IBV_WR_SEND);
			post_abort(p->qp);
		} else {
			(void)qp_post_send(p->qp, &one, &bad);
		}
	}
	atomic_fetch_sub(p->running, 1);
	return NULL;
}

/* Checks that each poster's two requests lie side by side; returns the number of
 * pairs. */
static unsigned take_pairs(struct qp *qp)
{
	unsigned n = 0;

	lock_take(&qp->lock);
	for (; qp->sq.tail != qp->sq.head; n++) {
		assert_int_equal(sq_at(&qp->sq, qp->sq.tail)->wr_id,
				 sq_at(&qp->sq, qp->sq.tail + 1)->wr_id);
		qp->sq.tail += 2;
	}
	lock_give(&qp->lock);
	return n;
}

static void posters_wait_for_each_other(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready_ex(f, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	atomic_int running = POSTERS;
	struct poster p[POSTERS];
	unsigned done = 0;

	(void)state;
	for (uint64_t i = 0; i < POSTERS; i++) {
		p[i] = (struct poster){ .qp = qp, .me = i, .running = &running };
		assert_int_equal(pthread_create(&p[i].thread, NULL, pair_after_pair,
						&p[i]),
				 0);
	}
	while (atomic_load(&running)) {
		done += take_pairs(qp);
		sched_yield();
	}
	for (int i = 0; i < POSTERS; i++)
		pthread_join(p[i].thread, NULL);
	done += take_pairs(qp);
	assert_true(done >= 4); /* at least as many pairs as fill the queue */
	assert_false(qp->builder.active);
	assert_int_equal(qp->builder.waiters, 0);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_else_waits_for_a_builder),
		cmocka_unit_test(a_builder_sees_the_room_that_completions_make),
		cmocka_unit_test(a_qp_fails_under_its_builder),
		cmocka_unit_test(posters_wait_for_each_other),
		cmocka_unit_test(drafts_become_visible_together),
		cmocka_unit_test(one_error_refuses_the_whole_batch),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
