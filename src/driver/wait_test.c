/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that waits for an event of a completion channel serves the NIC, or leaves it
 * to the engine's thread, which is not there. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/tuning.h"
#include "sys/cancel_fix.h"
#include "verbs/cq.h"
#include "verbs/event.h"

enum { BRISK_NS = WAIT_LOOK_NS - 1, SLOW_NS = WAIT_LOOK_NS };

static struct {
	struct nic nic;
	struct source ring;
	struct channel ch;
	struct cq cq;
	struct context ctx;
	int kick[2];
	/* under the turn: */
	unsigned looks, marks; /* looks at the ring; how often it was marked */
	bool marked;
	unsigned comes_at; /* the look that finds input, or 0 */
	unsigned bulk;	   /* so many looks find that much goes by the ring */
	int raises;	   /* a signal that comes in the first look, or 0 */
	/* for threads without the turn: the ring is marked; nobody waits any more */
	atomic_bool asleep, over;
} t;

static unsigned ring_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	char byte;

	(void)got;
	(void)now;
	if (depth == SOURCE_QUICK)
		return true;
	t.looks++;
	t.nic.core.round.bulk = t.looks <= t.bulk;
	if (t.raises && t.looks == 1)
		raise(t.raises);
	if (s->ready == t.kick[0]) {
		assert_true(t.marked);
		assert_int_equal(read(t.kick[0], &byte, 1), 1);
	} else if (!t.comes_at || t.looks != t.comes_at) {
		return 0;
	}
	channel_raise(&t.ch, &t.cq);
	return 1;
}

static bool ring_sleep(struct source *s, bool sleeps)
{
	(void)s;
	t.marks += sleeps && !t.marked;
	t.marked = sleeps;
	atomic_store(&t.asleep, sleeps);
	return false;
}

static unsigned ring_fds(struct source *s, struct source_fd *fd)
{
	(void)s;
	*fd = (struct source_fd){ .fd = t.kick[0], .is = SOURCE_KICK };
	return 1;
}

static const struct source_ops ring = { SOURCE_RINGS, .input = ring_input,
					.sleeps = ring_sleep, .fds = ring_fds };

/* took: what the last wait took. The engine's thread leaves the rings. */
static void begin_after(uint64_t took)
{
	struct engine *e = &t.nic.engine;

	memset(&t, 0, sizeof(t));
	assert_int_equal(core_init(&t.nic.core, 1), 0);
	heap_init(&e->timers);
	t.nic.core.timers = &e->timers;
	e->core = &t.nic.core;
	e->thread.kick_tx = -1;
	e->thread.watch[SOURCE_RINGS].left = true;
	assert_int_equal(pipe(t.kick), 0);
	source_init(&t.ring, &ring);
	engine_add(e, &t.ring);
	assert_int_equal(event_queue_init(&t.ch.queue), 0);
	list_init(&t.cq.event_node);
	t.cq.ctx = &t.ctx;
	atomic_store(&t.ch.waited.ns, took);
}

static void end(void)
{
	assert_null(t.nic.engine.waits.at);
	nic_wait_stop(&t.nic, NULL);
	assert_false(t.nic.engine.waits.asleep);
	assert_int_equal(t.nic.engine.waits.n, 0);
	list_init(&t.ch.queue.waiting); /* the CQ is none of those that it frees */
	event_queue_fini(&t.ch.queue);
	close(t.kick[0]);
	close(t.kick[1]);
	heap_fini(&t.nic.engine.timers);
	core_fini(&t.nic.core);
}

/* Waits until there is an event, or the engine's thread is to serve. */
static int wait_once(void)
{
	struct nic_wait w = { .nic = &t.nic, .ch = &t.ch };
	int rc = nic_wait_begin(&w);

	w.got = event_queue_any(&t.ch.queue);
	nic_wait_end(&w);
	return rc;
}

static bool leaves_to_the_thread(void)
{
	return atomic_load(&t.nic.engine.thread.armed);
}

