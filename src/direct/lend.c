/* SPDX-License-Identifier: BSD-2-Clause */
/* lend.c - memory of ours that is a file's, shared, for another process to map.
 *
 * Which file it is, /proc/self/maps says.  The program may have closed its
 * descriptor, so one is looked for: among those that it has, by the file's name, and
 * among those of mappings (which the kernel opens to the privileged only).
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/board.h"
#include "core/core.h"
#include "direct/direct.h"
#include "direct/words.h"

/* Mappings without a gap, in memory or in their file. */
struct run {
	uint64_t lo, hi, offset;
	unsigned major, minor;
	unsigned long inode; /* 0: none, or not shared */
	char name[256];	     /* of the first one's file */
	char range[64];	     /* ... and its addresses, as the kernel writes them */
};

static bool parse(const char *line, struct run *m)
{
	char perms[5];
	int name = 0;

	if (sscanf(line, "%63s %4s %" SCNx64 " %x:%x %lu %n", m->range, perms, &m->offset,
		   &m->major, &m->minor, &m->inode, &name) != 6 ||
	    sscanf(m->range, "%" SCNx64 "-%" SCNx64, &m->lo, &m->hi) != 2)
		return false;
	if (perms[3] != 's')
		m->inode = 0;
	snprintf(m->name, sizeof(m->name), "%.*s", (int)strcspn(line + name, "\n"),
		 line + name);
	return true;
}

static bool continues(const struct run *m, const struct run *by)
{
	return m->inode && m->inode == by->inode && m->major == by->major &&
	       m->minor == by->minor && m->hi == by->lo &&
	       by->offset - m->offset == m->hi - m->lo;
}

/* The run that holds addr. */
static bool find_run(uint64_t addr, struct run *run)
{
	FILE *f = fopen("/proc/self/maps", "re");
	struct run m;
	size_t size = 0;
	char *line = NULL;

	*run = (struct run){ 0 };
	while (f && getline(&line, &size, f) > 0) {
		if (!parse(line, &m))
			continue;
		if (continues(run, &m))
			run->hi = m.hi;
		else if (addr >= run->lo && addr < run->hi)
			break;
		else
			*run = m;
	}
	free(line);
	if (f)
		fclose(f);
	return run->inode && addr >= run->lo && addr < run->hi;
}

static bool leads_there(int fd, const struct run *run)
{
	struct stat st;

	/* Any descriptor of the program, which may be closed meanwhile. */
	return !fstatat(fd, "", &st, AT_EMPTY_PATH) && S_ISREG(st.st_mode) &&
	       st.st_ino == run->inode && major(st.st_dev) == run->major &&
	       minor(st.st_dev) == run->minor;
}

/* -1, or one that leads there. */
static int open_there(const char *path, int flags, const struct run *run)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || leads_there(fd, run))
		return fd;
	close(fd);
	return -1;
}

static int by_descriptor(int flags, const struct run *run)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	char path[64];
	int fd = -1;

	while (d && fd < 0 && (e = readdir(d))) {
		if (!leads_there(atoi(e->d_name), run))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", atoi(e->d_name));
		fd = open_there(path, flags, run);
	}
	if (d)
		closedir(d);
	return fd;
}

static int open_file(int flags, const struct run *run)
{
	char path[96];
	int fd = by_descriptor(flags, run);

	if (fd < 0 && run->name[0] == '/')
		fd = open_there(run->name, flags, run);
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/self/map_files/%s", run->range);
		fd = open_there(path, flags, run);
	}
	return fd;
}

/* Who takes the region away sees that it is lent, or we that it has gone. */
static bool note(struct reach *r, uint32_t key, uint32_t version)
{
	struct board_mr mr;

	r->lent = true;
	atomic_store(&r->d->lent, true);
	atomic_thread_fence(memory_order_seq_cst);
	return board_get_mr(r->d->core->board, key, &mr) && mr.key == key &&
	       mr.version == version;
}

/* An on-demand region is where the program's mapping is, which may change. */
int reach_lend(struct reach *r, uint32_t key, struct lent *out)
{
	const unsigned write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct core *core = r->d->core;
	struct board_mr mr;
	struct run run;
	int fd;

	if (!core->board || !r->board || !r->told || !words_usable() ||
	    !board_get_mr(core->board, key, &mr) || mr.key != key || !mr.length ||
	    mr.access & IBV_ACCESS_ON_DEMAND || !find_run(mr.host, &run))
		return -1;
	*out = (struct lent){
		.key = key,
		.version = mr.version,
		.lo = mr.host,
		.hi = mr.length < run.hi - mr.host ? mr.host + mr.length : run.hi,
		.offset = run.offset + (mr.host - run.lo),
	};
	fd = open_file(mr.access & write ? O_RDWR : O_RDONLY, &run);
	if (fd >= 0 && !note(r, key, mr.version)) {
		close(fd);
		return -1;
	}
	return fd;
}
