/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.c - reads /proc/thread-self/maps and smaps; see procmaps.h. */
#include "sys/procmaps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 400 }; /* of a longer line only the beginning is kept */

/* Direct system calls: libc's are cancellation points.  Not /proc/self, which is the
 * process's first thread and may have ended. */
static void open_file(struct procmaps *m, const char *name)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/thread-self/%s", name);
	m->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	m->n = m->at = 0;
}

void procmaps_open(struct procmaps *m)
{
	open_file(m, "maps");
}

void procmaps_open_flags(struct procmaps *m)
{
	open_file(m, "smaps");
}

static bool next_line(struct procmaps *m, char line[LINE])
{
	size_t len = 0;

	for (;;) {
		if (m->at == m->n) {
			m->at = 0;
			m->n = syscall(SYS_read, m->fd, m->buf, sizeof(m->buf));
			if (m->n <= 0) {
				m->n = 0;
				return false;
			}
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

static bool parse_line(const char *line, struct procmap *m)
{
	int name = 0;

	if (sscanf(line, "%63s %4s %" SCNx64 " %x:%x %lu %n", m->range, m->perms,
		   &m->offset, &m->major, &m->minor, &m->inode, &name) != 6 ||
	    sscanf(m->range, "%" SCNx64 "-%" SCNx64, &m->lo, &m->hi) != 2)
		return false;
	snprintf(m->name, sizeof(m->name), "%s", line + name);
	return true;
}

bool procmaps_next(struct procmaps *m, struct procmap *out)
{
	char line[LINE];

	while (m->fd >= 0 && next_line(m, line))
		if (parse_line(line, out))
			return true;
	return false;
}

bool procmaps_flags(struct procmaps *m, char flags[PROCMAP_FLAGS])
{
	static const char head[] = "VmFlags: ";
	char line[LINE];
	unsigned key = 0;

	while (m->fd >= 0 && next_line(m, line)) {
		(void)sscanf(line, "ProtectionKey: %u", &key);
		if (strncmp(line, head, sizeof(head) - 1) != 0)
			continue;
		snprintf(flags, PROCMAP_FLAGS, "%s%.*s", key ? "pk " : "",
			 PROCMAP_FLAGS - 8, line + sizeof(head) - 1);
		return true;
	}
	return false;
}

void procmaps_close(struct procmaps *m)
{
	if (m->fd >= 0)
		syscall(SYS_close, m->fd);
}

/* --- is all of it mapped? --- */

/* The kernel has cheaper calls that fail with ENOMEM where nothing is mapped.  But
 * valgrind takes msync() for a read of bytes that the program has never written, or has
 * not allocated, and madvise() and mlock() change what the program has said of its
 * memory.
 *
 * mincore() takes a time that grows with the range: 1 us for a few pages, 0.2 to 20 us
 * for each MiB, the most where a file has holes.  The list of mappings takes some 25 us,
 * and more in a process that has many. */

enum { FEW = 1024 }; /* pages that mincore() looks at in one call */

/* With other errors than ENOMEM the kernel checks something else. */
static bool pages_are_mapped(uintptr_t from, uintptr_t to, uintptr_t page)
{
	unsigned char in_memory[FEW];

	for (uintptr_t n; from < to; from += n) {
		n = to - from < FEW * page ? to - from : FEW * page;
		if (mincore((void *)from, n, in_memory) && errno == ENOMEM)
			return false;
	}
	return true;
}

/* *known: false if the list cannot be read. */
static bool list_has_all(uintptr_t from, uintptr_t to,
			 bool (*fits)(const struct procmap *m), bool *known)
{
	struct procmaps maps;
	struct procmap m = { 0 };
	bool fit = true;

	procmaps_open(&maps);
	*known = maps.fd >= 0;
	while (fit && from < to && procmaps_next(&maps, &m) && m.lo <= from)
		if (m.hi > from) {
			fit = !fits || fits(&m);
			from = m.hi;
		}
	procmaps_close(&maps);
	return fit && from >= to;
}

bool mapped_all(uintptr_t from, uintptr_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool known, mapped;

	if (to - from <= 2 * page)
		return true;
	if (to - from <= FEW * page)
		return pages_are_mapped(from, to, page);
	mapped = list_has_all(from, to, NULL, &known);
	return known ? mapped : pages_are_mapped(from, to, page);
}

bool mapped_all_so(uintptr_t from, uintptr_t to, bool (*fits)(const struct procmap *m))
{
	bool known;

	return list_has_all(from, to, fits, &known);
}
