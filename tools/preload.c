/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.c - liburnic-preload.so: shows programs files in /dev and /sys that they look
 * for.
 *
 * UCX passes a device over unless /dev/infiniband/<dev_name> is a character device that
 * it may read and write.  With this library these files seem to exist where the kernel
 * has none, and so do those of /sys/class/infiniband (preload_sysfs.c).  All other calls
 * go to the C library.
 *
 * The symbols have no version, so that they replace every version.  Before the first call
 * nothing runs but three constructors, here, in preload_names.c and preload_sysfs.c, so
 * child processes that inherit the library come to no harm.
 */
/* This file defines both stat() and stat64(), so stat() must not be renamed to stat64().
 */
#undef _FILE_OFFSET_BITS

#include "preload_sysfs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* On amd64 and arm64, struct stat and struct stat64 are the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "LP64");

/* The linker's names for the ends of the section. */
extern struct real __start_reals[], __stop_reals[];

/* Signal handlers and children of fork() may open files, where dlsym() may not be called.
 * It also waits for another thread's dlopen(), whose constructors may wait for a thread
 * that opens a file. */
__attribute__((constructor)) static void begin(void)
{
	int saved = errno;

	for (struct real *r = __start_reals; r < __stop_reals; r++)
		(void)preload_next(r);
	errno = saved;
}

enum { UVERBS_MAJOR = 231, UVERBS_MINOR = 192 };

/* N of /dev/infiniband/uverbsN, or -1. */
static int uverbs(const char *path)
{
	static const char prefix[] = "/dev/infiniband/uverbs";
	int n = 0;

	if (!path || strncmp(path, prefix, sizeof(prefix) - 1) != 0)
		return -1;
	path += sizeof(prefix) - 1;
	if (!*path || strlen(path) > 4)
		return -1;
	for (; *path; path++) {
		if (*path < '0' || *path > '9')
			return -1;
		n = n * 10 + (*path - '0');
	}
	return n;
}

/* libc's call has failed with errno: is path a device that this library makes up?  EFAULT
 * means that path cannot be read. */
static bool stands_in(const char *path)
{
	return errno != EFAULT && uverbs(path) >= 0;
}

static void describe_device(const char *path, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFCHR | 0666;
	st->st_nlink = 1;
	st->st_rdev = makedev(UVERBS_MAJOR, (unsigned)(UVERBS_MINOR + uverbs(path)));
	st->st_blksize = 4096;
}

static int fill_stat(const char *path, void *buf, int saved)
{
	struct stat st;

	describe_device(path, &st);
	memcpy(buf, &st, sizeof(st));
	errno = saved;
	return 0;
}

static int do_stat(struct real *r, const char *path, void *buf)
{
	int (*fn)(const char *, void *);
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		rc = fn ? fn(l.path, buf) : -1;
	while (rc && look_on(&l));
	return rc != 0 && stands_in(path) ? fill_stat(path, buf, l.saved) : rc;
}

static int do_xstat(struct real *r, int ver, const char *path, void *buf)
{
	int (*fn)(int, const char *, void *);
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		rc = fn ? fn(ver, l.path, buf) : -1;
	while (rc && look_on(&l));
	return rc != 0 && stands_in(path) ? fill_stat(path, buf, l.saved) : rc;
}

static int do_fstatat(struct real *r, int dir, const char *path, void *buf, int flags)
{
	int (*fn)(int, const char *, void *, int);
	struct look l;
	int rc;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(r);
	do
		rc = fn ? fn(dir, l.path, buf, flags) : -1;
	while (rc && look_on(&l));
	return rc != 0 && stands_in(path) ? fill_stat(path, buf, l.saved) : rc;
}

PUBLIC int stat(const char *restrict path, struct stat *restrict buf)
{
	REAL(r, "stat");

	return do_stat(&r, path, buf);
}

PUBLIC int stat64(const char *restrict path, struct stat64 *restrict buf)
{
	REAL(r, "stat64");

	return do_stat(&r, path, buf);
}

PUBLIC int lstat(const char *restrict path, struct stat *restrict buf)
{
	REAL(r, "lstat");

	return do_stat(&r, path, buf);
}

PUBLIC int lstat64(const char *restrict path, struct stat64 *restrict buf)
{
	REAL(r, "lstat64");

	return do_stat(&r, path, buf);
}

PUBLIC int fstatat(int dir, const char *restrict path, struct stat *restrict buf,
		   int flags)
{
	REAL(r, "fstatat");

	return do_fstatat(&r, dir, path, buf, flags);
}

