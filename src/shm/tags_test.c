/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching by the thread that posts; ib's tests of it run on one host, too
 * (ib/tm_fix.h). */
#include "ib/tm_fix.h"
#include "shm/fix.h"

static struct tags *open_segments(void)
{
	struct tags *t = open_tags(
		&(const struct sim_conf){ .same_host = true, .pipe_only = true });

	for (int i = 0; i < 2; i++)
		while (shm_qp(t->qp[i])->peer->state != PEER_UP)
			sim_run(t->f->s, MS);
	return t;
}

static struct ibv_send_wr *post_by_thread(struct qp *qp, struct ibv_send_wr *wr)
{
	enum post_left left;

	wr = qp->transport->post(qp, wr, &left);
	if (left == POST_DUE)
		due_add(qp->core, qp);
	return wr;
}

/* The program has used up its places, and polls nothing.  READs of the QP's own go out
 * beyond: after them there is no place either. */
static void no_more_than_the_queue_has(void **state)
{
	enum { RNDVS = 4 };
	struct tags *t = open_segments();
	struct qp *b = t->qp[1];
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 8);
	struct ibv_send_wr wr = send_wr(3, &sge, 1, 0);
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < b->sq.cap + RNDVS; i++)
		take_fin(t, i);
	while (n <= b->sq.cap && !post_by_thread(b, &wr))
		n++;
	assert_int_equal(n, b->sq.cap);
	sim_run(t->f->s, MS);
	assert_int_equal(b->sq.tail, b->sq.head);
	pair_stop(t->f, 1);
	for (unsigned i = 0; i < RNDVS; i++) {
		struct request r = request(t, i + 1, 8192 + 4096 * i, 3000);

		add(t, i + 1, 8192 + 4096 * i, 3000);
		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		sim_run(t->f->s, 10000);
	}
	pair_stop(t->f, 0);
	pair_go(t->f, 1);
	sim_run(t->f->s, MS);
	assert_int_equal(b->tm.own, RNDVS);
	assert_ptr_equal(post_by_thread(b, &wr), &wr);
	pair_go(t->f, 0);
	sim_run(t->f->s, SEC);
	for (struct cqe e; cq_pop(t->scq, &e); n--)
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	assert_int_equal(n, 0);
	close_tags(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
		no_more_than_the_queue_has) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
