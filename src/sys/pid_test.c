/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's number, in the process and in children of each kind. */
#include "sys/pid.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static pid_t by_fork(void)
{
	return fork();
}

/* No handler of pthread_atfork() runs. */
static pid_t by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

/* A child knows its own number, also the second time, and so does its parent. */
static void knows_itself(pid_t (*make)(void))
{
	pid_t child;
	int status;

	assert_int_equal(pid_own(), getpid());
	child = make();
	if (child == 0)
		_exit(pid_own() != (pid_t)syscall(SYS_getpid) ||
		      pid_own() != (pid_t)syscall(SYS_getpid));
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(pid_own(), getpid());
}

static void in_a_forked_child(void **state)
{
	(void)state;
	knows_itself(by_fork);
}

static void in_a_cloned_child(void **state)
{
	(void)state;
	knows_itself(by_clone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_forked_child),
		cmocka_unit_test(in_a_cloned_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
