/* SPDX-License-Identifier: BSD-2-Clause */
/* report_test.c - reports, once a place, and suppressions. */
#include "check/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/trace.h"
#include "sys/log_testing.h"

static char text[8192];

__attribute__((noinline)) static void one_place(enum check check)
{
	const struct check_before before = { "made", check_here(), 0 };

	check_report(check, &before, 1, "number %d", 5);
	__asm__ volatile("");
}

__attribute__((noinline)) static void another_place(enum check check)
{
	check_report_at(check,
			trace_of(__builtin_return_address(0), __builtin_frame_address(0)),
			NULL, 0, "number 6");
	__asm__ volatile("");
}

static void test_once_a_place(void **state)
{
	(void)state;
	checks_on = check_bit(CHECK_SQ_OVERFLOW);
	LOGGED(text, "error", one_place(CHECK_SQ_OVERFLOW));
	assert_non_null(strstr(text, "error: check sq-overflow: number 5\n"));
	assert_non_null(strstr(text, " one_place (check_report_test+0x"));
	assert_non_null(strstr(text, "error:   made by "));
	assert_non_null(strstr(text, "`urnic explain check:sq-overflow'"));
	LOGGED(text, "error", another_place(CHECK_SQ_OVERFLOW));
	assert_non_null(strstr(text, "error: check sq-overflow: number 6\n"));
	assert_null(strstr(text, "explain"));
	LOGGED(text, "error", one_place(CHECK_SQ_OVERFLOW));
	assert_string_equal(text, "");
	LOGGED(text, "error", one_place(CHECK_SQ_UNSIGNALED)); /* not asked for */
	assert_string_equal(text, "");
	LOGGED(text, "error", assert_int_equal(report_totals(), 3));
	assert_non_null(strstr(text, "check sq-overflow: 2 times in all at its place"));
	assert_non_null(strstr(text, "checks: reports in all: 3; places: 2\n"));
}

__attribute__((noinline)) static void suppressed(void)
{
	check_report(CHECK_SQ_OVERFLOW, NULL, 0, "nothing");
	__asm__ volatile("");
}

static void test_suppressions(void **state)
{
	char name[] = "/tmp/urnic-check-XXXXXX";
	int fd = mkstemp(name), rc;
	unsigned long all;

	(void)state;
	assert_int_equal(dprintf(fd, "sq-overflow:suppressed\n"), 23);
	close(fd);
	rc = report_start(name, false);
	unlink(name);
	assert_int_equal(rc, 0);
	for (int i = 0; i < 3; i++) {
		LOGGED(text, "error", suppressed());
		assert_string_equal(text, "");
	}
	LOGGED(text, "error", all = report_totals());
	assert_int_equal(all, 0);
	assert_string_equal(text, "");
	LOGGED(text, "error",
	       assert_int_equal(report_start("/nonesuch", false), -ENOENT));
	assert_non_null(strstr(text, "URNIC_CHECK_SUPPRESS: /nonesuch: No such file"));
	assert_int_equal(report_start("", false), 0);
}

/* The caller may hold locks. */
static void *report_cancelled(void *arg)
{
	bool *goes_on = arg;

	pthread_cancel(pthread_self());
	check_report(CHECK_SQ_OVERFLOW, NULL, 0, "nothing");
	*goes_on = true;
	pthread_testcancel();
	*goes_on = false;
	return NULL;
}

static void test_no_thread_ends_in_a_report(void **state)
{
	bool goes_on = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(report_start("", false), 0);
	LOGGED(text, "error",
	       (pthread_create(&thread, NULL, report_cancelled, &goes_on),
		pthread_join(thread, NULL)));
	assert_true(goes_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once_a_place),
		cmocka_unit_test(test_suppressions),
		cmocka_unit_test(test_no_thread_ends_in_a_report),
	};

	trace_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
