/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel_fix.h - for tests that cancel a thread. */
#ifndef SYS_CANCEL_FIX_H
#define SYS_CANCEL_FIX_H

#include <stdint.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* AddressSanitizer does not know that the frames of a cancelled thread are gone.  For
 * pthread_cleanup_push(). */
static inline void forget_frames(void *arg)
{
	(void)arg;
#ifdef __SANITIZE_ADDRESS__
	enum { BELOW = 65536, ABOVE = 1024 };
	char here;

	__asan_unpoison_memory_region((void *)((uintptr_t)&here - BELOW), BELOW + ABOVE);
#endif
}

#endif
