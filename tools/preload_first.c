/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_first.c - the constructor of liburnic-map.so, and the checks that it is the
 * program's first one and that the program calls this library's functions.
 *
 * libc's own functions are looked up while there is only one thread.  Later another
 * thread may hold the dynamic loader's lock and wait for the caller (dlopen() runs
 * constructors with the lock held), which would be a deadlock.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "preload_told.h"

/* The last ones, from BESIDE on, are needed only beside threads. */
static struct real calls[] = {
#define CALLED(n) { .name = #n },
#include "preload_called.def"
#undef CALLED
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]), BESIDE = CALLED_close };

/* No other library has DF_1_INITFIRST, so no constructor runs before this library's. */
static bool is_only_first;

void *libcs(enum called n)
{
	return preload_next(&calls[n]);
}

/* Without dl_iterate_phdr(): ThreadSanitizer replaces it by a function that cannot run
 * before its own constructor. */
static unsigned count_first(void)
{
	unsigned n = 0;

	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next)
		for (const ElfW(Dyn) *d = m->l_ld; d && d->d_tag != DT_NULL; d++)
			n += d->d_tag == DT_FLAGS_1 && d->d_un.d_val & DF_1_INITFIRST;
	return n;
}

__attribute__((constructor)) static void begin(void)
{
	for (unsigned i = 0; i < CALLS; i++)
		(void)libcs((enum called)i);
	is_only_first = count_first() == 1;
	watch_forks();
}

/* Does the program's search for that symbol lead to this library? */
static bool is_found_here(const char *name)
{
	Dl_info here, there;
	void *at = dlsym(RTLD_DEFAULT, name);

	return at && dladdr((void *)(uintptr_t)is_found_here, &here) &&
	       dladdr(at, &there) && here.dli_fbase == there.dli_fbase;
}

static bool are_found_here(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if (!is_found_here(calls[i].name))
			return false;
	return true;
}

PUBLIC bool urnic_preload_watch(const char *release, const struct preload_ops *o)
{
	if (strcmp(release, URNIC_VERSION) != 0 || !is_only_first)
		return false;
	if (!are_found_here(0, BESIDE))
		return false;
	tell(o);
	return true;
}

PUBLIC bool urnic_preload_beside(void)
{
	return are_found_here(BESIDE, CALLS);
}
