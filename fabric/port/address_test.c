/* SPDX-License-Identifier: BSD-2-Clause */
/* address_test.c - names of fabrics: which are good, and where they lead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/plug.h"

static void expect_address(const char *fabric, uid_t owner, const char *name)
{
	struct sockaddr_un a;
	char want[108];
	socklen_t len;
	uid_t whose;
	int n;

	assert_int_equal(plug_check_name(fabric), 0);
	assert_int_equal(plug_address(fabric, 7, &a, &len, &whose), 0);
	assert_int_equal(whose, owner);
	n = snprintf(want, sizeof(want), "urnic/fabric/%u/%s", owner, name);
	assert_int_equal(a.sun_family, AF_UNIX);
	assert_int_equal(a.sun_path[0], 0); /* abstract: of the network namespace */
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	assert_memory_equal(a.sun_path + 1, want, (size_t)n);
}

static void names_lead_to_their_owner(void **state)
{
	char longest[PLUG_NAME + 1];

	(void)state;
	expect_address("default", 7, "default");
	expect_address("a.b_c-7", 7, "a.b_c-7");
	expect_address("0:default", 0, "default");
	expect_address("4294967294:x", 4294967294u, "x");
	memset(longest, 'n', PLUG_NAME);
	longest[PLUG_NAME] = '\0';
	expect_address(longest, 7, longest);
}

static void wrong_names_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"a/b",
		"a b",
		"a:b:c",
		":name",
		"x:name",
		"-1:a",
		" 1:a",
		"+1:a",
		"1 :a",
		"7:",
		"\xc3\xa4",
		"a\n",
		"0x1:a",
		"4294967295:a",
		"99999999999:a",
		"18446744073709551616:a",
	};
	char too_long[PLUG_NAME + 2];
	struct sockaddr_un a;
	socklen_t len;
	uid_t owner;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(plug_check_name(wrong[i]), -EINVAL);
		assert_int_equal(plug_address(wrong[i], 7, &a, &len, &owner), -EINVAL);
	}
	memset(too_long, 'n', PLUG_NAME + 1);
	too_long[PLUG_NAME + 1] = '\0';
	assert_int_equal(plug_check_name(too_long), -EINVAL);
}

static void a_rank_is_a_number(void **state)
{
	char name[PLUG_HCA], longest[PLUG_HCA + 1];

	(void)state;
	for (char **v = (char *[]){ "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
				    "MV2_COMM_WORLD_RANK", "SLURM_PROCID", NULL };
	     *v; v++)
		unsetenv(*v);
	assert_int_equal(plug_hca("node07", name), 0);
	assert_string_equal(name, "node07");
	assert_int_equal(plug_hca("rank", name), -EDESTADDRREQ);
	setenv("SLURM_PROCID", "12", 1);
	assert_int_equal(plug_hca("rank", name), 0);
	assert_string_equal(name, "#12");
	setenv("OMPI_COMM_WORLD_RANK", "3", 1);
	assert_int_equal(plug_hca("rank", name), 0);
	assert_string_equal(name, "#3");
	setenv("OMPI_COMM_WORLD_RANK", "-3", 1);
	assert_int_equal(plug_hca("rank", name), 0);
	assert_string_equal(name, "#12");
	memset(longest, 'n', PLUG_HCA);
	longest[PLUG_HCA] = '\0';
	assert_int_equal(plug_hca(longest, name), -ENODEV);
}

static void those_that_listen_are_listed(void **state)
{
	static const struct {
		const char *line, *name;
	} rows[] = {
		/* clang-format off */
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/7/a\n", "a" },
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/8/a\n", "8:a" },
		{ "0000000000000000: 00000003 00000000 00000000 0005 03 21 @urnic/fabric/7/a\n", NULL },
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/7/a\033b\n", NULL },
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/7\n", NULL },
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/x/y\n", NULL },
		{ "0000000000000000: 00000002 00000000 00010000 0005 01 21 @urnic/fabric/7/\n", NULL },
		{ "0000000000000000: 00000002 00000000 00010000 0001 01 21 /run/dbus\n", NULL },
		{ "Num       RefCount Protocol Flags    Type St Inode Path\n", NULL },
		{ "", NULL },
		/* clang-format on */
	};
	char name[PLUG_LISTED];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(plug_listed(rows[i].line, 7, name),
				 rows[i].name != NULL);
		if (rows[i].name)
			assert_string_equal(name, rows[i].name);
	}
}

static void every_failure_has_words(void **state)
{
	static const int rc[] = { -ENOENT,    -ENODEV,	  -EACCES, -EDESTADDRREQ, -EINVAL,
				  -ETIMEDOUT, -EHOSTDOWN, -EPROTO, -EIO };
	const size_t n = sizeof(rc) / sizeof(rc[0]);

	(void)state;
	for (size_t i = 0; i < n - 1; i++)
		assert_string_not_equal(plug_why(rc[i]), strerror(-rc[i]));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(plug_why(rc[i]), plug_why(rc[k]));
	assert_string_equal(plug_why(-EIO), strerror(EIO));
}

static int listen_as(const char *fabric)
{
	struct sockaddr_un a;
	socklen_t len;
	uid_t whose;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	assert_int_equal(plug_address(fabric, geteuid(), &a, &len, &whose), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void those_that_run_are_named(void **state)
{
	char text[200], one[PLUG_NAME], two[PLUG_NAME];
	int fd[2];

	(void)state;
	snprintf(one, sizeof(one), "one-%d", getpid());
	snprintf(two, sizeof(two), "two-%d", getpid());
	plug_running(text, sizeof(text));
	assert_null(strstr(text, one));
	fd[0] = listen_as(one);
	fd[1] = listen_as(two);
	plug_running(text, sizeof(text));
	assert_non_null(strstr(text, one));
	assert_non_null(strstr(text, two));
	assert_non_null(strstr(text, ", "));
	memset(text, 'x', sizeof(text));
	plug_running(text, 8); /* cut off */
	assert_true(strlen(text) < 8);
	assert_int_equal(text[8], 'x');
	close(fd[0]);
	close(fd[1]);
}

/* A program's name may look like a state. */
static void a_stopped_process_is_known(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "a) S (b");
		raise(SIGSTOP);
		pause();
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_true(plug_is_stopped(pid));
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
	assert_false(plug_is_stopped(pid));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(plug_is_stopped(pid)); /* there is none */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_lead_to_their_owner),
		cmocka_unit_test(wrong_names_are_refused),
		cmocka_unit_test(a_rank_is_a_number),
		cmocka_unit_test(those_that_listen_are_listed),
		cmocka_unit_test(every_failure_has_words),
		cmocka_unit_test(those_that_run_are_named),
		cmocka_unit_test(a_stopped_process_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
