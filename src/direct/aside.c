/* SPDX-License-Identifier: BSD-2-Clause */
/* aside.c - see aside.h. */
#include "direct/aside.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 256 << 10 };

/* Lies at the low end of the new stack: nothing on the old stack is needed meanwhile. */
struct aside {
	ucontext_t back, there;
	void (*fn)(void);
};

/* makecontext() passes only ints, so the address comes in two halves. */
static void begin_aside(unsigned high, unsigned low)
{
	const struct aside *a =
		(const void *)(uintptr_t)((uint64_t)high << 32 | (uint64_t)low);

	a->fn();
}

bool aside_call(void (*fn)(void))
{
	struct aside *a = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const uint64_t at = (uintptr_t)a;
	bool good;

	if (a == MAP_FAILED)
		return false;
	a->fn = fn;
	good = !getcontext(&a->there);
	a->there.uc_stack.ss_sp = a + 1;
	a->there.uc_stack.ss_size = STACK - sizeof(*a);
	a->there.uc_link = &a->back;
	makecontext(&a->there, (void (*)(void))begin_aside, 2, (unsigned)(at >> 32),
		    (unsigned)at);
	good = good && !swapcontext(&a->back, &a->there);
	munmap(a, STACK);
	return good;
}
