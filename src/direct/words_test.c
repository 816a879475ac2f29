/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "direct/words.h"
#include "sys/guard.h"
#include "sys/waiter_testing.h"

static struct core core;

static int setup(void **state)
{
	(void)state;
	core.exports = aligned_alloc(_Alignof(struct exports), sizeof(struct exports));
	atomic_init(&core.exports->lines, 0);
	for (int i = 0; i < EXPORT_THREADS; i++)
		atomic_init(&core.exports->thread[i].inside, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(core.exports);
	return 0;
}

/* Arms the guard again, since cmocka has put its signal handlers in front. */
static void arm(void)
{
	guard_arm();
	thread_word.exposed = false;
}

static void a_thread_says_what_it_touches(void **state)
{
	_Atomic uint64_t *w;

	(void)state;
	arm();
	w = words_enter(&core, 0x12345678, 0xabcdef);
	assert_int_equal(atomic_load(w) >> 8, 0x12345678abcdef);
	assert_int_equal(core.exports->lines, thread_word.line);
	/* A signal handler of this thread may not do so now. */
	assert_null(words_enter(&core, 1, 2));
	words_leave(w);
	assert_int_equal(atomic_load(w), 0);
	assert_ptr_equal(words_enter(&core, 1, 2), w);
	words_leave(w);
}

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(how, &set, NULL);
}

/* Number of entries before a thread is checked again. */
static unsigned until_it_is_known(bool enters)
{
	unsigned n = 0;
	_Atomic uint64_t *w;

	while (n < 1000 && !(w = words_enter(&core, 1, 2)) != !enters) {
		if (w)
			words_leave(w);
		n++;
	}
	if (enters && n < 1000)
		words_leave(w);
	return n;
}

static void *one_that_blocks(void *arg)
{
	(void)arg;
	block(SIG_BLOCK);
	assert_int_equal(until_it_is_known(false), 0); /* from the beginning */
	block(SIG_UNBLOCK);
	assert_in_range(until_it_is_known(true), 0, 256);
	block(SIG_BLOCK);
	assert_in_range(until_it_is_known(false), 0, 256);
	assert_int_equal(thread_word.line, 0);
	block(SIG_UNBLOCK);
	assert_in_range(until_it_is_known(true), 0, 256);
	return NULL;
}

