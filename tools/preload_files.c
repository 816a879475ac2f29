/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_files.c - tells liburnic what a program does to its descriptors while memory
 * becomes a file's beside threads (docs/dev/threads.md): they wait by one that must not
 * be closed, and the kernel must not store by others without waiting.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "preload_told.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- closed ------------------------------------------------------------------ */

/* Must it not be closed? One that is not open now could be liburnic's next; so it is not
 * closed either. (The call cannot be counted, as a thread may be cancelled in it.) */
static bool is_kept(int fd)
{
	const struct preload_ops *o = told();
	int (*fn)(int, int, long);
	int saved = errno;

	*(void **)&fn = libcs(CALLED_fcntl);
	if (!o || !fn || !o->keeps(-1) ||
	    (fd >= 0 && !o->keeps(fd) && fn(fd, F_GETFD, 0) >= 0)) {
		errno = saved;
		return false;
	}
	errno = EBADF;
	return true;
}

/* What liburnic opens meanwhile waits for calls that have begun. */
struct change begin_closing(int fd, bool *kept)
{
	const struct change c = begin_change(0, 0);

	*kept = c.o && c.o->keeps(fd);
	if (*kept)
		errno = EBADF;
	return c;
}

PUBLIC int close(int fd)
{
	int (*fn)(int);

	*(void **)&fn = libcs(CALLED_close);
	return fn && !is_kept(fd) ? fn(fd) : -1;
}

PUBLIC int dup2(int fd, int to)
{
	int (*fn)(int, int), rc = -1;
	struct change c;
	bool kept;

	*(void **)&fn = libcs(CALLED_dup2);
	if (!fn)
		return -1;
	c = begin_closing(to, &kept);
	if (!kept)
		rc = fn(fd, to);
	end_change(c);
	return rc;
}

PUBLIC int hooked_dup3(int fd, int to, int flags) __asm__("dup3");

int hooked_dup3(int fd, int to, int flags)
{
	int (*fn)(int, int, int), rc = -1;
	struct change c;
	bool kept;

	*(void **)&fn = libcs(CALLED_dup3);
	if (!fn)
		return -1;
	c = begin_closing(to, &kept);
	if (!kept)
		rc = fn(fd, to, flags);
	end_change(c);
	return rc;
}

PUBLIC int hooked_close_range(unsigned from, unsigned to,
			      int flags) __asm__("close_range");

int hooked_close_range(unsigned from, unsigned to, int flags)
{
	int (*fn)(unsigned, unsigned, int), rc;
	struct change c;

	*(void **)&fn = libcs(CALLED_close_range);
	if (!fn)
		return -1;
	c = begin_change(0, SIZE_MAX);
	rc = fn(from, to, flags);
	end_change(c);
	return rc;
}

PUBLIC void hooked_closefrom(int from) __asm__("closefrom");

void hooked_closefrom(int from)
{
	struct change c;
	void (*fn)(int);

	*(void **)&fn = libcs(CALLED_closefrom);
	if (!fn)
		return;
	c = begin_change(0, SIZE_MAX);
	fn(from);
	end_change(c);
}

/* --- opened ------------------------------------------------------------------ */

int has_opened(int fd)
{
	const struct preload_ops *o = told();
	int saved = errno;

	if (o && fd >= 0)
		o->opened(fd);
	errno = saved;
	return fd;
}

/* The C library takes mode as a variable argument, which is passed where a named one is
 * on every machine that urnic is built for. */
typedef int open_fn(const char *path, int flags, mode_t mode);
typedef int openat_fn(int dir, const char *path, int flags, mode_t mode);

static int do_open(enum called call, const char *path, int flags, mode_t mode)
{
	open_fn *fn;

	*(void **)&fn = libcs(call);
	return fn ? has_opened(fn(path, flags, mode)) : -1;
}

static int do_openat(enum called call, int dir, const char *path, int flags, mode_t mode)
{
	openat_fn *fn;

	*(void **)&fn = libcs(call);
	return fn ? has_opened(fn(dir, path, flags, mode)) : -1;
}

PUBLIC open_fn hooked_open __asm__("open"), hooked_open64 __asm__("open64");
PUBLIC openat_fn hooked_openat __asm__("openat"), hooked_openat64 __asm__("openat64");

int hooked_open(const char *path, int flags, mode_t mode)
{
	return do_open(CALLED_open, path, flags, mode);
}

int hooked_open64(const char *path, int flags, mode_t mode)
{
	return do_open(CALLED_open64, path, flags, mode);
}

int hooked_openat(int dir, const char *path, int flags, mode_t mode)
{
	return do_openat(CALLED_openat, dir, path, flags, mode);
}

int hooked_openat64(int dir, const char *path, int flags, mode_t mode)
{
	return do_openat(CALLED_openat64, dir, path, flags, mode);
}

/* What a call becomes with _FORTIFY_SOURCE if it has no mode. */
PUBLIC int __open_2(const char *path, int flags);
PUBLIC int __open64_2(const char *path, int flags);
PUBLIC int __openat_2(int dir, const char *path, int flags);
PUBLIC int __openat64_2(int dir, const char *path, int flags);

int __open_2(const char *path, int flags)
{
	return do_open(CALLED___open_2, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return do_open(CALLED___open64_2, path, flags, 0);
}

int __openat_2(int dir, const char *path, int flags)
{
	return do_openat(CALLED___openat_2, dir, path, flags, 0);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return do_openat(CALLED___openat64_2, dir, path, flags, 0);
}

static FILE *do_fopen(enum called call, const char *path, const char *mode)
{
	FILE *(*fn)(const char *, const char *), *f;

	*(void **)&fn = libcs(call);
	f = fn ? fn(path, mode) : NULL;
	if (f)
		(void)has_opened(fileno(f));
	return f;
}

PUBLIC FILE *fopen(const char *restrict path, const char *restrict mode)
{
	return do_fopen(CALLED_fopen, path, mode);
}

PUBLIC FILE *fopen64(const char *restrict path, const char *restrict mode)
{
	return do_fopen(CALLED_fopen64, path, mode);
}

PUBLIC int hooked_socket(int domain, int type, int protocol) __asm__("socket");

int hooked_socket(int domain, int type, int protocol)
{
	int (*fn)(int, int, int);

	*(void **)&fn = libcs(CALLED_socket);
	return fn ? has_opened(fn(domain, type, protocol)) : -1;
}

/* Its third argument, of whatever type, is passed as a word. */
static int do_fcntl(enum called call, int fd, int cmd, long arg)
{
	int (*fn)(int, int, long), rc;

	*(void **)&fn = libcs(call);
	rc = fn ? fn(fd, cmd, arg) : -1;
	if (!rc && cmd == F_SETFL)
		(void)has_opened(fd);
	return rc;
}

PUBLIC int hooked_fcntl(int fd, int cmd, long arg) __asm__("fcntl");
PUBLIC int hooked_fcntl64(int fd, int cmd, long arg) __asm__("fcntl64");

int hooked_fcntl(int fd, int cmd, long arg)
{
	return do_fcntl(CALLED_fcntl, fd, cmd, arg);
}

int hooked_fcntl64(int fd, int cmd, long arg)
{
	return do_fcntl(CALLED_fcntl64, fd, cmd, arg);
}
