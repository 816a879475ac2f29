/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.c - liburnic-preload.so: shows programs files in /dev and /sys that they look
 * for.
 *
 * UCX passes a device over unless /dev/infiniband/<dev_name> is a character
 * device that it may read and write, and takes a GID for RoCE v1, whose GRH
 * looks different, unless /sys/class/infiniband/<device>/ports/1/gid_attrs
 * says otherwise.  Tests ask for the interface below a device (preload_net.c).
 * With this library all these files seem to exist where the kernel has none.  All other
 * calls go to the C library.
 *
 * The symbols have no version, so that they replace every version.  Before the first call
 * nothing runs but the constructor of preload_names.c, so child processes that inherit
 * the library come to no harm.
 */
/* This file defines both stat() and stat64(), so stat() must not be renamed to stat64().
 */
#undef _FILE_OFFSET_BITS

#include "preload.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* On amd64 and arm64, struct stat and struct stat64 are the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "LP64");

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

/* libc's call has failed with errno: is path one that this library makes up?  EFAULT
 * means that path cannot be read. */
static bool stands_in(const char *path)
{
	char name[IF_NAMESIZE];

	return errno != EFAULT && (uverbs(path) >= 0 || is_net_dir(path, name));
}

static void describe(const char *path, struct stat *st)
{
	int n = uverbs(path);

	memset(st, 0, sizeof(*st));
	st->st_mode = n < 0 ? S_IFDIR | 0555 : S_IFCHR | 0666;
	st->st_nlink = n < 0 ? 2 : 1;
	if (n >= 0)
		st->st_rdev = makedev(UVERBS_MAJOR, (unsigned)(UVERBS_MINOR + n));
	st->st_blksize = 4096;
}

static int fill(const char *path, void *buf, int saved)
{
	struct stat st;

	describe(path, &st);
	memcpy(buf, &st, sizeof(st));
	errno = saved;
	return 0;
}

static int do_stat(struct real *r, const char *path, void *buf)
{
	int saved = errno, rc;
	int (*fn)(const char *, void *);

	*(void **)&fn = preload_next(r);
	rc = fn ? fn(path, buf) : -1;
	return rc != 0 && stands_in(path) ? fill(path, buf, saved) : rc;
}

static int do_xstat(struct real *r, int ver, const char *path, void *buf)
{
	int saved = errno, rc;
	int (*fn)(int, const char *, void *);

	*(void **)&fn = preload_next(r);
	rc = fn ? fn(ver, path, buf) : -1;
	return rc != 0 && stands_in(path) ? fill(path, buf, saved) : rc;
}

static int do_fstatat(struct real *r, int dir, const char *path, void *buf, int flags)
{
	int saved = errno, rc;
	int (*fn)(int, const char *, void *, int);

	*(void **)&fn = preload_next(r);
	rc = fn ? fn(dir, path, buf, flags) : -1;
	return rc != 0 && stands_in(path) ? fill(path, buf, saved) : rc;
}

PUBLIC int stat(const char *restrict path, struct stat *restrict buf)
{
	static struct real r = { .name = "stat" };

	return do_stat(&r, path, buf);
}

PUBLIC int stat64(const char *restrict path, struct stat64 *restrict buf)
{
	static struct real r = { .name = "stat64" };

	return do_stat(&r, path, buf);
}

PUBLIC int lstat(const char *restrict path, struct stat *restrict buf)
{
	static struct real r = { .name = "lstat" };

	return do_stat(&r, path, buf);
}

PUBLIC int lstat64(const char *restrict path, struct stat64 *restrict buf)
{
	static struct real r = { .name = "lstat64" };

	return do_stat(&r, path, buf);
}

PUBLIC int fstatat(int dir, const char *restrict path, struct stat *restrict buf,
		   int flags)
{
	static struct real r = { .name = "fstatat" };

	return do_fstatat(&r, dir, path, buf, flags);
}

PUBLIC int fstatat64(int dir, const char *restrict path, struct stat64 *restrict buf,
		     int flags)
{
	static struct real r = { .name = "fstatat64" };

	return do_fstatat(&r, dir, path, buf, flags);
}

PUBLIC int statx(int dir, const char *restrict path, int flags, unsigned mask,
		 struct statx *restrict buf)
{
	static struct real r = { .name = "statx" };
	int (*fn)(int, const char *, int, unsigned, struct statx *);
	int saved = errno, rc;
	struct stat st;

	*(void **)&fn = preload_next(&r);
	rc = fn ? fn(dir, path, flags, mask, buf) : -1;
	if (rc == 0 || !stands_in(path))
		return rc;
	describe(path, &st);
	*buf = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_mode = (uint16_t)st.st_mode,
		.stx_nlink = (uint32_t)st.st_nlink,
		.stx_blksize = 4096,
		.stx_rdev_major = major(st.st_rdev),
		.stx_rdev_minor = minor(st.st_rdev),
	};
	errno = saved;
	return 0;
}

