/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "sys/guard.h"
#include "sys/memory_testing.h"

static void touch(volatile uint8_t *p)
{
	*p = 1;
}

static void copies(void)
{
	uint8_t src[9000], dst[9100];

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t n = 0; n + 8 < sizeof(src); n += n < 500 ? 1 : 797) {
		for (size_t off = 0; off < 17; off++) {
			memset(dst, 0xee, sizeof(dst));
			assert_int_equal(guard_copy(dst + off, src + off / 2, n), 0);
			assert_memory_equal(dst + off, src + off / 2, n);
			assert_int_equal(dst[off + n], 0xee);
			if (off)
				assert_int_equal(dst[off - 1], 0xee);
		}
	}
}

static void t_copies(void **state)
{
	(void)state;
	copies(); /* without vectors */
	guard_arm();
	copies();
}

static void t_bad_memory(void **state)
{
	uint8_t buf[200] = { 0 };
	uint8_t *none = pages(1, PROT_NONE), *ro = pages(1, PROT_READ);
	uint8_t *gone = hole();

	(void)state;
	guard_arm();
	for (size_t n = 1; n <= sizeof(buf); n += 33) {
		assert_int_equal(guard_copy(buf, gone, n), -EFAULT);
		assert_int_equal(guard_copy(gone, buf, n), -EFAULT);
		assert_int_equal(guard_copy(buf, none, n), -EFAULT);
		assert_int_equal(guard_copy(ro, buf, n), -EFAULT);
		assert_int_equal(guard_copy(buf, ro, n), 0);
	}
	assert_int_equal(guard_copy(gone, buf, 0), 0);
	/* not canonical: a general protection fault */
	assert_int_equal(guard_copy(buf, (void *)(uintptr_t)(0xdeadull << 48), 8),
			 -EFAULT);
	munmap(none, PAGE);
	munmap(ro, PAGE);
}

/* Everything before the hole has been copied: the copy goes upward. */
static void t_upward(void **state)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE), src[3 * PAGE];

	(void)state;
	guard_arm();
	memset(src, 0x5a, sizeof(src));
	munmap(p + 2 * PAGE, PAGE);
	assert_int_equal(guard_copy(p, src, sizeof(src)), -EFAULT);
	for (int i = 0; i < PAGE; i++)
		assert_int_equal(p[i], 0x5a);
	munmap(p, 4 * PAGE);
}

static void t_sigbus(void **state)
{
	uint8_t *p = short_file(), buf[64] = { 0 };

	(void)state;
	guard_arm();
	assert_int_equal(guard_copy(buf, p, 64), -EFAULT);
	assert_int_equal(guard_copy(p - 64, buf, 64), 0);
	assert_int_equal(guard_copy(p - 32, buf, 64), -EFAULT);
	munmap(p - PAGE, 2 * PAGE);
}

static void t_atomics(void **state)
{
	uint64_t v = 10, orig = 0;

	(void)state;
	guard_arm();
	assert_int_equal(guard_fetch_add(&v, 5, &orig), 0);
	assert_int_equal(orig, 10);
	assert_int_equal(v, 15);
	assert_int_equal(guard_cmp_swap(&v, 14, 1, &orig), 0);
	assert_int_equal(orig, 15);
	assert_int_equal(v, 15);
	assert_int_equal(guard_cmp_swap(&v, 15, 1, &orig), 0);
	assert_int_equal(orig, 15);
	assert_int_equal(v, 1);
#if !TSAN /* it holds a lock around an atomic */
	orig = 77;
	assert_int_equal(guard_fetch_add((uint64_t *)(void *)hole(), 5, &orig), -EFAULT);
	assert_int_equal(guard_cmp_swap((uint64_t *)(void *)hole(), 5, 6, &orig),
			 -EFAULT);
	assert_int_equal(orig, 77);
#endif
}

static void nested(void *arg)
{
	uint8_t b[8];

	assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
	++*(int *)arg;
	touch(hole());
	++*(int *)arg;
}

static void t_nested_calls(void **state)
{
	int n = 0;

	(void)state;
	guard_arm();
	assert_int_equal(guard_call(nested, &n), -EFAULT);
	assert_int_equal(n, 1);
}

static void *thread(void *arg)
{
	uint8_t b[100], *bad = pages(1, PROT_NONE);

	for (int i = 0; i < 2000; i++) {
		if (guard_copy(b, bad, sizeof(b)) != -EFAULT ||
		    guard_copy(b, arg, sizeof(b)) != 0)
			return arg;
	}
	return NULL;
}

static void t_threads(void **state)
{
	static uint8_t good[100];
	pthread_t t[4];
	void *res;

	(void)state;
	guard_arm();
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, thread, good);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &res);
		assert_null(res);
	}
}

static void *with_both_blocked(void *arg)
{
	uint8_t to[8], from[8] = { 0 };
	sigset_t both;
	bool before, within, after;

	sigemptyset(&both);
	sigaddset(&both, SIGSEGV);
	sigaddset(&both, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	before = guard_catches();
	guard_enter();
	if (guard_copy(to, from, sizeof(to))) /* unblocks both for the turn's rest */
		return arg;
	within = guard_catches();
	guard_leave();
	after = guard_catches();
	return before || within || after ? arg : NULL;
}

/* A thread that blocks the signals is not caught, although a turn unblocks them. */
static void t_who_is_caught(void **state)
{
	pthread_t t;
	void *res;

	(void)state;
	guard_arm();
	assert_true(guard_catches());
	assert_int_equal(pthread_create(&t, NULL, with_both_blocked, "no"), 0);
	pthread_join(t, &res);
	assert_null(res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_copies),  cmocka_unit_test(t_bad_memory),
		cmocka_unit_test(t_upward),  cmocka_unit_test(t_sigbus),
		cmocka_unit_test(t_atomics), cmocka_unit_test(t_nested_calls),
		cmocka_unit_test(t_threads), cmocka_unit_test(t_who_is_caught),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
