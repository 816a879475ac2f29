/* SPDX-License-Identifier: BSD-2-Clause */
/* A fork in a signal handler that has interrupted one of the thread's own calls. (Forks
 * otherwise: nic_test.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/share.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "sys/guard.h"
#include "sys/held.h"
#include "sys/inside.h"
#include "sys/live.h"
#include "sys/netns_testing.h"
#include "verbs/core.h"
#include "verbs/event.h"
#include "verbs/mkey.h"

/* A NIC with a context, as a program has opened it. */
struct fix {
	struct nic *nic;
	struct core *core;
	struct context ctx;
};

NO_TSA __attribute__((unused)) static int setup(void **state)
{
	static struct fix f;

	f.ctx.dead = false;
	assert_int_equal(nic_open(&f.nic), 0);
	f.core = nic_core(f.nic);
	list_add_tail(&f.core->contexts, &f.ctx.node);
	fflush(NULL);
	*state = &f;
	return 0;
}

NO_TSA __attribute__((unused)) static int teardown(void **state)
{
	struct fix *f = *state;

	list_del(&f->ctx.node);
	nic_close(f->nic);
	return 0;
}

static bool blocks_signals(void)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, SIGTERM);
}

/* In the child: exit statuses tell the first thing that is wrong. */
NO_TSA static int look_as_child(const struct fix *f)
{
	struct core *core = f->core;
	struct nic *own;

	if (!f->ctx.dead || !core->dead)
		return 1;
	if (!turn_try(&core->turn) || !lock_try(&core->lock) ||
	    !lock_try(&core->mkeys.lock))
		return 2;
	if (blocks_signals())
		return 3;
	if (nic_open(&own) || own == f->nic)
		return 4;
	nic_close(own);
	return 0;
}

static pid_t fork_and_look(const struct fix *f)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(look_as_child(f));
	return pid;
}

static void expect_good_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* All locks that a call may hold when a signal comes are held, and stay so. */
NO_TSA __attribute__((unused)) static void its_own_locks_are_not_waited_for(void **state)
{
	struct fix *f = *state;
	struct core *core = f->core;
	pid_t pid;

	inside_begin();
	assert_true(share_hold(LOCK_SURELY));
	turn_take(&core->turn);
	lock_take(&core->lock);
	assert_true(mkeys_hold(&core->mkeys, LOCK_SURELY));
	assert_true(live_hold(LOCK_SURELY));
	pid = fork_and_look(f);
	assert_false(live_hold(LOCK_IF_FREE));
	assert_false(mkeys_hold(&core->mkeys, LOCK_IF_FREE));
	assert_false(lock_try(&core->lock));
	assert_false(turn_try(&core->turn));
	assert_false(share_hold(LOCK_IF_FREE));
	assert_false(blocks_signals());
	live_let_go();
	mkeys_let_go(&core->mkeys);
	lock_give(&core->lock);
	turn_give(&core->turn);
	share_let_go();
	inside_end();
	expect_good_child(pid);
	assert_false(f->ctx.dead);
}

static atomic_bool has_locks;

/* Has what a fork takes first, and waits for what the forking thread has. */
NO_TSA __attribute__((unused)) static void *take_and_wait(void *arg)
{
	struct core *core = arg;

	lock_take(&nic_lock);
	(void)registry_hold(LOCK_SURELY);
	(void)guard_hold(LOCK_SURELY);
	atomic_store(&has_locks, true);
	turn_take(&core->turn);
	turn_give(&core->turn);
	guard_let_go();
	registry_let_go();
	lock_give(&nic_lock);
	return NULL;
}

/* Another thread holds the other locks, and waits for the turn. */
NO_TSA __attribute__((unused)) static void nor_those_whose_holders_wait_for_it(
	void **state)
{
	struct fix *f = *state;
	struct core *core = f->core;
	pthread_t t;
	pid_t pid;

	inside_begin();
	turn_take(&core->turn);
	assert_int_equal(pthread_create(&t, NULL, take_and_wait, core), 0);
	while (!atomic_load(&has_locks))
		sched_yield();
	pid = fork_and_look(f);
	turn_give(&core->turn);
	inside_end();
	assert_int_equal(pthread_join(t, NULL), 0);
	expect_good_child(pid);
}

static pthread_mutex_t of_a_channel = PTHREAD_MUTEX_INITIALIZER;

/* The engine tells a program of rdma_cm something: it has the turn, and waits for the
 * lock of the channels. */
NO_TSA __attribute__((unused)) static void *turn_and_wait(void *arg)
{
	struct core *core = arg;

	turn_take(&core->turn);
	atomic_store(&has_locks, true);
	pthread_mutex_lock(&of_a_channel);
	pthread_mutex_unlock(&of_a_channel);
	turn_give(&core->turn);
	return NULL;
}

/* The handler has interrupted a call of rdma_cm, and not of verbs. */
NO_TSA __attribute__((unused)) static void nor_is_a_call_of_rdma_cm_waited_for(
	void **state)
{
	struct fix *f = *state;
	struct core *core = f->core;
	pthread_t t;
	pid_t pid;

	atomic_store(&has_locks, false);
	held_begin();
	pthread_mutex_lock(&of_a_channel);
	assert_int_equal(pthread_create(&t, NULL, turn_and_wait, core), 0);
	while (!atomic_load(&has_locks))
		sched_yield();
	pid = fork_and_look(f);
	pthread_mutex_unlock(&of_a_channel);
	held_end();
	assert_int_equal(pthread_join(t, NULL), 0);
	expect_good_child(pid);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_THREAD__
		/* It takes fork handlers for signal handlers. */
		TEST(its_own_locks_are_not_waited_for),
		TEST(nor_those_whose_holders_wait_for_it),
		TEST(nor_is_a_call_of_rdma_cm_waited_for),
#endif
	};

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	return sizeof(tests) ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
