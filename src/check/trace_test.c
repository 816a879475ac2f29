/* SPDX-License-Identifier: BSD-2-Clause */
/* trace_test.c - backtraces, and the functions in them. */
#include "check/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

__attribute__((noinline)) static check_trace called(void)
{
	return trace_of(__builtin_return_address(0), __builtin_frame_address(0));
}

__attribute__((noinline)) static check_trace first_place(void)
{
	check_trace t = called();

	__asm__ volatile("");
	return t;
}

__attribute__((noinline)) static check_trace second_place(void)
{
	check_trace t = called();

	__asm__ volatile("nop");
	return t;
}

static bool is(const char *name, void *arg)
{
	return strcmp(name, arg) == 0;
}

static void test_places(void **state)
{
	check_trace a[2], b;

	(void)state;
	for (volatile int i = 0; i < 2; i++) /* one place, twice */
		a[i] = first_place();
	b = second_place();
	assert_true(a[0] && b);
	assert_int_equal(a[0], a[1]);
	assert_int_not_equal(a[0], b);
	assert_true(trace_matches(a[0], is, "first_place"));
	assert_true(trace_matches(a[0], is, "check_trace_test"));
	assert_false(trace_matches(a[0], is, "second_place"));
	assert_false(trace_is_inner(a[0]));
}

/* The same return address and frame, whoever has called. */
__attribute__((noinline)) static check_trace from_here(void)
{
	check_trace t = called();

	__asm__ volatile("");
	return t;
}

static void test_who_has_called_it(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const check_trace a = from_here();
		const check_trace b = from_here();

		assert_ptr_equal(trace_place(a), trace_place(b));
#if defined(__x86_64__)
		assert_int_not_equal(a, b);
#endif
	}
}

static jmp_buf back;
static check_trace at_end;

__attribute__((noinline)) static _Noreturn void jump_back(void)
{
	at_end = called();
	longjmp(back, 1);
}

/* The address to return to is behind this function. */
__attribute__((noinline)) static void ends_with_a_call(void)
{
	jump_back();
}

static void test_a_call_at_the_end(void **state)
{
	(void)state;
	if (!setjmp(back))
		ends_with_a_call();
	assert_true(trace_matches(at_end, is, "ends_with_a_call"));
}

static void add_line(const char *text, void *arg)
{
	strncat(arg, text, 1000 - strlen(arg));
	strncat(arg, "\n", 1000 - strlen(arg));
}

static void test_show(void **state)
{
	char text[1024] = "";

	(void)state;
	trace_show(first_place(), add_line, text);
	assert_int_equal(strncmp(text, "first_place (check_trace_test+0x", 32), 0);
	assert_non_null(strstr(text, "\ntest_show ("));
	assert_non_null(strstr(text, "\nmain ("));
	text[0] = '\0';
	trace_show(0, add_line, text);
	assert_string_equal(text, "");
	assert_null(trace_place(0));
}

static void test_now(void **state)
{
	check_trace t = trace_now();

	(void)state;
	assert_true(trace_matches(t, is, "test_now"));
	assert_int_equal(t, trace_matches(t, is, "main") ? t : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_who_has_called_it),
		cmocka_unit_test(test_a_call_at_the_end),
		cmocka_unit_test(test_show),
		cmocka_unit_test(test_now),
	};

	trace_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
