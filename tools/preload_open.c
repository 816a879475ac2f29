/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_open.c - the functions that open a file, for preload_sysfs.h. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "preload_sysfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The files of the tree cannot be written, as most of /sys cannot. */
static bool writes(int flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
}

/* Is the path of l in the tree?  Then it is not for a caller who wants to write. */
static bool is_refused(const struct look *l, int flags)
{
	if (l->path != l->buf || !writes(flags))
		return false;
	if (!syscall(SYS_faccessat, AT_FDCWD, l->path, F_OK))
		errno = EACCES;
	return true;
}

/* read() of this descriptor says EINVAL. */
static int open_unused(const struct look *l, int flags)
{
	if (errno != ENOENT || l->path != l->buf || writes(flags) ||
	    !is_unused_entry(l->buf))
		return -1;
	errno = l->saved;
	return epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
}

static int do_open(struct real *r, const char *path, int flags, mode_t mode)
{
	int (*fn)(const char *, int, ...);
	struct look l;
	int fd;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		fd = fn && !is_refused(&l, flags) ? fn(l.path, flags, mode) : -1;
	while (fd < 0 && look_on(&l));
	return fd < 0 ? open_unused(&l, flags) : fd;
}

static int do_openat(struct real *r, int dir, const char *path, int flags, mode_t mode)
{
	int (*fn)(int, const char *, int, ...);
	struct look l;
	int fd;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(r);
	do
		fd = fn && !is_refused(&l, flags) ? fn(dir, l.path, flags, mode) : -1;
	while (fd < 0 && look_on(&l));
	return fd < 0 ? open_unused(&l, flags) : fd;
}

/* The C library takes mode as a variable argument, which is passed where a named one is
 * on every machine that urnic is built for; it is read only if flags ask for it. */
PUBLIC int open_file(const char *path, int flags, mode_t mode) __asm__("open");
PUBLIC int open64_file(const char *path, int flags, mode_t mode) __asm__("open64");
PUBLIC int openat_file(int dir, const char *path, int flags,
		       mode_t mode) __asm__("openat");
PUBLIC int openat64_file(int dir, const char *path, int flags,
			 mode_t mode) __asm__("openat64");

int open_file(const char *path, int flags, mode_t mode)
{
	REAL(r, "open");

	return do_open(&r, path, flags, mode);
}

int open64_file(const char *path, int flags, mode_t mode)
{
	REAL(r, "open64");

	return do_open(&r, path, flags, mode);
}

int openat_file(int dir, const char *path, int flags, mode_t mode)
{
	REAL(r, "openat");

	return do_openat(&r, dir, path, flags, mode);
}

int openat64_file(int dir, const char *path, int flags, mode_t mode)
{
	REAL(r, "openat64");

	return do_openat(&r, dir, path, flags, mode);
}

/* What a call becomes with _FORTIFY_SOURCE if it has no mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

PUBLIC int __open_2(const char *path, int flags)
{
	REAL(r, "__open_2");

	return do_open(&r, path, flags, 0);
}

PUBLIC int __open64_2(const char *path, int flags)
{
	REAL(r, "__open64_2");

	return do_open(&r, path, flags, 0);
}

PUBLIC int __openat_2(int dir, const char *path, int flags)
{
	REAL(r, "__openat_2");

	return do_openat(&r, dir, path, flags, 0);
}

PUBLIC int __openat64_2(int dir, const char *path, int flags)
{
	REAL(r, "__openat64_2");

	return do_openat(&r, dir, path, flags, 0);
}

/* --- streams ----------------------------------------------------------------- */

static int flags_of(const char *mode)
{
	for (; *mode && *mode != ','; mode++)
		if (*mode == 'w' || *mode == 'a' || *mode == '+')
			return O_RDWR;
	return O_RDONLY;
}

static FILE *do_fopen(struct real *r, const char *path, const char *mode)
{
	FILE *(*fn)(const char *, const char *);
	struct look l;
	FILE *f;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		f = fn && !is_refused(&l, flags_of(mode)) ? fn(l.path, mode) : NULL;
	while (!f && look_on(&l));
	return f;
}

PUBLIC FILE *fopen(const char *restrict path, const char *restrict mode)
{
	REAL(r, "fopen");

	return do_fopen(&r, path, mode);
}

PUBLIC FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	REAL(r, "fopen64");

	return do_fopen(&r, path, mode);
}

/* freopen() closes the stream even where it cannot open the file, so the file is looked
 * for before. */
static FILE *do_freopen(struct real *r, const char *path, const char *mode, FILE *stream)
{
	FILE *(*fn)(const char *, const char *, FILE *);
	struct look l;

	look_for(&l, AT_FDCWD, path);
	if (flags_of(mode) == O_RDONLY)
		look_until_there(&l);
	*(void **)&fn = preload_next(r);
	return fn ? fn(l.path, mode, stream) : NULL;
}

PUBLIC FILE *freopen(const char *restrict path, const char *restrict mode,
		     FILE *restrict stream)
{
	REAL(r, "freopen");

	return do_freopen(&r, path, mode, stream);
}

PUBLIC FILE *freopen64(const char *restrict path, const char *restrict mode,
		       FILE *restrict stream)
{
	REAL(r, "freopen64");

	return do_freopen(&r, path, mode, stream);
}
