/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_load.c - notices that a library is loaded which will bypass this one: with
 * RTLD_DEEPBIND it finds libc's functions first, in a namespace of its own another libc.
 *
 * libc's dlopen() must be reached by a jump (-foptimize-sibling-calls): it identifies its
 * caller by the return address, and searches for the library accordingly.
 */
#include "preload_told.h"

#include <dlfcn.h>

static __attribute__((noinline)) void before_blind(void)
{
	int saved = errno;

	no_more();
	make_all_private();
	errno = saved;
}

PUBLIC void *hooked_dlopen(const char *name, int flags) __asm__("dlopen");

void *hooked_dlopen(const char *name, int flags)
{
	void *(*fn)(const char *, int);

	if (flags & RTLD_DEEPBIND)
		before_blind();
	*(void **)&fn = libcs(CALLED_dlopen);
	return fn ? fn(name, flags) : NULL;
}

PUBLIC void *hooked_dlmopen(long space, const char *name, int flags) __asm__("dlmopen");

void *hooked_dlmopen(long space, const char *name, int flags)
{
	void *(*fn)(long, const char *, int);

	if (space != LM_ID_BASE || flags & RTLD_DEEPBIND)
		before_blind();
	*(void **)&fn = libcs(CALLED_dlmopen);
	return fn ? fn(space, name, flags) : NULL;
}
