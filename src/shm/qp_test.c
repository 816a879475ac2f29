/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that begin, end and begin again. */
#include "shm/fix.h"

static void a_target_that_is_ready_later(void **state)
{
	struct fix *f = plain_pair();
	const uint64_t began = f->s->now;

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	post_at(f, 0, 1, 0, 8, 0);
	post_at(f, 0, 2, 8, 8, 0);
	pair_run(f, MS);
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	recv_at(f, 1, 1, 5000, 8);
	recv_at(f, 1, 2, 6000, 8);
	came(f, 1, 1, 5000, 0, 8);
	came(f, 1, 2, 6000, 8, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_true(f->s->now - began < 3 * MS); /* no timeout passed */
	fix_close(f);
}

/* Both ends are reset and connected again, with the same numbers, before the target has
 * read what the source sent before. */
static void stale_segments(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, 1000);
	pair_again(f, 0);
	pair_again(f, 1);
	recv_at(f, 1, 2, 5000, 8);
	post_at(f, 0, 2, 100, 8, 0);
	pair_go(f, 1);
	came(f, 1, 2, 5000, 100, 8);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The source is reset alone: the word of before is not for its new life. */
static void a_stale_word(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_again(f, 0);
	post_at(f, 0, 2, 0, 8, 0);
	fix_wc(f, 0, 2, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* The source is reset alone, and goes on with the number that is expected, as a wire
 * allows.  What is missing is asked of it, too. */
static void a_source_that_is_reset_alone(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = 20 });
	struct shm_qp *b = shm_qp(f->p.qp[1]);
	uint64_t began;

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) {
		recv_at(f, 1, id, 5000, 8);
		post_at(f, 0, id, 8 * id, 8, 0);
		came(f, 1, id, 5000, 8 * id, 8);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
		stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 5));
		pair_run(f, MS);
		assert_true(b->dst.odd & DST_GAP);
		f->conf.psn[0] = b->dst.expected;
		pair_again(f, 0);
	}
	began = f->s->now;
	pair_stop(f, 1);
	for (uint64_t id = 4; id <= 5; id++) {
		recv_at(f, 1, id, 1000 * id, 8);
		post_at(f, 0, id, 8 * id, 8, 0);
	}
	lose(f, 1, 0);
	pair_go(f, 1);
	for (uint64_t id = 4; id <= 5; id++) {
		came(f, 1, id, 1000 * id, 8 * id, 8);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	}
	assert_true(f->s->now - began < 10 * MS); /* no timeout passed */
	fix_close(f);
}

/* The target is reset first: what the source still sends of the connection before does
 * not keep the next one out. */
static void a_source_of_before(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	pair_again(f, 1);
	post_at(f, 0, 2, 0, 8, 0);
	pair_run(f, MS);
	pair_again(f, 0);
	recv_at(f, 1, 3, 5000, 8);
	post_at(f, 0, 3, 100, 8, 0);
	came(f, 1, 3, 5000, 100, 8);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	fix_close(f);
}

static void the_last_word(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	sim_step(f->s);
	pair_stop(f, 0);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_no_wc(f, 0);
	pair_again(f, 1);
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* Several QPs wait for the peer with requests, and go on when it is up. */
static void all_that_wait_go_on(void **state)
{
	const struct sim_conf conf = { .same_host = true, .pipe_only = true };
	struct sim *s = sim_open(&conf);
	struct sim_pair p[3];
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = sim_pair(s, IBV_QPT_RC, &conf);
		sim_recv(p[i].qp[1], 1, NULL, 0);
		sim_send(p[i].qp[0],
			 &(struct ibv_send_wr){ .opcode = IBV_WR_SEND,
						.send_flags = IBV_SEND_SIGNALED });
		assert_int_equal(shm_qp(p[i].qp[0])->peer->state, PEER_OPENING);
	}
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++) {
			assert_true(sim_wait(s, p[i].cq[k], SEC, &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
	for (int i = 0; i < 3; i++)
		sim_unpair(s, &p[i]);
	sim_close(s);
}

/* Its program gives the QP up before it is ready. */
static void never_ready(void **state)
{
	struct fix *f = plain_pair();
	struct ibv_qp_cap cap = { 8, 8, 1, 1, 0 };
	struct qp *qp = sim_qp(f->s, 0, IBV_QPT_RC, f->p.cq[0], f->p.cq[0], NULL, &cap);
	struct core *core = &f->s->node[0].core;

	(void)state;
	turn_take(&core->turn);
	lock_take(&qp->lock);
	assert_int_equal(qp_change_transport(qp, &shm_transport), 0);
	lock_give(&qp->lock);
	turn_give(&core->turn);
	sim_destroy(f->s, qp);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_that_is_ready_later),
		cmocka_unit_test(stale_segments),
		cmocka_unit_test(a_stale_word),
		cmocka_unit_test(a_source_that_is_reset_alone),
		cmocka_unit_test(a_source_of_before),
		cmocka_unit_test(the_last_word),
		cmocka_unit_test(all_that_wait_go_on),
		cmocka_unit_test(never_ready),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
