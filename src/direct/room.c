/* SPDX-License-Identifier: BSD-2-Clause */
/* room.c - see room.h. */
#include "direct/room.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT = 8192 };

/* Memory left for other processes. */
#define SPARE (UINT64_C(64) << 20)

static bool read_text(const char *path, char text[TEXT])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n >= 0;
}

/* Returns the number after a name in text; `none` if the name is absent. */
static uint64_t field_number(const char *text, const char *name, uint64_t none)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : none;
}

static bool has_address_space(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	return at != MAP_FAILED && !munmap(at, bytes);
}

static bool is_in_machine(uint64_t bytes)
{
	char text[TEXT];

	return !read_text("/proc/meminfo", text) ||
	       field_number(text, "MemAvailable:", UINT64_MAX >> 10) << 10 >=
		       bytes + SPARE;
}

/* --- control groups ------------------------------------------------------- */

/* File names of a version of control groups. */
struct names {
	const char *below, *limit, *usage, *cache;
};

static const struct names v1 = { "/memory", "memory.limit_in_bytes",
				 "memory.usage_in_bytes", "\ntotal_inactive_file " },
			  v2 = { "", "memory.max", "memory.current", "\ninactive_file " };

static bool read_of(const char *group, const char *name, char text[TEXT])
{
	char path[PATH_MAX + 64];

	return snprintf(path, sizeof(path), "%s/%s", group, name) < (int)sizeof(path) &&
	       read_text(path, text);
}

/* Has the group room for `bytes`? Inactive file cache counts as free, because it goes
 * when memory is short. */
static bool is_in_group(const char *group, const struct names *v, uint64_t bytes)
{
	uint64_t limit, used, cache;
	char text[TEXT];

	if (!read_of(group, v->limit, text) || !strncmp(text, "max", 3))
		return true;
	limit = strtoull(text, NULL, 10);
	if (!read_of(group, v->usage, text))
		return false;
	used = strtoull(text, NULL, 10);
	cache = read_of(group, "memory.stat", text) ? field_number(text, v->cache, 0) : 0;
	used -= cache < used ? cache : used;
	return used <= limit && limit - used >= bytes && limit - used - bytes >= SPARE;
}

/* Checks the group of that path and all groups above it. */
static bool is_in_groups(const char *root, const struct names *v, char *path,
			 uint64_t bytes)
{
	char group[PATH_MAX];
	char *end;

	for (;;) {
		if (snprintf(group, sizeof(group), "%s%s%s", root, v->below, path) >=
		    (int)sizeof(group))
			return false;
		if (!is_in_group(group, v, bytes))
			return false;
		end = strrchr(path, '/');
		if (!end)
			return true;
		*end = '\0';
	}
}

/* Lines are like "4:cpu,memory:/some/group" or "0::/some/group". */
bool room_in_groups(const char *list, const char *root, uint64_t bytes)
{
	char text[TEXT], *next;

	if (!read_text(list, text))
		return true;
	for (char *line = text; line; line = next) {
		char *kinds = strchr(line, ':'), *path;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		path = kinds ? strchr(kinds + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		if (!kinds[1] ? !is_in_groups(root, &v2, path, bytes)
			      : strstr(kinds, "memory") &&
					!is_in_groups(root, &v1, path, bytes))
			return false;
	}
	return true;
}

bool room_for(uint64_t bytes)
{
	return has_address_space(bytes) && is_in_machine(bytes) &&
	       room_in_groups("/proc/self/cgroup", "/sys/fs/cgroup", bytes);
}
