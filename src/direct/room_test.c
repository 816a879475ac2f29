/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a process may still have, by files as the kernel would show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/room.h"

#define MIB (UINT64_C(1) << 20)

static char root[64];

static void put(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	(void)state;
	strcpy(root, "/tmp/urnic-room-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static bool room(uint64_t mib)
{
	char list[96];

	snprintf(list, sizeof(list), "%s/list", root);
	return room_in_groups(list, root, mib * MIB);
}

/* A limit of 1 GiB, of which 700 MiB are used, 300 MiB of them by cached files, which
 * can be dropped. */
static void groups_of_either_version_have_limits(void **state)
{
	(void)state;
	put("list", "0::/a/b\n");
	put("a/memory.max", "1073741824\n");
	put("a/memory.current", "734003200\n");
	put("a/memory.stat", "anon 1\ninactive_file 314572800\n");
	put("a/b/memory.max", "max\n");
	assert_true(room(500));
	assert_false(room(600)); /* a reserve is left for others */
	assert_false(room(700));
	put("list", "5:cpu:/x\n4:memory,other:/c\n1:name=systemd:/a\n");
	put("memory/c/memory.limit_in_bytes", "1073741824\n");
	put("memory/c/memory.usage_in_bytes", "734003200\n");
	put("memory/c/memory.stat", "cache 1\ninactive_file 1\n"
				    "total_inactive_file 314572800\n");
	assert_true(room(500));
	assert_false(room(600));
}

static void what_is_not_seen_has_no_limit(void **state)
{
	(void)state;
	assert_true(room(1 << 20));
	put("list", "0::/../outside\n");
	assert_true(room(1 << 20));
	/* The limit of the root group, which holds for all. */
	put("memory.max", "4096\n");
	put("memory.current", "8192\n");
	assert_false(room(0));
	put("list", "nonsense");
	assert_true(room(1 << 20));
}

static void address_space_is_limited(void **state)
{
	const struct rlimit few = { 512 * MIB, 512 * MIB };
	int status;
	pid_t pid;

	(void)state;
	assert_true(room_for(MIB));
	assert_false(room_for(UINT64_C(1) << 46));
	pid = fork();
	if (!pid)
		_exit(setrlimit(RLIMIT_AS, &few) || room_for(600 * MIB));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(groups_of_either_version_have_limits,
						begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_seen_has_no_limit, begin,
						end),
		cmocka_unit_test(address_space_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