/* Whether it looks, or finds its processor wanted, it finds what has come, and marks
 * nothing. */
static void what_has_come_is_found_before_it_sleeps(void **state)
{
	static const uint64_t took[] = { BRISK_NS, SLOW_NS };

	(void)state;
	for (size_t i = 0; i < sizeof(took) / sizeof(took[0]); i++) {
		begin_after(took[i]);
		t.comes_at = 1;
		assert_int_equal(wait_once(), 0);
		assert_int_equal(t.looks, 1);
		assert_int_equal(t.marks, 0);
		assert_true(event_queue_any(&t.ch.queue));
		assert_false(leaves_to_the_thread());
		end();
	}
}

/* The last input comes when the ring has brought much. Returns false if another thread
 * wanted the processor. */
static bool finds_more(void)
{
	bool found;

	begin_after(SLOW_NS);
	t.bulk = 3;
	t.comes_at = 5;
	assert_int_equal(wait_once(), 0);
	found = event_queue_any(&t.ch.queue);
	assert_int_equal(found, !leaves_to_the_thread());
	found = found && !t.marks;
	end();
	return found;
}

static void while_a_ring_brings_much_it_does_not_sleep(void **state)
{
	(void)state;
	while (!finds_more())
		;
}

/* It marks the rings once they bring no more. Returns false if the time was up before. */
static bool marks_after_bulk(void)
{
	bool marks;

	begin_after(SLOW_NS);
	t.bulk = 3;
	assert_int_equal(wait_once(), 0);
	assert_false(event_queue_any(&t.ch.queue));
	assert_true(leaves_to_the_thread());
	assert_in_range(t.marks, 0, 1);
	marks = t.marks;
	end();
	return marks;
}

static void after_bulk_it_sleeps(void **state)
{
	(void)state;
	while (!marks_after_bulk())
		;
}

static void *kicks(void *arg)
{
	(void)arg;
	while (!atomic_load(&t.asleep) && !atomic_load(&t.over))
		sched_yield();
	assert_int_equal(write(t.kick[1], "", 1), 1);
	return NULL;
}

/* Returns whether it was woken in time; the time is that of a busy machine. */
static bool is_kicked(bool left)
{
	pthread_t peer;
	bool got;

	begin_after(SLOW_NS);
	t.nic.engine.thread.watch[SOURCE_RINGS].left = left;
	pthread_create(&peer, NULL, kicks, NULL);
	assert_int_equal(wait_once(), 0);
	atomic_store(&t.over, true);
	pthread_join(peer, NULL);
	got = event_queue_any(&t.ch.queue);
	assert_int_equal(t.marks, 1);
	assert_int_equal(t.marked, !left);
	assert_int_equal(leaves_to_the_thread(), !got);
	end();
	return got;
}

static void who_sleeps_is_kicked(void **state)
{
	(void)state;
	while (!is_kicked(true))
		;
}

/* While the engine's thread watches the rings they stay marked. */
static void where_the_thread_watches_rings_stay_marked(void **state)
{
	(void)state;
	while (!is_kicked(false))
		;
}

static void after_a_while_the_thread_serves(void **state)
{
	(void)state;
	begin_after(SLOW_NS);
	assert_int_equal(wait_once(), 0);
	assert_false(event_queue_any(&t.ch.queue));
	assert_int_equal(t.marks, 1);
	assert_false(t.marked);
	assert_true(leaves_to_the_thread());
	end();
}

static void who_waited_long_leaves_all_to_the_thread(void **state)
{
	static const uint64_t took[] = { 0, WATCH_LOOK_NS, WATCH_LOOK_NS * 5ull };

	(void)state;
	for (size_t i = 0; i < sizeof(took) / sizeof(took[0]); i++) {
		begin_after(took[i]);
		assert_int_equal(wait_once(), 0);
		assert_int_equal(t.looks, 0);
		assert_true(leaves_to_the_thread());
		end();
	}
}

