/* SPDX-License-Identifier: BSD-2-Clause */
/* movable.c - see movable.h. */
#include "direct/movable.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/procmaps.h"
#include "sys/threads.h"

/* --- who else could touch it ---------------------------------------------- */

/* It says that the kernel, or a device, writes to memory of this process behind its back.
 */
static bool is_behind(const char *name)
{
	static const char *const by[] = {
		"anon_inode:[io_uring]",
		"/[aio]",
		"/dev/nvidia",
		"/dev/kfd",
		"/dev/vfio",
		"/dev/infiniband",
		"anon_inode:[vfio",
		"[uprobes]",
	};

	for (size_t i = 0; i < sizeof(by) / sizeof(*by); i++)
		if (!strncmp(name, by[i], strlen(by[i])))
			return true;
	return false;
}

static bool is_behind_our_back(void)
{
	struct procmap m;
	struct procmaps maps;
	bool behind;

	procmaps_open(&maps);
	behind = maps.fd < 0;
	while (!behind && procmaps_next(&maps, &m))
		behind = is_behind(m.name);
	procmaps_close(&maps);
	return behind;
}

bool movable_now(unsigned *resident)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long threads = 0, locked = 1, pinned = 1, kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Threads: %lu", &threads);
		sscanf(line, "VmLck: %lu", &locked);
		sscanf(line, "VmPin: %lu", &pinned);
		sscanf(line, "VmRSS: %lu", &kib);
	}
	if (f)
		fclose(f);
	*resident = (unsigned)(kib >> 10);
	return threads == 1 + threads_own() && !locked && !pinned &&
	       !is_behind_our_back();
}

bool movable_extent(const struct extent *e)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), below = 64 << 10;

	return here < e->lo || here - e->lo >= e->hi - e->lo + below;
}

/* --- what is said of it --------------------------------------------------- */

static bool is_private(const struct procmap *m)
{
	return !strcmp(m->perms, "rw-p") && !m->inode &&
	       (!*m->name || !strcmp(m->name, "[heap]") ||
		!strncmp(m->name, "[anon:", 6));
}

/* Advice about huge pages is lost, and that memory is not promised. */
static bool is_plain(struct procmaps *maps)
{
	static const char plain[] = "rd wr mr mw me ac sd nr hg nh ";
	char flags[PROCMAP_FLAGS], word[4] = "";

	if (!procmaps_flags(maps, flags))
		return false;
	for (const char *at = flags; strlen(at) >= 3; at += 3) {
		memcpy(word, at, 3);
		if (!strstr(plain, word))
			return false;
	}
	return true;
}

/* Pages of a file would come from anywhere. */
static bool has_policy(uint64_t at)
{
	int mode = MPOL_DEFAULT;

	return !syscall(SYS_get_mempolicy, &mode, NULL, 0, at, MPOL_F_ADDR) &&
	       mode != MPOL_DEFAULT;
}

unsigned movable_find(const struct extent *in, struct extent *piece, unsigned max)
{
	struct procmaps maps;
	struct procmap m;
	unsigned n = 0;

	procmaps_open_flags(&maps);
	while (n < max && procmaps_next(&maps, &m) && m.lo < in->hi)
		if (extents_meet(in, &(struct extent){ m.lo, m.hi }) && is_private(&m) &&
		    is_plain(&maps) && !has_policy(m.lo))
			piece[n++] = (struct extent){ m.lo > in->lo ? m.lo : in->lo,
						      m.hi < in->hi ? m.hi : in->hi };
	procmaps_close(&maps);
	return n;
}

bool movable_strictly(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = 2;

	if (f && fscanf(f, "%d", &mode) != 1)
		mode = 2;
	if (f)
		fclose(f);
	return mode == 2;
}
