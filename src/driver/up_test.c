/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's thread stays up while sockets or rings bring input in bulk. Then a thread
 * of the program polls: the engine's thread must sleep again. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/engine.h"
#include "sys/clock.h"
#include "sys/waiter_testing.h"
#include "verbs/core.h"

static struct {
	struct core core;
	struct engine e;
	struct source sock, ring, host;
	int sock_fd, host_fd;
	atomic_uint bulk, turns;
	atomic_uint much; /* turns that find that much goes by the ring */
	atomic_bool left;
	bool heats;
} t;

static void drain(int fd)
{
	uint64_t v;

	(void)!read(fd, &v, sizeof(v));
}

static unsigned sock_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)s;
	(void)depth;
	(void)got;
	(void)now;
	drain(t.sock_fd);
	t.turns++;
	return t.bulk;
}

static unsigned sock_fds(struct source *s, struct source_fd *fd)
{
	(void)s;
	*fd = (struct source_fd){ .fd = t.sock_fd };
	return 1;
}

static unsigned ring_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)s;
	(void)got;
	(void)now;
	if (depth != SOURCE_QUICK && atomic_load(&t.much)) {
		atomic_fetch_sub(&t.much, 1);
		t.core.round.bulk = true;
	}
	return 0;
}

static bool ring_sleep(struct source *s, bool sleeps)
{
	source_set(s, sleeps || !t.heats ? NEVER : 0);
	t.left |= !sleeps;
	return false;
}

static unsigned host_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)depth;
	(void)got;
	(void)now;
	if (s->ready >= 0)
		drain(s->ready);
	return 0;
}

static unsigned host_fds(struct source *s, struct source_fd *fd)
{
	(void)s;
	*fd = (struct source_fd){ .fd = t.host_fd, .is = SOURCE_KICK };
	return 1;
}

static const struct source_ops sock = { SOURCE_SOCKETS, .input = sock_input,
					.fds = sock_fds };
static const struct source_ops ring = { SOURCE_RINGS, .input = ring_input,
					.sleeps = ring_sleep };
static const struct source_ops host = { SOURCE_SOCKETS, .input = host_input,
					.fds = host_fds };

static void polls(void)
{
	/* As if by a thread that polls all the time, whoever has the processor. */
	atomic_store(&t.e.pollers.last, clock_ns() + 1000000000);
}

static void ring_at(int fd)
{
	assert_int_equal(write(fd, &(uint64_t){ 1 }, 8), 8);
}

static void begin(bool hot)
{
	memset(&t, 0, sizeof(t));
	assert_int_equal(core_init(&t.core, 1), 0);
	heap_init(&t.e.timers);
	t.core.timers = &t.e.timers;
	t.e.core = &t.core;
	t.heats = hot;
	t.sock_fd = eventfd(0, EFD_NONBLOCK);
	t.host_fd = eventfd(0, EFD_NONBLOCK);
	source_init(&t.sock, &sock);
	source_init(&t.ring, &ring);
	source_init(&t.host, &host);
	engine_add(&t.e, &t.sock);
	engine_add(&t.e, &t.ring);
	engine_add(&t.e, &t.host);
	assert_int_equal(engine_thread_start(&t.e), 0);
}

/* Returns when the sockets' bulk has ended, while a thread polls and the rings are left
 * to it. */
static void bulk_has_ended(bool hot)
{
	begin(hot);
	/* Bulk begins, and nobody polls; then a thread polls, and a peer's KICK comes. (A
	 * yield that lets another thread run ends the bulk, hence the tries.) */
	for (unsigned tries = 0; !t.left; tries++) {
		unsigned was = t.turns;

		assert_true(tries < 1000);
		atomic_store(&t.e.pollers.last, 0);
		t.bulk = 16;
		ring_at(t.sock_fd);
		while (t.turns - was < 2)
			sched_yield();
		polls();
		ring_at(t.host_fd);
		for (was = t.turns; !t.left && t.turns - was < 100;)
			sched_yield();
		if (t.left && t.e.thread.watch[SOURCE_SOCKETS].left)
			t.left = false;
	}
	t.bulk = 0; /* and no more bulk */
}

static void end(void)
{
	engine_thread_stop(&t.e);
	close(t.sock_fd);
	close(t.host_fd);
	heap_fini(&t.e.timers);
	core_fini(&t.core);
}

/* Returns how many turns the thread takes for one kick, in which much goes by the ring in
 * the first `much`. */
static unsigned turns_for_a_kick(unsigned much)
{
	const unsigned was = t.turns;

	atomic_store(&t.much, much);
	ring_at(t.host_fd);
	while (t.turns == was || !others_sleep())
		sched_yield();
	return t.turns - was;
}

/* (A yield that lets another thread run ends the bulk.) */
static void it_looks_for_more_while_a_ring_brings_much(void **state)
{
	(void)state;
	begin(false);
	while (turns_for_a_kick(3) < 4)
		;
	end();
}

/* The thread must not look again and again for what it has left to the poller. */
static void it_sleeps_after_bulk(void **state)
{
	(void)state;
	bulk_has_ended(true);
	while (!others_sleep())
		polls();
	assert_false(t.e.thread.watching && t.e.thread.watch[SOURCE_RINGS].left);
	end();
}

/* The rings are quiet, as those of a fabric's adapter may be: the thread that polled arms
 * a CQ instead, as nic_armed() does. */
static void an_armed_cq_wakes_it(void **state)
{
	unsigned was;

	(void)state;
	bulk_has_ended(false);
	while (!others_sleep())
		sched_yield();
	was = t.turns;
	atomic_store(&t.e.pollers.last, 0);
	atomic_store(&t.e.thread.armed, true);
	if (atomic_load(&t.e.thread.sleeping) && !atomic_load(&t.e.thread.watching))
		engine_kick(&t.e);
	while (t.turns == was)
		sched_yield();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_looks_for_more_while_a_ring_brings_much),
		cmocka_unit_test(it_sleeps_after_bulk),
		cmocka_unit_test(an_armed_cq_wakes_it)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
