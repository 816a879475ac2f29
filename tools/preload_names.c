/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_names.c - gives urnic's libraries to programs that load libibverbs, librdmacm
 * or libibumad by dlopen(), whatever name or path they use, and says so if the dynamic
 * loader has found another library before urnic's.
 *
 * libc's dlopen() must be reached by a jump (-foptimize-sibling-calls): it identifies its
 * caller by the return address, and searches for the library accordingly.
 */
#include "preload.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* path: urnic's library; not beside this one (it is not installed yet), just its name.
 * The constructor writes it, since dladdr() may wait for another thread's dlopen(). */
static struct library {
	const char *name, *number;
	char path[PATH_MAX];
} libraries[] = {
	{ "libibverbs.so", ".1", "" },
	{ "librdmacm.so", ".1", "" },
	{ "libibumad.so", ".3", "" },
};

enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Makes the path of a file in the folder of path. */
static void beside(const char *path, const char *file, const char *number,
		   char to[PATH_MAX])
{
	if (snprintf(to, PATH_MAX, "%.*s%s%s", (int)(base(path) - path), path, file,
		     number) >= PATH_MAX)
		to[0] = '\0';
}

/* Which library does that file name mean: libX.so, libX.so.N or libX.so.N.M...?  NULL:
 * none of them, or one of an urnic, which has liburnic.so beside it. */
static const struct library *meant(const char *path)
{
	const char *file = base(path), *rest;
	char urnic[PATH_MAX];

	for (unsigned i = 0; i < LIBRARIES; i++) {
		const struct library *l = &libraries[i];

		if (strncmp(file, l->name, strlen(l->name)) != 0)
			continue;
		rest = file + strlen(l->name);
		if (*rest &&
		    (strncmp(rest, l->number, 2) != 0 || (rest[2] && rest[2] != '.')))
			continue;
		beside(path, "liburnic.so", "", urnic);
		return file != path && access(urnic, F_OK) == 0 ? NULL : l;
	}
	return NULL;
}

/* After chroot() urnic's library may be out of reach: the program then gets what it
 * names. */
static __attribute__((noinline)) const char *answer(const char *name)
{
	int saved = errno;
	const struct library *l = name ? meant(name) : NULL;

	if (l && strchr(l->path, '/') && access(l->path, R_OK) != 0)
		l = NULL;
	errno = saved;
	return l && l->path[0] ? l->path : name;
}

PUBLIC void *hooked_dlopen(const char *name, int flags) __asm__("dlopen");

void *hooked_dlopen(const char *name, int flags)
{
	REAL(r, "dlopen");
	void *(*fn)(const char *, int);

	name = answer(name);
	*(void **)&fn = preload_next(&r);
	return fn ? fn(name, flags) : NULL;
}

PUBLIC void *hooked_dlmopen(long space, const char *name, int flags) __asm__("dlmopen");

void *hooked_dlmopen(long space, const char *name, int flags)
{
	REAL(r, "dlmopen");
	void *(*fn)(long, const char *, int);

	name = answer(name);
	*(void **)&fn = preload_next(&r);
	return fn ? fn(space, name, flags) : NULL;
}

static void tell_of_other(const char *path)
{
	const struct library *l = meant(path);

	if (l)
		dprintf(STDERR_FILENO,
			"urnic[%d] error: %s uses %s, which is not urnic's and finds no"
			" device: an RPATH (`readelf -d') or LD_LIBRARY_PATH leads there."
			" Remedy: LD_PRELOAD=%s urnic run ...\n",
			getpid(), program_invocation_short_name, path, l->path);
}

__attribute__((constructor)) static void begin(void)
{
	Dl_info here;
	int saved = errno;

	if (!dladdr((void *)(uintptr_t)begin, &here))
		return;
	for (unsigned i = 0; i < LIBRARIES; i++) {
		struct library *l = &libraries[i];

		beside(here.dli_fname, l->name, l->number, l->path);
		if (access(l->path, R_OK) != 0)
			snprintf(l->path, sizeof(l->path), "%s%s", l->name, l->number);
	}
	for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next)
		tell_of_other(m->l_name);
	errno = saved; /* programs find 0 */
}
