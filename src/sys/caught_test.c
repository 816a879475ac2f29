/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "sys/caught.h"
#include "sys/guard.h"
#include "sys/memory_testing.h"

/* Eight bytes by instructions in the caller. */
static void t_bad_memory_8(void **state)
{
	uint8_t *ro = pages(1, PROT_READ), *p = short_file(), *gone = hole();
	uint64_t from = 7, to = 0;

	(void)state;
	guard_arm();
	for (int i = 0; i < 3; i++) {
		from++;
		assert_true(caught_copy_8(&to, &from));
		assert_int_equal(to, from);
		assert_false(caught_copy_8(&to, gone));
		assert_false(caught_copy_8(gone, &from));
		assert_false(caught_copy_8(ro, &from));
		assert_false(caught_copy_8(p, &from));
		assert_false(caught_copy_8(&to, p));
		assert_int_equal(to, from);
		assert_true(caught_copy_8(&to, ro));
		assert_int_equal(to, 0);
	}
	munmap(ro, PAGE);
	munmap(p - PAGE, 2 * PAGE);
}

static void t_copy(void **state)
{
	uint8_t from[100], to[100] = { 0 }, *p = short_file();

	(void)state;
	guard_arm();
	memset(from, 0x5a, sizeof(from));
	assert_int_equal(caught_copy(to, from, 99), 0);
	assert_memory_equal(to, from, 99);
	assert_int_equal(to[99], 0);
	assert_int_equal(caught_copy(p - 50, from, 100), -EFAULT);
	assert_int_equal(caught_copy(to, hole(), 100), -EFAULT);
	assert_int_equal(caught_copy(hole(), to, 0), 0);
	munmap(p - PAGE, 2 * PAGE);
}

/* What is remembered of the word before stays as it was if the word cannot be reached. */
static void t_words(void **state)
{
	uint64_t v = 10, was = 0;

	(void)state;
	guard_arm();
	assert_int_equal(caught_fetch_add(&v, 5, &was), 0);
	assert_int_equal(was, 10);
	assert_int_equal(caught_cmp_swap(&v, 14, 1, &was), 0);
	assert_int_equal(was, 15);
	assert_int_equal(caught_cmp_swap(&v, 15, 1, &was), 0);
	assert_int_equal(v, 1);
#if !TSAN /* it holds a lock around an atomic */
	assert_int_equal(caught_fetch_add((uint64_t *)(void *)hole(), 5, &was), -EFAULT);
	assert_int_equal(caught_cmp_swap((uint64_t *)(void *)hole(), 5, 6, &was),
			 -EFAULT);
	assert_int_equal(was, 15);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_bad_memory_8),
		cmocka_unit_test(t_copy),
		cmocka_unit_test(t_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
