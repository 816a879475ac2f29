/* SPDX-License-Identifier: BSD-2-Clause */
/* suppress_test.c - files of suppressions. */
#include "check/suppress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/trace.h"
#include "sys/log_testing.h"

static char err[SUPPRESS_ERR];

static int read_text(const char *text)
{
	char name[] = "/tmp/urnic-check-XXXXXX";
	int fd = mkstemp(name), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	rc = suppress_read(name, err);
	unlink(name);
	return rc;
}

__attribute__((noinline)) static bool suppressed(enum check check)
{
	const bool is = suppress_has(check, trace_now());

	__asm__ volatile("");
	return is;
}

static void test_lines(void **state)
{
	(void)state;
	assert_int_equal(read_text("# sq-overflow:x\n\nsq-overflow:suppres?ed\r\n"), 0);
	assert_true(suppressed(CHECK_SQ_OVERFLOW));
	assert_false(suppressed(CHECK_SQ_UNSIGNALED));
	assert_int_equal(read_text("*:suppressed"), 0);
	assert_true(suppressed(CHECK_SQ_UNSIGNALED));
	assert_int_equal(suppress_read("", err), 0);
	assert_false(suppressed(CHECK_SQ_UNSIGNALED));
}

static void test_long_comments(void **state)
{
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[0] = '#';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(read_text(text), 0);
}

/* What can match nothing is an error. */
static void test_wrong_lines(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "sq-overflow\n", ":1: sq-overflow: not CHECK:PATTERN" },
		{ "sq-overflow:\n", ":1: sq-overflow:: not CHECK:PATTERN" },
		{ "\nnonsense:x\n", ":2: nonsense:x: no such check" },
		{ "sq-overflow :x\n", ": no such check" },
		{ "#\nsq-overflow: x\n", ":2: sq-overflow: x: no name begins with" },
		{ "sq-overflow:\tx\n", ": no name begins with" },
		{ "sq-overflow:x \n", ":1: sq-overflow:x : no name ends with" },
		{ "sq-overflow:x # why\n", ": a comment has a line of its own" },
		{ "sq-overflow:x\t# why\n", ": a comment has a line of its own" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(read_text(rows[i].text), -EINVAL);
		if (!strstr(err, rows[i].says))
			fail_msg("%s: %s", rows[i].text, err);
	}
}

static void test_wrong_files(void **state)
{
	char dir[] = "/tmp/urnic-check-XXXXXX", pipe[64];

	(void)state;
	assert_int_equal(suppress_read("/nonesuch", err), -ENOENT);
	assert_string_equal(err, "/nonesuch: No such file or directory");
	assert_int_equal(suppress_read("/tmp", err), -EISDIR);
	assert_non_null(mkdtemp(dir));
	snprintf(pipe, sizeof(pipe), "%s/pipe", dir);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(suppress_read(pipe, err), -ESPIPE);
	unlink(pipe);
	rmdir(dir);
	assert_int_equal(suppress_read("/dev/null", err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_long_comments),
		cmocka_unit_test(test_wrong_lines),
		cmocka_unit_test(test_wrong_files),
	};

	trace_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
