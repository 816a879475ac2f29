/* SPDX-License-Identifier: BSD-2-Clause */
/* forks_test.c - a fork with regions that share pages. */
#include <sys/wait.h>

#include "check/fix.h"
#include "verbs/mr.h"

static void fork_once(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_fork(void **state)
{
	static struct mr mr = { .mkey = { .host = (uint8_t *)0x10000, .length = 4096 } };

	(void)state;
	object_made(&mr.live, LIVE_MR);
	FIX_FINDS_NOTHING(fork_once());
	object_gone(&mr.live, LIVE_MR);
	mr.mkey.length = 100;
	object_made(&mr.live, LIVE_MR);
	FIX_FINDS("fork-unaligned", fork_once());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
	};

	fix_open("fork-unaligned");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
