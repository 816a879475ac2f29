/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of what a child has of file pages that other threads store to meanwhile. */
#include "direct/swap_fix.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "direct/still.h"
#include "sys/hang_testing.h"

/* ThreadSanitizer knows nothing of stores that wait. */
#define UNSEEN __attribute__((no_sanitize("thread")))

static struct swap_run run;
static struct still still;
static volatile uint64_t *in_file, *in_private;
static atomic_bool stop;

static bool is_allowed(void)
{
	struct vacant v;
	const int rc = vacant_open_forks(&v);

	vacant_close(&v);
	return rc != -EPERM && rc != -ENOSYS;
}

static int begin_still(bool watched)
{
	int rc = still_prepare();

	if (!rc)
		rc = still_open(&still, watched);
	return rc ? rc : still_begin(&still, &run, 1);
}

static int begin(void **state)
{
	uint8_t *p = map(LEN);

	(void)state;
	in_file = (volatile uint64_t *)(void *)p;
	in_private = (volatile uint64_t *)(void *)map(PAGE);
	run = out(p, LEN);
	stop = false;
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_true(swap_in(&run, SWAP_ALONE));
	munmap((void *)(uintptr_t)in_file, LEN);
	munmap((void *)(uintptr_t)in_private, PAGE);
	return 0;
}

/* Counts in two pages of the file, and then in a private one. */
UNSEEN static void *count(void *arg)
{
	for (uint64_t n = 1; !stop; n++) {
		in_file[PAGE / 8] = n;
		in_file[0] = n;
		in_private[0] = n;
	}
	return arg;
}

UNSEEN static int child_sees(void)
{
	const uint64_t a = in_file[PAGE / 8], b = in_file[0], c = in_private[0];

	return a < b || b < c || a > c + 1;
}

static void a_child_sees_what_came_before_what_it_sees(void **state)
{
	enum { FORKS = 200 };
	pthread_t t;

	(void)state;
	if (!is_allowed())
		skip();
	assert_int_equal(pthread_create(&t, NULL, count, NULL), 0);
	while (in_private[0] < 1000)
		sched_yield();
	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid;

		assert_int_equal(begin_still(i & 1), 0);
		swap_copy(&run);
		still_copied(&still);
		pid = fork();
		if (!pid) {
			still_in_child(&still);
			swap_child(&run, 1);
			_exit(child_sees());
		}
		assert_true(still_end(&still));
		swap_parent(&run);
		ends_well(pid);
	}
	stop = true;
	pthread_join(t, NULL);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool has_mutex, goes;

/* As a thread does that is in malloc(). */
UNSEEN static void *store_inside(void *arg)
{
	pthread_mutex_lock(&mutex);
	has_mutex = true;
	while (!goes)
		sched_yield();
	in_file[0] = 7;
	pthread_mutex_unlock(&mutex);
	return arg;
}

/* Its owner stores to the pages. */
static void stores_are_let_go_on_for_a_lock(void **state)
{
	pthread_t t;

	(void)state;
	if (!is_allowed())
		skip();
	has_mutex = goes = false;
	assert_int_equal(pthread_create(&t, NULL, store_inside, NULL), 0);
	while (!has_mutex)
		sched_yield();
	assert_int_equal(begin_still(true), 0);
	swap_copy(&run);
	still_copied(&still);
	goes = true;
	pthread_mutex_lock(&mutex);
	assert_int_equal(in_file[0], 7);
	pthread_mutex_unlock(&mutex);
	assert_false(still_end(&still));
	swap_parent(&run);
	pthread_join(t, NULL);
}

/* Counts under a lock that the forking thread takes, too: by turns in each page of the
 * file, and in a private one. */
UNSEEN static void *count_inside(void *arg)
{
	for (uint64_t n = 1; !stop; n++) {
		pthread_mutex_lock(&mutex);
		has_mutex = true;
		while (!goes && !stop)
			sched_yield();
		has_mutex = false;
		in_file[n % PAGES * PAGE / 8 + 1] = n;
		in_file[0] = n;
		in_private[0] = n;
		pthread_mutex_unlock(&mutex);
		sched_yield();
	}
	return arg;
}

UNSEEN static int child_sees_all_of(uint64_t n)
{
	return in_file[0] != n || in_private[0] != n ||
	       (n && in_file[n % PAGES * PAGE / 8 + 1] != n);
}

/* As malloc() in a child relies on what was stored under its lock before. */
static void a_child_sees_all_that_was_stored_under_the_lock(void **state)
{
	enum { FORKS = 100 };
	unsigned let = 0;
	pthread_t t;

	(void)state;
	if (!is_allowed())
		skip();
	in_private[0] = 0;
	in_file[0] = 0;
	assert_int_equal(pthread_create(&t, NULL, count_inside, NULL), 0);
	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid;

		goes = false;
		while (!has_mutex)
			sched_yield();
		assert_int_equal(begin_still(true), 0);
		swap_copy(&run);
		still_copied(&still);
		goes = true;
		pthread_mutex_lock(&mutex);
		pid = fork();
		if (!pid) {
			still_in_child(&still);
			swap_child(&run, 1);
			_exit(child_sees_all_of(in_private[0]));
		}
		pthread_mutex_unlock(&mutex);
		let += !still_end(&still);
		swap_parent(&run);
		ends_well(pid);
	}
	stop = true;
	pthread_join(t, NULL);
	assert_true(let > 0);
}

UNSEEN static void stores_are_let_go_on_for_a_store_of_its_own(void **state)
{
	(void)state;
	if (!is_allowed())
		skip();
	assert_int_equal(begin_still(true), 0);
	still_copied(&still);
	in_file[1] = 8;
	assert_int_equal(in_file[1], 8);
	assert_false(still_end(&still));
}

#ifndef __SANITIZE_THREAD__ /* it wants stacks of 1 MiB */
static void *begin_on_stack(void *arg)
{
	return (void *)(intptr_t)(arg ? begin_still(true) : 0);
}

static void not_where_the_callers_stack_is(void **state)
{
	pthread_attr_t attr;
	pthread_t t;
	void *rc;

	(void)state;
	if (!is_allowed())
		skip();
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, (void *)(uintptr_t)in_file, LEN),
			 0);
	assert_int_equal(pthread_create(&t, &attr, begin_on_stack, &still), 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_int_equal((intptr_t)rc, -EBUSY);
	pthread_attr_destroy(&attr);
	in_file[1] = 9;
}
#endif

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_child_sees_what_came_before_what_it_sees),
		T(stores_are_let_go_on_for_a_lock),
		T(a_child_sees_all_that_was_stored_under_the_lock),
		T(stores_are_let_go_on_for_a_store_of_its_own),
#ifndef __SANITIZE_THREAD__
		T(not_where_the_callers_stack_is),
#endif
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
