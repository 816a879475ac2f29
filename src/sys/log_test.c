/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/log.h"

static char dir[] = "/tmp/urnic_log_XXXXXX";
static char file[64], text[4096];

static const char *written(void)
{
	FILE *f = fopen(file, "r");
	size_t n;

	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static void start(const char *level)
{
	char spec[80];

	unlink(file);
	snprintf(spec, sizeof(spec), "%s:%s", level, file);
	assert_int_equal(log_setup(spec), 0);
}

static void t_levels(void **state)
{
	char want[100];

	(void)state;
	start("info");
	errno = 77;
	log_error("number %d", 1);
	assert_int_equal(errno, 77);
	log_info("two");
	log_debug("not this");
	snprintf(want, sizeof(want),
		 "urnic[%d] error: number 1\n"
		 "urnic[%d] info: two\n",
		 (int)getpid(), (int)getpid());
	assert_string_equal(written(), want);
	assert_int_equal(log_setup("info:/dev/full"), 0);
	errno = 77;
	log_info("no room");
	assert_int_equal(errno, 77);
	start("info");
	log_error("number %d", 1);
	log_info("two");
	assert_int_equal(log_set_level("error"), 0);
	log_warn("nor this");
	log_info("nor that");
	assert_string_equal(written(), want);
	assert_int_equal(log_set_level("errors"), -EINVAL);
	assert_int_equal(log_level, LOG_ERROR);
}

static void t_bad_setup_changes_nothing(void **state)
{
	(void)state;
	start("debug");
	assert_int_equal(log_setup("loud"), -EINVAL);
	assert_int_equal(log_setup("info:"), -EINVAL);
	assert_int_equal(log_setup("info:/no/such/dir/x"), -ENOENT);
	assert_int_equal(log_level, LOG_DEBUG);
	log_debug("still here");
	assert_non_null(strstr(written(), "still here"));
}

static void t_long_line_is_cut(void **state)
{
	char big[3000];

	(void)state;
	start("info");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_info("%s", big);
	log_info("next");
	assert_in_range(strcspn(written(), "\n"), 1000, 1023);
	assert_non_null(strstr(text, "x...\nurnic["));
}

/* A relative name keeps meaning the same file; %p is the process id. */
static void t_relative(void **state)
{
	char name[64], old[256];

	(void)state;
	assert_non_null(getcwd(old, sizeof(old)));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(log_setup("info:a.%p.log"), 0);
	assert_int_equal(chdir("/"), 0);
	log_info("hello");
	snprintf(name, sizeof(name), "%s/a.%d.log", dir, (int)getpid());
	assert_int_equal(unlink(name), 0);
	assert_int_equal(chdir(old), 0);
}

static void t_child(void **state)
{
	char want[64];
	int status;
	pid_t pid;

	(void)state;
	start("info");
	pid = fork();
	if (pid == 0) {
		log_info("child");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	snprintf(want, sizeof(want), "urnic[%d] info: child\n", (int)pid);
	assert_string_equal(written(), want);
}

static void t_one_a_second(void **state)
{
	uint64_t last = 0, then;

	(void)state;
	assert_true(log_allowed(&last));
	then = last;
	assert_false(log_allowed(&last));
	assert_int_equal(last, then);
	last -= 1000000001u;
	assert_true(log_allowed(&last));
}

/* Returns what follows the time. */
static const char *behind_time(const char *line)
{
	double seconds;
	int n = 0;

	assert_int_equal(sscanf(line, "{\"time\": %lf, %n", &seconds, &n), 1);
	assert_true(seconds > 1.6e9);
	return line + n;
}

static void t_json(void **state)
{
	const struct log_wc wc = { "RETRY_EXC_ERR", 5 };
	char want[256], longest[2 * LOG_LINE];

	(void)state;
	start("info");
	log_use_json(true);
	log_warn("a \"word\", C:\\ and\ta tab \xc3");
	snprintf(want, sizeof(want),
		 "\"pid\": %d, \"level\": \"warn\", \"room\": \"sys\", \"text\": \"a "
		 "\\\"word\\\", C:\\\\ and\\u0009a tab \\u00c3\"}\n",
		 (int)getpid());
	assert_string_equal(behind_time(written()), want);
	start("info");
	log_line(LOG_FROM(LOG_INFO, &wc), "QP 0x00000a: gone");
	snprintf(want, sizeof(want),
		 "\"pid\": %d, \"level\": \"info\", \"room\": \"sys\", \"qpn\": 10, "
		 "\"status\": \"RETRY_EXC_ERR\", \"vendor_err\": 5, \"text\": \"QP "
		 "0x00000a: gone\"}\n",
		 (int)getpid());
	assert_string_equal(behind_time(written()), want);
	/* What grows too long is still an object. */
	start("info");
	memset(longest, '\t', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	log_info("%s", longest);
	assert_string_equal(written() + strlen(text) - 9, "\\u0009\"}\n");
	log_use_json(false);
}

static void t_hints_end(void **state)
{
	unsigned lines = 0;

	(void)state;
	start("error");
	log_hint("not this");
	start("warn");
	for (int i = 0; i < LOG_HINTS + 5; i++)
		log_hint("hint %d", i);
	for (const char *p = written(); (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, LOG_HINTS);
	assert_non_null(strstr(text, " warn: hint 0\n"));
}

/* To a terminal, unless the user wants none (https://no-color.org). */
static void t_colour(void **state)
{
	(void)state;
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	assert_true(log_may_colour());
	setenv("NO_COLOR", "", 1);
	assert_true(log_may_colour());
	setenv("NO_COLOR", "1", 1);
	assert_false(log_may_colour());
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	assert_false(log_may_colour());
	unsetenv("TERM");
	assert_false(log_may_colour());
}

static int make(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/log", dir);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_levels),
		cmocka_unit_test(t_bad_setup_changes_nothing),
		cmocka_unit_test(t_long_line_is_cut),
		cmocka_unit_test(t_relative),
		cmocka_unit_test(t_child),
		cmocka_unit_test(t_one_a_second),
		cmocka_unit_test(t_json),
		cmocka_unit_test(t_hints_end),
		cmocka_unit_test(t_colour),
	};

	return cmocka_run_group_tests(tests, make, clean);
}
