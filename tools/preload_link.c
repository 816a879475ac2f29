/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_link.c - the functions that follow links, for preload_sysfs.h.  A path that
 * they give, or that a program gets as its directory, is one below /sys. */
#undef _FORTIFY_SOURCE

#include "preload_sysfs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static ssize_t do_readlink(struct real *r, const char *path, char *buf, size_t size)
{
	ssize_t (*fn)(const char *, char *, size_t);
	struct look l;
	ssize_t n;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		n = fn ? fn(l.path, buf, size) : -1;
	while (n < 0 && look_on(&l));
	return n;
}

static ssize_t do_readlinkat(struct real *r, int dir, const char *path, char *buf,
			     size_t size)
{
	ssize_t (*fn)(int, const char *, char *, size_t);
	struct look l;
	ssize_t n;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(r);
	do
		n = fn ? fn(dir, l.path, buf, size) : -1;
	while (n < 0 && look_on(&l));
	return n;
}

REAL(readlink_, "readlink");
REAL(readlinkat_, "readlinkat");
REAL(realpath_, "realpath");

PUBLIC ssize_t readlink(const char *restrict path, char *restrict buf, size_t size)
{
	return do_readlink(&readlink_, path, buf, size);
}

PUBLIC ssize_t readlinkat(int dir, const char *restrict path, char *restrict buf,
			  size_t size)
{
	return do_readlinkat(&readlinkat_, dir, path, buf, size);
}

static char *do_realpath(const char *path, char *resolved)
{
	char *(*fn)(const char *, char *);
	struct look l;
	char *real;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(&realpath_);
	do
		real = fn ? fn(l.path, resolved) : NULL;
	while (!real && look_on(&l));
	if (real)
		show_as_sys(real);
	return real;
}

PUBLIC char *realpath(const char *restrict path, char *restrict resolved)
{
	return do_realpath(path, resolved);
}

PUBLIC char *canonicalize_file_name(const char *path)
{
	return do_realpath(path, NULL);
}

/* What calls become with _FORTIFY_SOURCE: these check the size. */
ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room);
ssize_t __readlinkat_chk(int dir, const char *path, char *buf, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

PUBLIC ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room)
{
	if (size > room)
		abort();
	return do_readlink(&readlink_, path, buf, size);
}

PUBLIC ssize_t __readlinkat_chk(int dir, const char *path, char *buf, size_t size,
				size_t room)
{
	if (size > room)
		abort();
	return do_readlinkat(&readlinkat_, dir, path, buf, size);
}

PUBLIC char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	if (room < PATH_MAX)
		abort();
	return do_realpath(path, resolved);
}

/* --- the present directory --------------------------------------------------- */

PUBLIC int chdir(const char *path)
{
	REAL(r, "chdir");
	int (*fn)(const char *);
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(&r);
	do
		rc = fn ? fn(l.path) : -1;
	while (rc && look_on(&l));
	if (!rc && l.path == l.buf)
		keep_for_programs();
	return rc;
}

PUBLIC char *getcwd(char *buf, size_t size)
{
	REAL(r, "getcwd");
	char *(*fn)(char *, size_t);
	char *dir;

	*(void **)&fn = preload_next(&r);
	dir = fn ? fn(buf, size) : NULL;
	if (dir)
		show_as_sys(dir);
	return dir;
}

/* --- attributes that `ls -l' asks for ---------------------------------------- */

static ssize_t do_getxattr(struct real *r, const char *path, const char *name,
			   void *value, size_t size)
{
	ssize_t (*fn)(const char *, const char *, void *, size_t);
	struct look l;
	ssize_t n;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		n = fn ? fn(l.path, name, value, size) : -1;
	while (n < 0 && look_on(&l));
	return n;
}

PUBLIC ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	REAL(r, "getxattr");

	return do_getxattr(&r, path, name, value, size);
}

PUBLIC ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	REAL(r, "lgetxattr");

	return do_getxattr(&r, path, name, value, size);
}

static ssize_t do_listxattr(struct real *r, const char *path, char *list, size_t size)
{
	ssize_t (*fn)(const char *, char *, size_t);
	struct look l;
	ssize_t n;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		n = fn ? fn(l.path, list, size) : -1;
	while (n < 0 && look_on(&l));
	return n;
}

PUBLIC ssize_t listxattr(const char *path, char *list, size_t size)
{
	REAL(r, "listxattr");

	return do_listxattr(&r, path, list, size);
}

PUBLIC ssize_t llistxattr(const char *path, char *list, size_t size)
{
	REAL(r, "llistxattr");

	return do_listxattr(&r, path, list, size);
}
