/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_load.c - libraries that would call libc's functions past this one: with
 * RTLD_DEEPBIND they find libc's first, and in a namespace of their own another libc.
 *
 * libc's dlopen() is jumped to (-foptimize-sibling-calls): who calls it is told by its
 * return address, and where a library is looked for depends on that.
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
