/* SPDX-License-Identifier: BSD-2-Clause */
/* pinned.c - writes to write-protected memory; see pinned.h.
 *
 * /proc/thread-self/mem writes to private memory as a debugger does, whatever its
 * protection.  It is used for anonymous memory only: a private mapping of a file could be
 * a library's code, which was mapped where registered memory had been.  Shared memory is
 * written through a second mapping, which the kernel allows to be writable if the file
 * was opened for writing. */
#include "sys/pinned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/guard.h"
#include "sys/procmaps.h"

/* Bytes at the end of a copy that are written by a call of their own, so that they come
 * last (pinned.h). */
enum { LAST = 64 };

/* Direct system calls: libc's are cancellation points. */
static int open_proc(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

static void close_proc(int fd)
{
	syscall(SYS_close, fd);
}

/* The next mapping that ends behind at. */
static bool next_mapping(struct procmaps *m, uint64_t at, struct procmap *out)
{
	while (procmaps_next(m, out))
		if (out->hi > at)
			return true;
	return false;
}

/* Excludes "[vvar]", "[vdso]" and "[vsyscall]". */
static bool is_anonymous(const struct procmap *m)
{
	return m->inode == 0 && strncmp(m->name, "[v", 2) != 0;
}

/* --- writing ------------------------------------------------------------- */

static bool write_all(int mem, uintptr_t dst, const uint8_t *src, size_t n)
{
	return n == 0 || syscall(SYS_pwrite64, mem, src, n, dst) == (ssize_t)n;
}

static int write_private(uintptr_t dst, const uint8_t *src, size_t n)
{
	int mem = open_proc("/proc/thread-self/mem", O_RDWR);
	size_t body = n > LAST ? n - LAST : 0;
	bool did;

	if (mem < 0)
		return -EFAULT;
	did = write_all(mem, dst, src, body) &&
	      write_all(mem, dst + body, src + body, n - body);
	close_proc(mem);
	return did ? 0 : -EFAULT;
}

/* mremap() from length 0 makes another mapping of shared pages. */
static int write_shared(uintptr_t dst, const uint8_t *src, size_t n)
{
	size_t off = dst % (uintptr_t)sysconf(_SC_PAGESIZE), len = off + n;
	uint8_t *alias;
	int rc = -EFAULT;

	alias = mremap((void *)(dst - off), 0, len, MREMAP_MAYMOVE);
	if (alias == MAP_FAILED)
		return rc;
	if (mprotect(alias, len, PROT_READ | PROT_WRITE) == 0)
		rc = guard_copy(alias + off, src, n);
	munmap(alias, len);
	return rc;
}

static int write_mapping(const struct procmap *m, uintptr_t dst, const uint8_t *src,
			 size_t n)
{
	if (m->perms[1] == 'w')
		return guard_copy((void *)dst, src, n);
	if (m->perms[0] != 'r')
		return -EFAULT;
	if (m->perms[3] == 's')
		return write_shared(dst, src, n);
	return is_anonymous(m) ? write_private(dst, src, n) : -EFAULT;
}

int pinned_write(void *dst, const void *src, size_t n)
{
	uintptr_t at = (uintptr_t)dst;
	const uint8_t *from = src;
	struct procmaps maps;
	struct procmap m;
	int rc = 0;

	procmaps_open(&maps);
	while (n > 0 && rc == 0 && next_mapping(&maps, at, &m)) {
		size_t len;

		if (m.lo > at)
			break;
		len = m.hi - at < n ? m.hi - at : n;
		rc = write_mapping(&m, at, from, len);
		at += len;
		from += len;
		n -= len;
	}
	procmaps_close(&maps);
	return n > 0 ? -EFAULT : rc;
}
