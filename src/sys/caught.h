/* SPDX-License-Identifier: BSD-2-Clause */
/* caught.h - guarded access (guard.h) by a thread whose signal mask already lets the
 * signals of faults through. */
#ifndef SYS_CAUGHT_H
#define SYS_CAUGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As guard_copy() and so on, for a thread of which guard_catches() is true: these never
 * change its signal mask.  For copies without the turn,
 * perhaps in a signal handler that interrupted a turn of its own thread: when that
 * handler returns, the kernel blocks the signals again and the turn would not know. */
int caught_copy(void *dst, const void *src, size_t n);
/* caught_copy() of 8 bytes to an aligned address. Returns false in place of -EFAULT. */
static inline bool caught_copy_8(void *dst, const void *src);
int caught_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig);
int caught_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig);

#if defined(__x86_64__)

/* An instruction that may fault, and where the thread continues then; both as distances
 * from the fields themselves. The table of all of them is a section. */
struct guard_place {
	int32_t at, to;
};

#define GUARD_PLACE(at, to)                                                              \
	".pushsection guard_places, \"a\"\n"                                             \
	"	.long " at " - ., " to " - .\n"                                          \
	".popsection\n"

static inline bool caught_copy_8(void *dst, const void *src)
{
	__asm__ goto("1:	movq (%0), %%rax\n"
		     "2:	movq %%rax, (%1)\n" GUARD_PLACE("1b", "%l[fault]")
			     GUARD_PLACE("2b", "%l[fault]")
		     :
		     : "r"(src), "r"(dst)
		     : "rax", "memory"
		     : fault);
	return true;
fault:
	return false;
}

#else

static inline bool caught_copy_8(void *dst, const void *src)
{
	return caught_copy(dst, src, 8) == 0;
}

#endif

/* --- for guard.c and caught.c ---------------------------------------------- */

/* guard_call() without a change of the signal mask. In guard.c. */
int caught_call(void (*fn)(void *arg), void *arg);

#if defined(__x86_64__)

#define HIDDEN __attribute__((visibility("hidden")))

/* May guarded_copy() use AVX? Set by guard_arm(). */
extern HIDDEN bool guarded_avx;

/* Return 0, or -EFAULT if one of their instructions faults. In guarded.S. */
int guarded_copy(void *dst, const void *src, size_t n);
int guarded_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig);
int guarded_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig);
/* The bounds of these instructions; where a thread continues that faults there. */
extern const char guarded_begin[], guarded_end[], guarded_fault[];

/* The section that GUARD_PLACE() fills, whose ends the linker names; NULL if nothing uses
 * the macro. */
extern HIDDEN __attribute__((weak)) const struct guard_place __start_guard_places[];
extern HIDDEN __attribute__((weak)) const struct guard_place __stop_guard_places[];

#endif

#endif
