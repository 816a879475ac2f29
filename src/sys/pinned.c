/* SPDX-License-Identifier: BSD-2-Clause */
/* pinned.c - see pinned.h.
 *
 * /proc/self/mem writes to private memory as a debugger does, whatever its
 * protection.  Of that only what is anonymous is written to: a file's pages
 * could be a library's code, which lies where registered memory was before.
 * Shared memory gets a second mapping, which the kernel lets be writable if the
 * first could be made so.
 */
#include "sys/pinned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/guard.h"

enum { LAST = 64, LINE = 128 };

struct mapping {
	uintptr_t at, end;
	char perms[5];
	bool anonymous;
};

/* System calls themselves: no thread may be cancelled in here. */
static int open_proc(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC);
}

static void close_proc(int fd)
{
	syscall(SYS_close, fd);
}

/* --- mappings ------------------------------------------------------------ */

/* Mappings in ascending order, from /proc/self/maps. */
struct maps {
	int fd;
	ssize_t n, at;
	char buf[4096];
};

/* One line, of which only the beginning counts.  False: there is none. */
static bool next_line(struct maps *m, char line[LINE])
{
	size_t len = 0;

	for (;;) {
		if (m->at == m->n) {
			m->at = 0;
			m->n = syscall(SYS_read, m->fd, m->buf, sizeof(m->buf));
			if (m->n <= 0)
				return false;
		}
		if (m->buf[m->at] == '\n')
			break;
		if (len < LINE - 1)
			line[len++] = m->buf[m->at];
		m->at++;
	}
	m->at++;
	line[len] = '\0';
	return true;
}

/* The next one that ends behind at.  "[v": vvar, vdso, vsyscall. */
static bool next_mapping(struct maps *m, uintptr_t at, struct mapping *out)
{
	char line[LINE], *rest;
	unsigned long inode;
	int name = 0;

	do {
		if (!next_line(m, line))
			return false;
		out->at = strtoul(line, &rest, 16);
		out->end = strtoul(rest + (*rest == '-'), &rest, 16);
	} while (out->end <= at);
	if (sscanf(rest, "%4s %*x %*x:%*x %lu %n", out->perms, &inode, &name) != 2)
		return false;
	rest += name;
	out->anonymous = inode == 0 && !(rest[0] == '[' && rest[1] == 'v');
	return true;
}

/* --- writing ------------------------------------------------------------- */

static bool put(int mem, uintptr_t dst, const uint8_t *src, size_t n)
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
	did = put(mem, dst, src, body) && put(mem, dst + body, src + body, n - body);
	close_proc(mem);
	return did ? 0 : -EFAULT;
}

/* A length of 0 makes another mapping of shared pages. */
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

static int write_mapping(const struct mapping *m, uintptr_t dst, const uint8_t *src,
			 size_t n)
{
	if (m->perms[1] == 'w')
		return guard_copy((void *)dst, src, n);
	if (m->perms[0] != 'r')
		return -EFAULT;
	if (m->perms[3] == 's')
		return write_shared(dst, src, n);
	return m->anonymous ? write_private(dst, src, n) : -EFAULT;
}

int pinned_write(void *dst, const void *src, size_t n)
{
	struct maps m = { .fd = open_proc("/proc/thread-self/maps", O_RDONLY) };
	uintptr_t at = (uintptr_t)dst;
	const uint8_t *from = src;
	struct mapping map;
	int rc = 0;

	if (m.fd < 0)
		return -EFAULT;
	while (n > 0 && rc == 0 && next_mapping(&m, at, &map)) {
		size_t len;

		if (map.at > at)
			break;
		len = map.end - at < n ? map.end - at : n;
		rc = write_mapping(&map, at, from, len);
		at += len;
		from += len;
		n -= len;
	}
	close_proc(m.fd);
	return n > 0 ? -EFAULT : rc;
}
