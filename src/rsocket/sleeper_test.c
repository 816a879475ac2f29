/* SPDX-License-Identifier: BSD-2-Clause */
/* All threads that sleep on a queue are woken, and no other. */
#include "rsocket/sleeper.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 4 };

static bool awake(const struct rsock_sleeper *sl)
{
	struct pollfd p = { .fd = sl->efd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void a_thread_in_two_queues(void **state)
{
	struct rsock_sleeper *sl;
	struct rsock_waitq a, b, c;

	(void)state;
	rsock_waitq_init(&a);
	rsock_waitq_init(&b);
	rsock_waitq_init(&c);
	assert_int_equal(rsock_sleeper(2, &sl), 0);
	rsock_sleeper_link(sl, &a);
	rsock_sleeper_link(sl, &b);
	rsock_waitq_wake(&c);
	assert_false(awake(sl));
	rsock_waitq_wake(&b);
	assert_true(awake(sl));
	assert_int_equal(rsock_sleeper(2, &sl), 0); /* the thread's next call */
	assert_false(awake(sl));
	assert_int_equal(a.n + b.n, 0);
	rsock_waitq_wake(&a);
	assert_false(awake(sl));
}

/* A call that was left by longjmp() has left a link behind. */
static void what_was_left_is_unlinked(void **state)
{
	struct rsock_waitq *waitq = malloc(sizeof(*waitq)), other;
	struct rsock_sleeper *sl;

	(void)state;
	rsock_waitq_init(waitq);
	rsock_waitq_init(&other);
	assert_int_equal(rsock_sleeper(1, &sl), 0);
	rsock_sleeper_link(sl, waitq);
	assert_int_equal(rsock_sleeper(100, &sl), 0);
	assert_int_equal(waitq->n, 0);
	free(waitq);
	rsock_sleeper_link(sl, &other);
	rsock_sleeper_unlink(sl);
	rsock_sleeper_unlink(sl);
	assert_int_equal(other.n, 0);
}

static struct rsock_waitq common;
static sem_t linked;

static void *sleep_there(void *arg)
{
	struct rsock_sleeper *sl;
	struct pollfd p;

	(void)arg;
	if (rsock_sleeper(1, &sl))
		return NULL;
	rsock_sleeper_link(sl, &common);
	sem_post(&linked);
	p = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
	return poll(&p, 1, -1) == 1 ? &common : NULL;
	/* and ends without unlinking */
}

static void all_are_woken_and_a_thread_that_ends_is_gone(void **state)
{
	pthread_t t[THREADS];
	void *woken;

	(void)state;
	rsock_waitq_init(&common);
	sem_init(&linked, 0, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, sleep_there, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		sem_wait(&linked);
	rsock_waitq_wake(&common);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &woken);
		assert_ptr_equal(woken, &common);
	}
	assert_int_equal(common.n, 0);
	assert_true(list_empty(&common.links));
}

static int in_child(int parents)
{
	struct rsock_sleeper *sl;

	rsock_sleepers_forked();
	if (rsock_sleeper(1, &sl) || sl->n)
		return 1;
	rsock_eventfd_set(sl->efd);
	return parents < 0 || !awake(sl);
}

/* The child gets a sleeper of its own, and waking it does not wake the parent. */
static void a_fork_in_the_middle(void **state)
{
	struct rsock_sleeper *sl;
	struct rsock_waitq waitq;
	int status;
	pid_t pid;

	(void)state;
	rsock_waitq_init(&waitq);
	assert_int_equal(rsock_sleeper(1, &sl), 0);
	rsock_sleeper_link(sl, &waitq);
	rsock_sleepers_lock();
	pid = fork();
	rsock_sleepers_unlock();
	if (!pid)
		_exit(in_child(sl->efd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(awake(sl));
	rsock_waitq_wake(&waitq);
	assert_true(awake(sl));
	rsock_sleeper_unlink(sl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_in_two_queues),
		cmocka_unit_test(what_was_left_is_unlinked),
		cmocka_unit_test(all_are_woken_and_a_thread_that_ends_is_gone),
		cmocka_unit_test(a_fork_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
