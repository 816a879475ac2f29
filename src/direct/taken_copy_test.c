/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that stands in the middle of a copy to memory that both processes have mapped,
 * while that memory is taken away. */
#include <errno.h>
#include <pthread.h>

#include "direct/late_testing.h"
#include "direct/shared_fix.h"
#include "sys/hang_testing.h"
#include "verbs/post.h"

/* A thread of A's that stands in the middle of a WRITE; what it writes is 0x77. */
struct held {
	struct shared s;
	struct late late;
	struct mr *late_mr, *own;
	pthread_t thread;
};

enum { HELD_LEN = 60000, BEFORE_LATE = 1000, PIECE = 2048 };

static void *write_late(void *arg)
{
	struct held *h = arg;

	post(&h->s, IBV_WR_RDMA_WRITE, 1, LATE_PAGE - BEFORE_LATE, 0, HELD_LEN);
	return NULL;
}

static bool hold(struct held *h, void *(*fn)(void *))
{
	*h = (struct held){ .late.fd = -1 };
	if (!late_open(&h->late, 0x77))
		return false;
	h->s = mapped(FIX_ALL);
	h->late_mr = sim_mr(h->s.f->s, 0, h->late.at, LATE_SIZE, FIX_ALL);
	h->own = h->s.f->mr[0];
	h->s.f->mr[0] = h->late_mr;
	direct_of(&h->s.f->s->node[1].core)->give_up_ns = 50000000;
	memset(h->s.at, 0xee, LEN);
	assert_int_equal(pthread_create(&h->thread, NULL, fn, h), 0);
	assert_true(late_reached(&h->late));
	return true;
}

/* The thread continues, and completes its current piece only. */
static void let_go(struct held *h)
{
	assert_true(late_give(&h->late));
	assert_int_equal(pthread_join(h->thread, NULL), 0);
	for (size_t i = 0; i < HELD_LEN; i++)
		assert_int_equal(h->s.at[i], i < PIECE ? 0x77 : 0xee);
}

static void leave(struct held *h)
{
	h->s.f->mr[0] = h->own;
	assert_int_equal(mr_dereg(h->late_mr), 0);
	late_close(&h->late);
	unshare_(&h->s);
}

static void region_goes_under(void *(*fn)(void *))
{
	struct held h;

	if (!hold(&h, fn))
		skip();
	assert_int_equal(mr_dereg(h.s.mr), -EBUSY);
	let_go(&h);
	assert_int_equal(mr_dereg(h.s.mr), 0);
	h.s.mr = NULL;
	fix_wc(h.s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	leave(&h);
}

static void who_stands_in_a_copy_of_a_region_that_goes(void **state)
{
	(void)state;
	region_goes_under(write_late);
}

/* The caller is told that it may still be written to. */
static void who_stands_in_a_copy_by_a_qp_that_goes(void **state)
{
	struct held h;
	uint32_t qpn;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	qpn = h.s.f->p.qp[1]->qpn;
	fix_modify(h.s.f, 1, IBV_QPS_ERR);
	assert_int_equal(direct_fence(&h.s.f->s->node[1].core, qpn), -EBUSY);
	let_go(&h);
	assert_int_equal(direct_fence(&h.s.f->s->node[1].core, qpn), 0);
	fix_wc(h.s.f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	leave(&h);
}

/* Nothing was taken away: the whole copy arrives. */
static void who_stood_in_a_copy_ends_it(void **state)
{
	struct held h;

	(void)state;
	if (!hold(&h, write_late))
		skip();
	assert_true(late_give(&h.late));
	assert_int_equal(pthread_join(h.thread, NULL), 0);
	done_at_once(&h.s, 1);
	for (size_t i = 0; i < HELD_LEN + 9; i++)
		assert_int_equal(h.s.at[i], i < HELD_LEN ? 0x77 : 0xee);
	leave(&h);
}

/* Stands in the first of two SGEs. */
static void *write_two(void *arg)
{
	struct held *h = arg;
	struct qp *qp = h->s.f->p.qp[0];
	struct ibv_sge sge[] = {
		sim_sge(h->late_mr, LATE_PAGE - BEFORE_LATE, PIECE),
		sim_sge(h->late_mr, 0, BEFORE_LATE),
	};
	struct swqe *w;

	qp->send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
	post_start(qp);
	qp->ex.wr_id = 1;
	qp->ex.wr_flags = IBV_SEND_SIGNALED;
	w = post_draft(qp, IBV_WR_RDMA_WRITE);
	w->rkey = h->s.mr->mkey.key;
	w->remote_addr = h->s.mr->mkey.base;
	post_sge_list(qp, 2, sge);
	assert_true(post_complete(qp) >= 0);
	due_add(qp->core, qp);
	return NULL;
}

static void who_stands_in_the_first_sge(void **state)
{
	(void)state;
	region_goes_under(write_two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_stands_in_a_copy_of_a_region_that_goes),
		cmocka_unit_test(who_stands_in_a_copy_by_a_qp_that_goes),
		cmocka_unit_test(who_stood_in_a_copy_ends_it),
		cmocka_unit_test(who_stands_in_the_first_sge),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
