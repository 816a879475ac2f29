/* SPDX-License-Identifier: BSD-2-Clause */
/* A message for which the peer's connection has no room is sent again every SAY_AGAIN_NS,
 * however many turns are taken meanwhile. */
#include "host/host.h"
#include "shm/fix.h"

/* Fills the connection from side 0 with wake-ups that side 1 does not read. */
static struct peer *fill(struct fix *f)
{
	struct peer *p = pair_peer(f, 0);

	pair_stop(f, 1);
	while (!p->kick)
		peer_kick(p);
	assert_int_equal(p->l->unsaid, 1);
	return p;
}

static void at(struct peers *l, uint64_t now)
{
	l->now = now;
	peers_flush(l);
}

static void is_sent_again_in_time(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = fill(f);
	struct peers *l = p->l;
	const uint64_t due = l->now + SAY_AGAIN_NS;

	(void)state;
	assert_int_equal(l->say_at, due);
	while (host_run(f->s->node[1].host))
		;
	at(l, due - 1); /* there is room, but it is too early */
	assert_true(p->kick);
	assert_int_equal(fix_deadline(l), due);
	at(l, due);
	assert_false(p->kick);
	assert_int_equal(l->unsaid, 0);
	pair_go(f, 1);
	fix_close(f);
}

/* A thread with a brief turn sends it: a dead peer is told of with the turn prolonged. */
NO_TSA static void the_turn_is_prolonged(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = fill(f);
	struct core *core = p->l->core;

	(void)state;
	p->l->now = p->l->say_at;
	assert_true(turn_try_brief(&core->turn));
	assert_false(core->turn.prolonged);
	peers_flush(p->l);
	assert_true(core->turn.prolonged);
	turn_give(&core->turn);
	pair_go(f, 1);
	fix_close(f);
}

static void waits_anew_if_there_is_no_room(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = fill(f);
	struct peers *l = p->l;
	const uint64_t due = l->now + SAY_AGAIN_NS;

	(void)state;
	at(l, due);
	assert_true(p->kick);
	assert_int_equal(l->unsaid, 1);
	assert_int_equal(l->say_at, due + SAY_AGAIN_NS);
	assert_int_equal(fix_deadline(l), due + SAY_AGAIN_NS);
	pair_go(f, 1);
	fix_close(f);
}

/* While a wake-up waits, others add nothing to it. */
static void one_wake_up_is_enough(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = fill(f);
	const uint64_t due = p->l->say_at;

	(void)state;
	p->l->now = due;
	peer_kick(p);
	assert_int_equal(p->l->unsaid, 1);
	assert_int_equal(p->l->say_at, due); /* no attempt was made */
	pair_go(f, 1);
	fix_close(f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_sent_again_in_time),
		cmocka_unit_test(the_turn_is_prolonged),
		cmocka_unit_test(waits_anew_if_there_is_no_room),
		cmocka_unit_test(one_wake_up_is_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