/* A fault would kill it. */
static void who_blocks_the_signals_has_no_word(void **state)
{
	pthread_t t;

	(void)state;
	arm();
	assert_int_equal(pthread_create(&t, NULL, one_that_blocks, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

static void theirs(int sig)
{
	(void)sig;
}

static void *one_while_others_handle(void *arg)
{
	struct sigaction sa = { .sa_handler = theirs }, was;

	(void)arg;
	words_leave(words_enter(&core, 1, 2));
	assert_int_equal(sigaction(SIGSEGV, &sa, &was), 0);
	assert_in_range(until_it_is_known(false), 0, 256);
	assert_int_equal(sigaction(SIGSEGV, &was, NULL), 0);
	assert_in_range(until_it_is_known(true), 0, 256);
	return NULL;
}

/* As would one that goes to a handler of the program's. */
static void nobody_has_while_others_handle_them(void **state)
{
	pthread_t t;

	(void)state;
	arm();
	assert_int_equal(pthread_create(&t, NULL, one_while_others_handle, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

struct many {
	pthread_barrier_t all, end;
	_Atomic unsigned with, without;
};

static void *one_of_many(void *arg)
{
	struct many *m = arg;
	_Atomic uint64_t *w = words_enter(&core, 1, 2);

	atomic_fetch_add(w ? &m->with : &m->without, 1);
	pthread_barrier_wait(&m->all);
	if (w)
		words_leave(w);
	pthread_barrier_wait(&m->end);
	return NULL;
}

/* Each thread has its own word, or none; the word is freed when the thread ends. */
static void lines_are_for_so_many_threads(void **state)
{
	enum { THREADS = EXPORT_THREADS + 6 };
	pthread_t t[THREADS];

	(void)state;
	arm();
	words_leave(words_enter(&core, 1, 2)); /* this one has a line */
	for (int round = 0; round < 3; round++) {
		struct many m = { .with = 0 };

		pthread_barrier_init(&m.all, NULL, THREADS);
		pthread_barrier_init(&m.end, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&t[i], NULL, one_of_many, &m), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
		assert_int_equal(m.with, EXPORT_THREADS - 1);
		assert_int_equal(m.without, 7);
	}
	assert_int_equal(core.exports->lines, EXPORT_THREADS);
}

/* Threads that have a line keep it where the process opens its NIC anew. */
static void a_new_table_has_the_lines_of_the_last(void **state)
{
	static struct exports next;

	(void)state;
	words_begin(&next);
	assert_int_equal(next.lines, core.exports->lines);
}

static void *pass(void *arg)
{
	uint32_t key;

	assert_int_equal(words_pass(arg, UINT64_MAX / 2, &key), 0);
	return NULL;
}

static void to_pass_is_to_wait_for_who_is_inside(void **state)
{
	_Atomic uint64_t *w;
	uint32_t key = 0;
	struct waiter t;

	(void)state;
	arm();
	w = words_enter(&core, 1, 2);
	assert_int_equal(words_pass(&core, 0, &key), 0); /* not for itself */
	waiter_start(&t, pass, &core);
	for (int i = 0; i < 3; i++)
		assert_true(waiter_sleeps(&t));
	words_leave(w);
	waiter_join(&t);
}

static void *pass_soon(void *arg)
{
	uint32_t *key = arg;

	return (void *)(intptr_t)words_pass(&core, 1000000, key);
}

static void who_does_not_leave_is_named(void **state)
{
	_Atomic uint64_t *w;
	uint32_t key = 0;
	pthread_t t;
	void *rc;

	(void)state;
	arm();
	w = words_enter(&core, 0x12345678, 2);
	assert_int_equal(pthread_create(&t, NULL, pass_soon, &key), 0);
	assert_int_equal(pthread_join(t, &rc), 0);
	assert_int_equal((intptr_t)rc, -EBUSY);
	assert_int_equal(key, 0x12345678);
	words_leave(w);
}

/* What was read inside is not taken away before it was left. */
static struct {
	_Atomic(uint64_t *) at;
	_Atomic bool stop;
	_Atomic uint64_t reads;
} shared;

static void *reader(void *arg)
{
	(void)arg;
	while (!atomic_load(&shared.stop)) {
		_Atomic uint64_t *w = words_enter(&core, 1, 2);
		uint64_t *at = atomic_load_explicit(&shared.at, memory_order_acquire);

		if (at)
			assert_int_equal(*(volatile uint64_t *)at, 42);
		words_leave(w);
		atomic_fetch_add_explicit(&shared.reads, 1, memory_order_relaxed);
	}
	return NULL;
}

static void nobody_reads_what_was_taken_away(void **state)
{
	pthread_t t[2];

	(void)state;
	arm();
	if (!words_register())
		skip();
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, reader, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		uint64_t *at = malloc(sizeof(*at)), *was;
		uint32_t key;

		*at = 42;
		was = atomic_exchange(&shared.at, at);
		assert_int_equal(words_pass(&core, UINT64_MAX / 2, &key), 0);
		if (was)
			*(volatile uint64_t *)was = 13;
		free(was);
	}
	while (!atomic_load(&shared.reads))
		sched_yield();
	atomic_store(&shared.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	free(atomic_exchange(&shared.at, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_says_what_it_touches),
		cmocka_unit_test(who_blocks_the_signals_has_no_word),
		cmocka_unit_test(nobody_has_while_others_handle_them),
		cmocka_unit_test(lines_are_for_so_many_threads),
		cmocka_unit_test(a_new_table_has_the_lines_of_the_last),
		cmocka_unit_test(to_pass_is_to_wait_for_who_is_inside),
		cmocka_unit_test(who_does_not_leave_is_named),
		cmocka_unit_test(nobody_reads_what_was_taken_away),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
