/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection whose peer's process is killed, on another host. */
#include "cm/fix.h"

enum { SIDES = 2,
       CONNECTED = 1 };		/* RESPONSE or ESTABLISHED was told before */

static struct prog *of_side(const struct pair *p, int side)
{
	return side == 0 ? p->a : p->b;
}

/* Its process is gone, and others of its host know nothing of it. */
static void kill_process(struct prog *p)
{
	struct conn *c = conn_of(p->conn);

	p->conn = NULL;
	c->base.owner = NULL;
	c->held = false;
	conn_become(c, ST_IDLE);
}

static void who_lives_is_asked_and_no_more(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	unsigned sent;

	(void)state;
	pair_connect(f, &p);
	sent = f->sent;
	fix_run(f, 60 * FIX_S);
	/* An RTU each 3.75 to 5 s from a; a REP and the RTU to it from b. */
	assert_in_range(f->sent - sent, 3 * 12, 3 * 16);
	for (int side = 0; side < SIDES; side++) {
		struct prog *q = of_side(&p, side);

		assert_int_equal(q->n, CONNECTED);
		assert_int_equal(conn_of(q->conn)->state, ST_ESTABLISHED);
	}
	pair_close(&p);
	fix_close(f);
}

static void a_process_is_killed(void **state)
{
	(void)state;
	for (int side = 0; side < SIDES; side++) {
		struct fix *f = fix_open(2);
		struct pair p = pair_open(f);
		struct prog *left = of_side(&p, !side);

		pair_connect(f, &p);
		kill_process(of_side(&p, side));
		fix_run(f, 5 * FIX_S + FIX_MS);
		fix_told(left, CONNECTED, CM_EV_DISCONNECTED, 0);
		pair_close(&p);
		fix_close(f);
	}
}

static void the_last_process_of_a_host_is_killed(void **state)
{
	(void)state;
	for (int side = 0; side < SIDES; side++) {
		struct fix *f = fix_open(3);
		struct pair p = pair_open(f);
		struct prog *left = of_side(&p, !side);

		pair_connect(f, &p);
		kill_process(of_side(&p, side));
		f->dead[side] = true;
		fix_run(f, 8 * FIX_S);
		fix_told(left, CONNECTED, CM_EV_DISCONNECTED, 0);
		assert_int_equal(left->n, CONNECTED + 2);	/* TIMEWAIT_EXIT */
		pair_close(&p);
		fix_close(f);
	}
}

/* Else it would be asked for 68 s. */
static void a_host_is_gone_that_was_to_agree(void **state)
{
	struct fix *f = fix_open(4);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	kill_process(p.b);
	f->dead[1] = true;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, 2 * FIX_S);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* Who had the port has ended, another takes it a moment later. */
static void a_refusal_proves_nothing(void **state)
{
	struct fix *f = fix_open(5);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	for (int i = 0; i < 20; i++) {
		f->dead[1] = true;
		while (!f->refused[0])
			fix_run(f, FIX_MS);
		fix_run(f, 300 * FIX_MS);
		assert_true(fix_cm(f, 0)->suspect.suspected);
		f->dead[1] = false;
		fix_run(f, 4 * FIX_S);
		assert_false(fix_cm(f, 0)->suspect.suspected);
	}
	assert_int_equal(p.a->n, CONNECTED);
	pair_close(&p);
	fix_close(f);
}

/* A host that says something else in between is not gone. */
static void a_word_takes_the_suspicion_away(void **state)
{
	struct fix *f = fix_open(6);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	f->dead[1] = true;
	while (!fix_cm(f, 0)->suspect.suspected)
		fix_run(f, FIX_MS);
	f->dead[1] = false;
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	assert_false(fix_cm(f, 0)->suspect.suspected);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* As by a kernel where no program listens; but not within the first second. */
static void nobody_is_there(void **state)
{
	struct fix *f = fix_open(7);
	struct pair p = pair_open(f);
	struct prog *q = prog_new(f, 0);

	(void)state;
	fix_connect(q, FIX_UDP, 0xa00002, "port");
	f->dead[1] = true;
	fix_run(f, FIX_S);
	assert_int_equal(p.a->n + q->n, 0);
	fix_run(f, FIX_S);
	fix_told(p.a, 0, CM_EV_REJECTED, CM_REJ_INVALID_SERVICE);
	fix_told(q, 0, CM_EV_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	prog_free(q);
	pair_close(&p);
	fix_close(f);
}

static void who_comes_soon_is_found(void **state)
{
	struct fix *f = fix_open(8);
	struct pair p = pair_open(f);

	(void)state;
	f->dead[1] = true;
	fix_run(f, FIX_S);
	f->dead[1] = false;
	fix_run(f, 5 * FIX_S);
	pair_connect(f, &p);
	pair_close(&p);
	fix_close(f);
}

/* The client ends before it has the answer. */
static void nobody_takes_the_answer(void **state)
{
	struct fix *f = fix_open(9);
	struct pair p = pair_accepted(f);

	(void)state;
	kill_process(p.a);
	f->dead[0] = true;
	fix_run(f, 2 * FIX_S);
	fix_told(p.b, 0, CM_EV_REJECTED, CM_REJ_INVALID_ID);
	pair_close(&p);
	fix_close(f);
}

/* All of a host's, with one host's refusals; none is asked more than 50 times a
 * second with all the others. */
static void many_connections(void **state)
{
	enum { N = 400 };
	struct fix *f = fix_open(8);
	struct prog *l = prog_new(f, 1), *a[N], *b[N];
	struct cm_listener *listener = fix_listen(l, FIX_SPACE, 4);
	unsigned sent;

	(void)state;
	for (int i = 0; i < N; i++) {
		a[i] = prog_new(f, 0);
		b[i] = prog_new(f, 1);
		l->n = 0;
		fix_connect(a[i], FIX_SPACE, 0xa00001 + (uint32_t)i, NULL);
		fix_run(f, FIX_MS);
		fix_own(b[i], l, 0);
		fix_accept(b[i], 2 + (uint32_t)i, NULL);
		fix_run(f, FIX_MS);
		assert_int_equal(fix_established(a[i]), 0);
		fix_run(f, FIX_MS);
	}
	sent = f->sent;
	fix_run(f, 60 * FIX_S);
	assert_in_range(f->sent - sent, 3 * 60 * 45, 3 * 60 * 70);
	f->dead[1] = true;
	for (int i = 0; i < N; i++)
		kill_process(b[i]);
	fix_run(f, 3 * FIX_S);
	for (int i = 0; i < N; i++) {
		fix_told(a[i], 1, CM_EV_DISCONNECTED, 0);
		prog_free(a[i]);
		prog_free(b[i]);
	}
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(l);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_lives_is_asked_and_no_more),
		cmocka_unit_test(a_process_is_killed),
		cmocka_unit_test(the_last_process_of_a_host_is_killed),
		cmocka_unit_test(a_host_is_gone_that_was_to_agree),
		cmocka_unit_test(a_refusal_proves_nothing),
		cmocka_unit_test(a_word_takes_the_suspicion_away),
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(who_comes_soon_is_found),
		cmocka_unit_test(nobody_takes_the_answer),
		cmocka_unit_test(many_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
