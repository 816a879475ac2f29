/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_next.c - looks up the C library's own functions; see preload.h. */
#include "preload.h"

#include <dlfcn.h>
#include <stddef.h>

void *preload_next(struct real *r)
{
	void *fn = atomic_load(&r->fn);

	if (!fn) {
		fn = dlsym(RTLD_NEXT, r->name);
		atomic_store(&r->fn, fn);
	}
	if (!fn)
		errno = ENOSYS;
	return fn;
}