PUBLIC int fstatat64(int dir, const char *restrict path, struct stat64 *restrict buf,
		     int flags)
{
	REAL(r, "fstatat64");

	return do_fstatat(&r, dir, path, buf, flags);
}

PUBLIC int statx(int dir, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict buf)
{
	REAL(r, "statx");
	int (*fn)(int, const char *, int, unsigned, struct statx *);
	struct look l;
	struct stat st;
	int rc;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(&r);
	do
		rc = fn ? fn(dir, l.path, flags, mask, buf) : -1;
	while (rc && look_on(&l));
	if (rc == 0 || !stands_in(path))
		return rc;
	describe_device(path, &st);
	*buf = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_mode = (uint16_t)st.st_mode,
		.stx_nlink = (uint32_t)st.st_nlink,
		.stx_blksize = 4096,
		.stx_rdev_major = major(st.st_rdev),
		.stx_rdev_minor = minor(st.st_rdev),
	};
	errno = l.saved;
	return 0;
}

/* The functions behind stat() before glibc 2.33, which no header declares any more. */
int __xstat(int ver, const char *path, struct stat *buf);
int __xstat64(int ver, const char *path, struct stat64 *buf);
int __lxstat(int ver, const char *path, struct stat *buf);
int __lxstat64(int ver, const char *path, struct stat64 *buf);
int __fxstatat(int ver, int dir, const char *path, struct stat *buf, int flags);
int __fxstatat64(int ver, int dir, const char *path, struct stat64 *buf, int flags);

PUBLIC int __xstat(int ver, const char *path, struct stat *buf)
{
	REAL(r, "__xstat");

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __xstat64(int ver, const char *path, struct stat64 *buf)
{
	REAL(r, "__xstat64");

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __lxstat(int ver, const char *path, struct stat *buf)
{
	REAL(r, "__lxstat");

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __lxstat64(int ver, const char *path, struct stat64 *buf)
{
	REAL(r, "__lxstat64");

	return do_xstat(&r, ver, path, buf);
}

static int do_fxstatat(struct real *r, int ver, int dir, const char *path, void *buf,
		       int flags)
{
	int (*fn)(int, int, const char *, void *, int);
	struct look l;
	int rc;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(r);
	do
		rc = fn ? fn(ver, dir, l.path, buf, flags) : -1;
	while (rc && look_on(&l));
	return rc != 0 && stands_in(path) ? fill_stat(path, buf, l.saved) : rc;
}

PUBLIC int __fxstatat(int ver, int dir, const char *path, struct stat *buf, int flags)
{
	REAL(r, "__fxstatat");

	return do_fxstatat(&r, ver, dir, path, buf, flags);
}

PUBLIC int __fxstatat64(int ver, int dir, const char *path, struct stat64 *buf, int flags)
{
	REAL(r, "__fxstatat64");

	return do_fxstatat(&r, ver, dir, path, buf, flags);
}

/* Does access() to path succeed?  A device can be read and written. */
static bool may(const char *path, int mode)
{
	return stands_in(path) && !(mode & X_OK);
}

/* Nobody, root included, can write to what this library shows of /sys. */
static int refuse_write(const struct look *l, int mode)
{
	if (l->path != l->buf || !(mode & W_OK))
		return 0;
	errno = EACCES;
	return -1;
}

static int do_access(struct real *r, const char *path, int mode)
{
	int (*fn)(const char *, int);
	struct look l;
	int rc;

	look_for(&l, AT_FDCWD, path);
	*(void **)&fn = preload_next(r);
	do
		rc = fn ? fn(l.path, mode) : -1;
	while (rc && look_on(&l));
	if (rc == 0 || !may(path, mode))
		return rc ? rc : refuse_write(&l, mode);
	errno = l.saved;
	return 0;
}

PUBLIC int access(const char *path, int mode)
{
	REAL(r, "access");

	return do_access(&r, path, mode);
}

PUBLIC int euidaccess(const char *path, int mode)
{
	REAL(r, "euidaccess");

	return do_access(&r, path, mode);
}

PUBLIC int eaccess(const char *path, int mode)
{
	REAL(r, "eaccess");

	return do_access(&r, path, mode);
}

PUBLIC int faccessat(int dir, const char *path, int mode, int flags)
{
	REAL(r, "faccessat");
	int (*fn)(int, const char *, int, int);
	struct look l;
	int rc;

	look_for(&l, dir, path);
	*(void **)&fn = preload_next(&r);
	do
		rc = fn ? fn(dir, l.path, mode, flags) : -1;
	while (rc && look_on(&l));
	if (rc == 0 || !may(path, mode))
		return rc ? rc : refuse_write(&l, mode);
	errno = l.saved;
	return 0;
}
