/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/closer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/stuck_testing.h"

/* The end of a pipe whose other end says when this one is closed. */
static int make_end(int *other)
{
	int end[2];

	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	*other = end[0];
	return end[1];
}

static void await_close(int other)
{
	char byte;

	assert_int_equal(read(other, &byte, 1), 0);
	close(other);
}

static void what_is_put_is_closed(void **state)
{
	enum { N = 200 };
	int other[N];

	(void)state;
	closer_put(-1);
	for (int i = 0; i < N; i++)
		closer_put(make_end(&other[i]));
	for (int i = 0; i < N; i++)
		await_close(other[i]);
	assert_false(closer_is_full());
}

/* One that cannot be closed holds up others, but not who puts them there. */
static void one_that_hangs(void **state)
{
	struct stuck s;
	int other[200], n;

	(void)state;
	if (!stuck_begin(&s))
		skip();
	closer_put(s.fd);
	/* what comes next may be closed before it */
	for (n = 0; n < 200 && !closer_is_full(); n++)
		closer_put(make_end(&other[n]));
	assert_true(closer_is_full());
	stuck_end(&s);
	while (n > 0)
		await_close(other[--n]);
	assert_false(closer_is_full());
}

/* The thread is not in the child. */
static void a_fork_begins_anew(void **state)
{
	struct stuck s;
	int other, status;
	pid_t pid;

	(void)state;
	if (!stuck_begin(&s))
		skip();
	closer_put(s.fd);
	pid = fork();
	if (pid == 0) {
		int of_child;

		closer_forked();
		closer_put(make_end(&of_child));
		await_close(of_child);
		_exit(closer_is_full());
	}
	stuck_end(&s);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	closer_put(make_end(&other));
	await_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_closed),
		cmocka_unit_test(one_that_hangs),
		cmocka_unit_test(a_fork_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
