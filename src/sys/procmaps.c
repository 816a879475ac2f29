/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.c - reads /proc/thread-self/maps and smaps; see procmaps.h. */
#include "sys/procmaps.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
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
