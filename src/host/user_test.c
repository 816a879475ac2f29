/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/user.h"

enum { HIDDEN = 65534 };

static void test_maps(void **state)
{
	(void)state;
	assert_false(user_map_hides("         0          0 4294967295\n"));
	assert_true(user_map_hides("         0       1000          1\n"));
	assert_true(user_map_hides("     65534      65534          1\n"));
	assert_true(user_map_hides("         1          0 4294967295\n"));
	assert_true(user_map_hides("         0          1 4294967295\n"));
	assert_true(user_map_hides(""));
	assert_true(user_map_hides("garbage"));
	assert_true(user_map_hides(NULL));
}

static void test_who_is_ours(void **state)
{
	const struct user plain = { .uid = HIDDEN, .hidden = (uid_t)-1 };
	const struct user mapped = { .uid = 1000, .hidden = HIDDEN };
	const struct user hidden = { .uid = HIDDEN, .hidden = HIDDEN };

	(void)state;
	assert_true(user_is_ours(&plain, HIDDEN, 0));
	assert_false(user_is_ours(&plain, 0, getpid()));
	assert_true(user_is_ours(&mapped, 1000, 0));
	assert_false(user_is_ours(&mapped, HIDDEN, getpid()));
	/* The kernel says so, not the number. */
	assert_true(user_is_ours(&hidden, HIDDEN, getpid()));
	assert_false(user_is_ours(&hidden, HIDDEN, 0));
	assert_false(user_is_ours(&hidden, HIDDEN, -1));
	assert_true(user_is_same(&plain, HIDDEN, HIDDEN));
	assert_true(user_is_same(&mapped, 7, 7));
	assert_false(user_is_same(&mapped, 7, 8));
	assert_false(user_is_same(&mapped, HIDDEN, HIDDEN));
}

static void become_user(uid_t id)
{
	if (setresgid(id, id, id) || setresuid(id, id, id))
		_exit(77);
}

/* A process without a number in its namespace looks at itself, and at another
 * user's, which looks the same. */
static void test_where_all_look_alike(void **state)
{
	pid_t other = fork(), pid;
	int status;

	(void)state;
	if (other == 0) {
		become_user(6);
		pause();
	}
	pid = fork();
	if (pid == 0) {
		struct user u;

		become_user(5);
		if (unshare(CLONE_NEWUSER))
			_exit(77);
		usleep(50000);			/* until other is another user */
		user_open(&u);
		_exit(u.uid != HIDDEN || u.hidden != HIDDEN ? 1 :
		      !user_is_ours(&u, HIDDEN, getpid()) ? 2 :
		      user_is_ours(&u, HIDDEN, other) ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "SKIPPED: no other users, or no user namespaces, here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_who_is_ours),
		cmocka_unit_test(test_where_all_look_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
