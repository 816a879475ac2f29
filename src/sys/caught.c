/* SPDX-License-Identifier: BSD-2-Clause */
/* caught.c - see caught.h: on x86-64 by the routines of guarded.S,
 * elsewhere in C. */
#include "sys/caught.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)

int caught_copy(void *dst, const void *src, size_t n)
{
	return guarded_copy(dst, src, n);
}

int caught_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig)
{
	uint64_t was;
	int rc;

	rc = guarded_cmp_swap(at, compare, swap, &was);
	if (rc == 0)
		*orig = was;
	return rc;
}

int caught_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig)
{
	uint64_t was;
	int rc;

	rc = guarded_fetch_add(at, add, &was);
	if (rc == 0)
		*orig = was;
	return rc;
}

#else

enum { TAIL = 64, PIECE = 4096 };

struct copy {
	uint8_t *dst;
	const uint8_t *src;
	size_t n;
};

/* Earlier stores become visible before later ones. */
static inline void store_fence(void)
{
	atomic_thread_fence(memory_order_release);
}

/* Copies upward in the largest aligned stores, each of which becomes visible as a whole:
 * so a program that polls on the last byte, or on a word, finds everything before it.
 * The last store comes after a release fence.  Not C atomics: ThreadSanitizer makes those
 * under a lock, and a jump would leave it locked. */
static void store_tail(uint8_t *dst, const uint8_t *src, size_t n)
{
	while (n > 0) {
		size_t step = 1;
		uint64_t v8;
		uint32_t v4;

		if (n >= 8 && (uintptr_t)dst % 8 == 0) {
			memcpy(&v8, src, step = 8);
			if (n == 8)
				store_fence();
			*(volatile uint64_t *)(void *)dst = v8;
		} else if (n >= 4 && (uintptr_t)dst % 4 == 0) {
			memcpy(&v4, src, step = 4);
			if (n == 4)
				store_fence();
			*(volatile uint32_t *)(void *)dst = v4;
		} else {
			if (n == 1)
				store_fence();
			*(volatile uint8_t *)dst = *src;
		}
		dst += step;
		src += step;
		n -= step;
	}
}

/* In pieces, since memcpy() may copy downward within one call. */
static void do_copy(void *arg)
{
	struct copy *c = arg;
	size_t tail = c->n < TAIL ? c->n : TAIL, at, body = c->n - tail;

	for (at = 0; at < body; at += PIECE)
		memcpy(c->dst + at, c->src + at, body - at < PIECE ? body - at : PIECE);
	store_fence();
	store_tail(c->dst + body, c->src + body, tail);
}

int caught_copy(void *dst, const void *src, size_t n)
{
	struct copy c = { dst, src, n };

	return n ? caught_call(do_copy, &c) : 0;
}

struct atomic {
	uint64_t *at, a, b, orig;
};

/* Hidden from ThreadSanitizer, which holds a lock during an atomic: a jump out of it
 * would leave that locked. */
#define NO_TSAN __attribute__((no_sanitize("thread")))

NO_TSAN static void do_cmp_swap(void *arg)
{
	struct atomic *x = arg;

	x->orig = x->a;
	__atomic_compare_exchange_n(x->at, &x->orig, x->b, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}

NO_TSAN static void do_fetch_add(void *arg)
{
	struct atomic *x = arg;

	x->orig = __atomic_fetch_add(x->at, x->a, __ATOMIC_SEQ_CST);
}

int caught_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig)
{
	struct atomic x = { .at = at, .a = compare, .b = swap };
	int rc = caught_call(do_cmp_swap, &x);

	if (rc == 0)
		*orig = x.orig;
	return rc;
}

int caught_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig)
{
	struct atomic x = { .at = at, .a = add };
	int rc = caught_call(do_fetch_add, &x);

	if (rc == 0)
		*orig = x.orig;
	return rc;
}

#endif