/* Programs that sleep in epoll_wait() find events that are there. */
static void who_never_waits_here_is_served_by_the_thread(void **state)
{
	(void)state;
	begin_after(BRISK_NS);
	channel_raise(&t.ch, &t.cq);
	for (int i = 0; i < WAIT_AT_ONCE; i++) {
		assert_int_equal(wait_once(), 0);
		nic_armed(&t.nic, &t.ch);
	}
	assert_false(leaves_to_the_thread());
	assert_int_equal(wait_once(), 0);
	nic_armed(&t.nic, &t.ch);
	assert_true(leaves_to_the_thread());
	assert_int_equal(t.looks, 0);
	end();
}

static void of_several_none_serves(void **state)
{
	struct nic_wait first = { .nic = &t.nic, .ch = &t.ch };

	(void)state;
	begin_after(0);
	assert_int_equal(nic_wait_begin(&first), 0);
	atomic_store(&t.ch.waited.ns, BRISK_NS);
	atomic_store(&t.nic.engine.thread.armed, false);
	assert_int_equal(wait_once(), 0);
	assert_true(leaves_to_the_thread());
	nic_wait_end(&first);
	assert_int_equal(wait_once(), 0); /* it may come again */
	assert_int_equal(t.looks, 0);
	end();
}

static void nobody_waits_where_reads_do_not_block(void **state)
{
	(void)state;
	begin_after(BRISK_NS);
	assert_int_equal(fcntl(t.ch.queue.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(wait_once(), 0);
	assert_int_equal(t.looks, 0);
	assert_true(leaves_to_the_thread());
	end();
}

/* --- signals and cancellation --------------------------------------------------------
 */

static volatile sig_atomic_t heard;

static void hear(int sig)
{
	heard = sig;
}

static int after_a_signal(int flags)
{
	const struct sigaction act = { .sa_handler = hear, .sa_flags = flags };
	int rc;

	heard = 0;
	sigaction(SIGUSR1, &act, NULL);
	begin_after(SLOW_NS);
	t.raises = SIGUSR1;
	rc = wait_once();
	assert_int_equal(heard, SIGUSR1);
	end();
	return rc;
}

static void signals_interrupt_as_in_read(void **state)
{
	(void)state;
	assert_int_equal(after_a_signal(0), -EINTR);
	assert_int_equal(after_a_signal(SA_RESTART), 0);
}

static void is_cancelled(void *arg)
{
	forget_frames(NULL);
	nic_wait_end(arg);
}

static void *waits_for_ever(void *arg)
{
	struct nic_wait w = { .nic = &t.nic, .ch = &t.ch };

	(void)arg;
	pthread_cleanup_push(is_cancelled, &w);
	for (;;) {
		assert_int_equal(nic_wait_begin(&w), 0);
		pthread_testcancel();
		nic_wait_end(&w);
		atomic_store(&t.ch.waited.ns, SLOW_NS);
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void who_is_cancelled_leaves_all_to_the_thread(void **state)
{
	pthread_t who;

	(void)state;
	begin_after(SLOW_NS);
	pthread_create(&who, NULL, waits_for_ever, NULL);
	while (!atomic_load(&t.asleep))
		sched_yield();
	pthread_cancel(who);
	pthread_join(who, NULL);
	assert_true(leaves_to_the_thread());
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_come_is_found_before_it_sleeps),
		cmocka_unit_test(while_a_ring_brings_much_it_does_not_sleep),
		cmocka_unit_test(after_bulk_it_sleeps),
		cmocka_unit_test(who_sleeps_is_kicked),
		cmocka_unit_test(where_the_thread_watches_rings_stay_marked),
		cmocka_unit_test(after_a_while_the_thread_serves),
		cmocka_unit_test(who_waited_long_leaves_all_to_the_thread),
		cmocka_unit_test(who_never_waits_here_is_served_by_the_thread),
		cmocka_unit_test(of_several_none_serves),
		cmocka_unit_test(nobody_waits_where_reads_do_not_block),
		cmocka_unit_test(signals_interrupt_as_in_read),
		cmocka_unit_test(who_is_cancelled_leaves_all_to_the_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
