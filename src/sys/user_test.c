/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sys/user.h"
#include "sys/users_testing.h"

enum { HIDDEN = USERS_HIDDEN, CANNOT = USERS_CANNOT };

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
	/* Asked of the kernel, not decided by the number. */
	assert_true(user_is_ours(&hidden, HIDDEN, getpid()));
	assert_false(user_is_ours(&hidden, HIDDEN, 0));
	assert_false(user_is_ours(&hidden, HIDDEN, -1));
	assert_true(user_is_same(&plain, HIDDEN, HIDDEN));
	assert_true(user_is_same(&mapped, 7, 7));
	assert_false(user_is_same(&mapped, 7, 8));
	assert_false(user_is_same(&mapped, HIDDEN, HIDDEN));
	assert_true(user_is_of(&mapped, 1000, 1000, 0));
	assert_true(user_is_of(&mapped, 7, 7, 0));
	assert_false(user_is_of(&mapped, 7, 1000, 0));
	assert_false(user_is_of(&mapped, 1000, 7, 0));
	assert_false(user_is_of(&mapped, HIDDEN, HIDDEN, getpid()));
	assert_true(user_is_of(&hidden, HIDDEN, HIDDEN, getpid()));
	assert_false(user_is_of(&hidden, HIDDEN, HIDDEN, 0));
}

static int judge(pid_t other)
{
	struct user u;

	user_open(&u);
	return u.uid != HIDDEN || u.hidden != HIDDEN ? 1
	       : !user_is_ours(&u, HIDDEN, getpid()) ? 2
	       : user_is_ours(&u, HIDDEN, other)     ? 3
						     : 0;
}

/* A process without a number in its namespace looks at itself, and at another user's
 * process, which looks the same. */
static void test_where_all_look_alike(void **state)
{
	int ready[2], status;
	pid_t other, pid;
	char byte = 0;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	other = users_fork();
	if (other == 0) {
		users_become(6);
		_exit(write(ready[1], &byte, 1) == 1 && pause() ? 0 : 1);
	}
	close(ready[1]);
	pid = users_fork();
	if (pid == 0) {
		pid_t child;

		users_become(5);
		if (read(ready[0], &byte, 1) != 1)
			_exit(CANNOT);
		child = users_fork_hidden();
		if (child == 0)
			_exit(judge(other));
		_exit(child < 0 ? CANNOT : users_wait(child));
	}
	status = users_wait(pid);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	close(ready[0]);
	if (status == CANNOT) {
		fprintf(stderr, "SKIPPED: no other users, or no user namespaces, here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void the_kernel_says_who_is_there(void **state)
{
	uid_t uid = 7;
	pid_t pid = 7;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(user_of_peer(pair[0], &uid, &pid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(pid, getpid());
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(user_of_peer(-1, &uid, &pid), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_who_is_ours),
		cmocka_unit_test(test_where_all_look_alike),
		cmocka_unit_test(the_kernel_says_who_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
