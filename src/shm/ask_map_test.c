/* SPDX-License-Identifier: BSD-2-Clause */
/* answer_test.c - the thread that copies to a peer's memory itself hears the answer when
 * it has asked for the region's mapping: the engine's thread may not run for long. */
#include "direct/shared_fix.h"

static struct peers *peers_a(const struct shared *s)
{
	return peers_of(&s->f->s->node[0].core);
}

static void flush(const struct shared *s)
{
	struct core *core = &s->f->s->node[0].core;

	turn_take(&core->turn);
	peers_flush(peers_a(s));
	turn_give(&core->turn);
}

/* How often A's engine was told to wake. */
static unsigned woken;

static void wakes(void *arg)
{
	(void)arg;
	woken++;
}

/* A uses B's region until it asks for the mapping; B does not run meanwhile. */
static struct shared asked(void)
{
	struct shared s =
		share(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, MAP_SHARED);

	s.f->s->node[1].stopped = true;
	for (unsigned i = 0; i < USES && !peers_a(&s)->looks; i++) {
		post(&s, IBV_WR_RDMA_WRITE, i, 0, 0, 8);
		done(&s, i);
	}
	assert_true(peers_a(&s)->looks > 0);
	return s;
}

static void an_answer_is_heard_without_input(void **state)
{
	struct shared s = asked();
	const struct peers_ops *ops = peers_a(&s)->ops;
	struct peers_ops tells = *ops;

	(void)state;
	woken = 0;
	tells.sooner = wakes;
	peers_a(&s)->ops = &tells;
	flush(&s);
	assert_null(map_of(&s));
	assert_int_equal(woken, 0);
	s.f->s->node[0].stopped = true;
	s.f->s->node[1].stopped = false;
	(void)sim_run(s.f->s, 1000000);
	assert_null(map_of(&s));
	flush(&s);
	assert_non_null(map_of(&s));
	assert_int_equal(peers_a(&s)->looks, 0);
	assert_int_equal(woken, 1); /* the thread may have slept on that */
	peers_a(&s)->ops = ops;
	s.f->s->node[0].stopped = false;
	unshare_(&s);
}

/* A thread with a brief turn looks: messages may reach cancellation points. */
NO_TSA static void a_look_prolongs_the_turn(void **state)
{
	struct shared s = asked();
	struct core *core = &s.f->s->node[0].core;
	int cancel;

	(void)state;
	assert_true(turn_try_brief(&core->turn));
	assert_false(core->turn.prolonged);
	peers_flush(peers_a(&s));
	assert_true(core->turn.prolonged);
	turn_give(&core->turn);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
	assert_int_equal(cancel, PTHREAD_CANCEL_ENABLE);
	s.f->s->node[1].stopped = false;
	unshare_(&s);
}

static void another_peers_answer_does_not_end_it(void **state)
{
	struct shared s = asked();
	struct peer other;

	(void)state;
	peers_a(&s)->asked = &other;
	s.f->s->node[0].stopped = true;
	s.f->s->node[1].stopped = false;
	(void)sim_run(s.f->s, 1000000);
	flush(&s);
	assert_non_null(map_of(&s));
	assert_true(peers_a(&s)->looks > 0);
	s.f->s->node[0].stopped = false;
	unshare_(&s);
}

/* At a program's end QPs may stay locked. */
static void nobody_looks_at_the_end(void **state)
{
	struct shared s = asked();
	struct core *core = &s.f->s->node[0].core;
	unsigned looks = peers_a(&s)->looks;

	(void)state;
	core->leaving = true;
	flush(&s);
	core->leaving = false;
	assert_int_equal(peers_a(&s)->looks, looks);
	s.f->s->node[1].stopped = false;
	unshare_(&s);
}

static void no_answer_is_not_awaited_for_ever(void **state)
{
	struct shared s = asked();

	(void)state;
	for (unsigned i = 0; i < ANSWER_LOOKS; i++)
		flush(&s);
	assert_int_equal(peers_a(&s)->looks, 0);
	flush(&s);
	assert_int_equal(peers_a(&s)->looks, 0);
	s.f->s->node[1].stopped = false;
	use(&s);
	assert_non_null(map_of(&s));
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_heard_without_input),
		cmocka_unit_test(a_look_prolongs_the_turn),
		cmocka_unit_test(another_peers_answer_does_not_end_it),
		cmocka_unit_test(nobody_looks_at_the_end),
		cmocka_unit_test(no_answer_is_not_awaited_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