/* The functions behind stat() before glibc 2.33, which no header declares any more. */
int __xstat(int ver, const char *path, struct stat *buf);
int __xstat64(int ver, const char *path, struct stat64 *buf);
int __lxstat(int ver, const char *path, struct stat *buf);
int __lxstat64(int ver, const char *path, struct stat64 *buf);

PUBLIC int __xstat(int ver, const char *path, struct stat *buf)
{
	static struct real r = { .name = "__xstat" };

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __xstat64(int ver, const char *path, struct stat64 *buf)
{
	static struct real r = { .name = "__xstat64" };

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __lxstat(int ver, const char *path, struct stat *buf)
{
	static struct real r = { .name = "__lxstat" };

	return do_xstat(&r, ver, path, buf);
}

PUBLIC int __lxstat64(int ver, const char *path, struct stat64 *buf)
{
	static struct real r = { .name = "__lxstat64" };

	return do_xstat(&r, ver, path, buf);
}

/* Does access() to path succeed?  A device can be read and written, a directory read and
 * searched. */
static bool may(const char *path, int mode)
{
	return stands_in(path) && !(mode & (uverbs(path) < 0 ? W_OK : X_OK));
}

static int do_access(struct real *r, const char *path, int mode)
{
	int saved = errno, rc;
	int (*fn)(const char *, int);

	*(void **)&fn = preload_next(r);
	rc = fn ? fn(path, mode) : -1;
	if (rc == 0 || !may(path, mode))
		return rc;
	errno = saved;
	return 0;
}

PUBLIC int access(const char *path, int mode)
{
	static struct real r = { .name = "access" };

	return do_access(&r, path, mode);
}

PUBLIC int euidaccess(const char *path, int mode)
{
	static struct real r = { .name = "euidaccess" };

	return do_access(&r, path, mode);
}

PUBLIC int eaccess(const char *path, int mode)
{
	static struct real r = { .name = "eaccess" };

	return do_access(&r, path, mode);
}

PUBLIC int faccessat(int dir, const char *path, int mode, int flags)
{
	int saved = errno, rc;
	static struct real r = { .name = "faccessat" };
	int (*fn)(int, const char *, int, int);

	*(void **)&fn = preload_next(&r);
	rc = fn ? fn(dir, path, mode, flags) : -1;
	if (rc == 0 || !may(path, mode))
		return rc;
	errno = saved;
	return 0;
}

/* --- /sys/class/infiniband/DEVICE/ports/1/gid_attrs/{types,ndevs}/N ------ */

enum { GID_V1 = 32 }; /* as core/port.h has it */

static bool is_v1(int index)
{
	const char *link = secure_getenv("URNIC_LINK");

	return index >= GID_V1 && index < 2 * GID_V1 && link && !strcmp(link, "raw");
}

/* Writes the content of a made-up file into buf; false: path is no such file. */
static bool gid_attr(const char *path, char buf[80])
{
	char dev[64], what[8], net[IF_NAMESIZE];
	int index, end = 0;

	if (!path ||
	    sscanf(path,
		   "/sys/class/infiniband/%63[^/]/ports/1/gid_attrs/"
		   "%5[a-z]/%d%n",
		   dev, what, &index, &end) != 3 ||
	    path[end])
		return false;
	if (!strcmp(what, "types"))
		return strcpy(buf, strncmp(dev, "iwarp_", 6) && !is_v1(index)
					   ? "RoCE v2\n"
					   : "IB/RoCE v1\n");
	if (strcmp(what, "ndevs") || !interface_of(dev, net))
		return false;
	return snprintf(buf, 80, "%s\n", net) > 0;
}

static int open_text(const char *text)
{
	int fd = memfd_create("urnic-sysfs", MFD_CLOEXEC);
	size_t len = strlen(text);

	if (fd >= 0 &&
	    (write(fd, text, len) != (ssize_t)len || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int do_open(struct real *r, const char *path, int flags, mode_t mode)
{
	char text[80];
	int (*fn)(const char *, int, ...);
	int fd;

	*(void **)&fn = preload_next(r);
	fd = fn ? fn(path, flags, mode) : -1;
	if (fd >= 0 || errno == EFAULT || (flags & O_ACCMODE) != O_RDONLY ||
	    !gid_attr(path, text))
		return fd;
	return open_text(text);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(ap, mode_t) : 0;
}

PUBLIC int open(const char *path, int flags, ...)
{
	static struct real r = { .name = "open" };
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = do_open(&r, path, flags, mode_of(flags, ap));
	va_end(ap);
	return fd;
}

PUBLIC int open64(const char *path, int flags, ...)
{
	static struct real r = { .name = "open64" };
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = do_open(&r, path, flags, mode_of(flags, ap));
	va_end(ap);
	return fd;
}
