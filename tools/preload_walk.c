/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_walk.c - the functions that list directories, for preload_sysfs.h. */
#undef _FILE_OFFSET_BITS

#include "preload_sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* On amd64 and arm64, these and their 64 versions are the same. */
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "LP64");
_Static_assert(sizeof(glob_t) == sizeof(glob64_t), "LP64");

PUBLIC DIR *opendir(const char *path)
{
	REAL(r, "opendir");
	DIR *(*fn)(const char *);
	struct look l;
	DIR *dir;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(&r);
	do
		dir = fn ? fn(l.path) : NULL;
	while (!dir && look_on(&l));
	return dir;
}

static int do_scandir(struct real *r, const char *path, void *list, void *filter,
		      void *order)
{
	int (*fn)(const char *, void *, void *, void *);
	struct look l;
	int n;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		n = fn ? fn(l.path, list, filter, order) : -1;
	while (n < 0 && look_on(&l));
	return n;
}

PUBLIC int scandir(const char *restrict path, struct dirent ***restrict list,
		   int (*filter)(const struct dirent *),
		   int (*order)(const struct dirent **, const struct dirent **))
{
	REAL(r, "scandir");

	return do_scandir(&r, path, list, *(void **)&filter, *(void **)&order);
}

PUBLIC int scandir64(const char *restrict path, struct dirent64 ***restrict list,
		     int (*filter)(const struct dirent64 *),
		     int (*order)(const struct dirent64 **, const struct dirent64 **))
{
	REAL(r, "scandir64");

	return do_scandir(&r, path, list, *(void **)&filter, *(void **)&order);
}

/* --- patterns ---------------------------------------------------------------- */

/* glob() finds nothing where the kernel has nothing; errno may be anything. */
static int do_glob(struct real *r, const char *pattern, int flags,
		   int (*error)(const char *, int), glob_t *g)
{
	int (*fn)(const char *, int, int (*)(const char *, int), void *);
	struct look l;
	int rc, found;

	look_for(&l, AT_FDCWD, pattern);
	*(void **)&fn = preload_next(r);
	if (!fn)
		return GLOB_ABORTED;
	rc = fn(l.path, flags & ~(GLOB_NOCHECK | GLOB_NOMAGIC), error, g);
	errno = ENOENT;
	if (rc == GLOB_NOMATCH && look_on(&l))
		rc = fn(l.path, flags & ~(GLOB_NOCHECK | GLOB_NOMAGIC), error, g);
	found = rc == 0;
	if (rc == GLOB_NOMATCH && flags & (GLOB_NOCHECK | GLOB_NOMAGIC))
		rc = fn(pattern, flags, error, g);
	for (size_t i = 0; found && i < g->gl_pathc; i++)
		show_as_sys(g->gl_pathv[g->gl_offs * !!(flags & GLOB_DOOFFS) + i]);
	return rc;
}

PUBLIC int glob(const char *restrict pattern, int flags, int (*error)(const char *, int),
		glob_t *restrict g)
{
	REAL(r, "glob");

	return do_glob(&r, pattern, flags, error, g);
}

PUBLIC int glob64(const char *restrict pattern, int flags,
		  int (*error)(const char *, int), glob64_t *restrict g)
{
	REAL(r, "glob64");

	return do_glob(&r, pattern, flags, error, (glob_t *)g);
}

/* --- trees ------------------------------------------------------------------- */

/* The program's function, and what it gets besides. */
static __thread union {
	__ftw_func_t ftw;
	__nftw_func_t nftw;
} visit;

static int visit_ftw(const char *path, const struct stat *st, int type)
{
	char shown[PATH_MAX];

	strncpy(shown, path, sizeof(shown) - 1);
	shown[sizeof(shown) - 1] = '\0';
	show_as_sys(shown);
	return visit.ftw(shown, st, type);
}

static int visit_nftw(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char shown[PATH_MAX];
	struct FTW its = *at;

	strncpy(shown, path, sizeof(shown) - 1);
	shown[sizeof(shown) - 1] = '\0';
	show_as_sys(shown);
	its.base -= (int)(strlen(path) - strlen(shown));
	return visit.nftw(shown, st, type, &its);
}

/* Only a tree of ours takes the way over visit. */
static int do_ftw(struct real *r, const char *path, __ftw_func_t fn_, int fds)
{
	int (*fn)(const char *, __ftw_func_t, int);
	__ftw_func_t was = visit.ftw;
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	look_until_there(&l);
	if (!fn || l.path == path)
		return fn ? fn(path, fn_, fds) : -1;
	visit.ftw = fn_;
	rc = fn(l.path, visit_ftw, fds);
	visit.ftw = was;
	return rc;
}

static int do_nftw(struct real *r, const char *path, __nftw_func_t fn_, int fds,
		   int flags)
{
	int (*fn)(const char *, __nftw_func_t, int, int);
	__nftw_func_t was = visit.nftw;
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	look_until_there(&l);
	if (!fn || l.path == path)
		return fn ? fn(path, fn_, fds, flags) : -1;
	visit.nftw = fn_;
	rc = fn(l.path, visit_nftw, fds, flags);
	visit.nftw = was;
	return rc;
}

PUBLIC int ftw(const char *path, __ftw_func_t fn, int fds)
{
	REAL(r, "ftw");

	return do_ftw(&r, path, fn, fds);
}

PUBLIC int ftw64(const char *path, __ftw64_func_t fn, int fds)
{
	REAL(r, "ftw64");

	return do_ftw(&r, path, (__ftw_func_t)fn, fds);
}

PUBLIC int nftw(const char *path, __nftw_func_t fn, int fds, int flags)
{
	REAL(r, "nftw");

	return do_nftw(&r, path, fn, fds, flags);
}

PUBLIC int nftw64(const char *path, __nftw64_func_t fn, int fds, int flags)
{
	REAL(r, "nftw64");

	return do_nftw(&r, path, (__nftw_func_t)fn, fds, flags);
}
