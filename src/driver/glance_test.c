/* SPDX-License-Identifier: BSD-2-Clause */
/* Short turns of a poller: whatever it finds in the rings, the sockets and the timers do
 * not wait for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "driver/nic.h"
#include "driver/nic_own.h"

enum { US = 1000 };

static struct {
	struct nic nic;
	struct source sock, ring;
	bool quiet;
	uint64_t now, looked, longest;
} t;

/* Stands in for libc's function. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ (time_t)(t.now / 1000000000),
				 (long)(t.now % 1000000000) };
	return 0;
}

static unsigned sock_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)s;
	(void)depth;
	(void)got;
	if (t.looked && now - t.looked > t.longest)
		t.longest = now - t.looked;
	t.looked = now;
	return 0;
}

static unsigned ring_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)s;
	(void)depth;
	(void)got;
	(void)now;
	return !t.quiet;
}

static bool ring_sleep(struct source *s, bool sleeps)
{
	(void)s;
	(void)sleeps;
	return false;
}

static const struct source_ops sock = { SOURCE_SOCKETS, .input = sock_input };
static const struct source_ops ring = { SOURCE_RINGS, .brief = true, .input = ring_input,
					.sleeps = ring_sleep };

static void begin(void)
{
	memset(&t, 0, sizeof(t));
	t.now = 1000000000;
	assert_int_equal(core_init(&t.nic.core, 1), 0);
	heap_init(&t.nic.engine.timers);
	t.nic.core.timers = &t.nic.engine.timers;
	t.nic.engine.core = &t.nic.core;
	source_init(&t.sock, &sock);
	source_init(&t.ring, &ring);
	engine_add(&t.nic.engine, &t.sock);
	engine_add(&t.nic.engine, &t.ring);
}

static void end(void)
{
	heap_fini(&t.nic.engine.timers);
	core_fini(&t.nic.core);
}

static void poll_after(uint64_t ns)
{
	t.now += ns;
	assert_true(nic_poll(&t.nic));
}

/* A program that works for 40 us on each message of a ring. (The engine's thread leaves
 * the input to it, since it polled within 50 us.) */
static void sockets_do_not_wait_for_long(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 1000; i++)
		poll_after(40 * US);
	print_message("longest time between two looks at the sockets: %lu us\n",
		      (unsigned long)(t.longest / US));
	/* One in eight polls, as before there were short turns. */
	assert_in_range(t.longest, 1, 8 * 40 * US);
	end();
}

/* A program that gets a message by a ring now and then, and others by sockets. */
static void nor_do_they_while_rings_are_quiet(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 1000; i++) {
		t.quiet = i % 100 != 0;
		poll_after(15 * US);
	}
	print_message("longest time between two looks at the sockets: %lu us\n",
		      (unsigned long)(t.longest / US));
	assert_in_range(t.longest, 1, 12 * 15 * US);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_do_not_wait_for_long),
		cmocka_unit_test(nor_do_they_while_rings_are_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
