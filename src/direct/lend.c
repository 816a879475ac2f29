/* SPDX-License-Identifier: BSD-2-Clause */
/* lend.c - lends memory of ours that is shared file memory, for another process to
 * map. /proc/self/maps tells the file. The program may have closed its descriptor, so
 * one is looked for by the file's name among the program's descriptors, and among
 * /proc/self/map_files (which only the privileged may open).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "direct/direct.h"
#include "direct/runs.h"
#include "direct/words.h"
#include "sys/procmaps.h"
#include "verbs/core.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"

/* Does m follow `by` without a gap, in memory and in the same file?
 */
static bool continues(const struct procmap *m, const struct procmap *by)
{
	return m->inode && m->inode == by->inode && m->major == by->major &&
	       m->minor == by->minor && m->hi == by->lo &&
	       by->offset - m->offset == m->hi - m->lo;
}

/* Returns how many bytes of [lo, hi) the run has. */
static uint64_t part_of(const struct procmap *run, uint64_t lo, uint64_t hi)
{
	const uint64_t from = run->lo > lo ? run->lo : lo,
		       to = run->hi < hi ? run->hi : hi;

	return run->inode && from < to ? to - from : 0;
}

/* Finds the run of mappings of one shared file that has the largest part of [lo, hi). */
static bool find_run(uint64_t lo, uint64_t hi, struct procmap *run)
{
	struct procmap m, next = { 0 };
	struct procmaps maps;

	*run = next;
	procmaps_open(&maps);
	while (procmaps_next(&maps, &m) && m.lo < hi) {
		if (m.perms[3] != 's')
			m.inode = 0;
		if (continues(&next, &m))
			next.hi = m.hi;
		else
			next = m;
		if (part_of(&next, lo, hi) > part_of(run, lo, hi))
			*run = next;
	}
	procmaps_close(&maps);
	return part_of(run, lo, hi);
}

static bool leads_there(int fd, const struct procmap *run)
{
	struct stat st;

	/* fd may be any descriptor of the program, which may close it meanwhile. */
	return !fstatat(fd, "", &st, AT_EMPTY_PATH) && S_ISREG(st.st_mode) &&
	       st.st_ino == run->inode && major(st.st_dev) == run->major &&
	       minor(st.st_dev) == run->minor;
}

/* Opens path; -1 if it is not the run's file. */
static int open_there(const char *path, int flags, const struct procmap *run)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || leads_there(fd, run))
		return fd;
	close(fd);
	return -1;
}

static int by_descriptor(int flags, const struct procmap *run)
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

static int open_file(int flags, const struct procmap *run)
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

/* Whoever has a descriptor may open the file again for writing (/proc/self/fd), whatever
 * the descriptor is open for. Does that give no right that its holder would lack? Not if
 * the file takes no stores, or can be opened by its name. */
static bool is_narrow(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return (seals >= 0 && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) ||
	       (!fstat(fd, &st) && st.st_nlink > 0);
}

/* Records the file as lent. Either a thread that takes the region away sees that it is
 * lent, or this thread sees that the region has gone. */
static bool note(struct reach *r, uint32_t key, uint32_t version, int fd, bool writing)
{
	struct mkey *mk = mkey_find(&r->d->core->mkeys, key);
	struct exported_mr mr;
	struct fd_id id;

	if (!mk || fd_identify(fd, &id) || !runs_lend(&id, writing) ||
	    (!writing && !is_narrow(fd)))
		return false;
	mk->lent_more |= mk->lent.ino && !fd_same(&mk->lent, &id);
	mk->lent = id;
	gate_is_lent(r, key);
	r->lent = true;
	unseen_exports(&r->gate.unseen, r->exports);
	atomic_store(&r->d->lent, true);
	atomic_thread_fence(memory_order_seq_cst);
	return exports_get_mr(r->d->core->exports, key, &mr) && mr.key == key &&
	       mr.version == version;
}

/* An on-demand region follows the program's mappings, which may change, so it is not
 * lent. */
int reach_lend(struct reach *r, uint32_t key, struct lent *out)
{
	const unsigned write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		       any = write | IBV_ACCESS_REMOTE_READ;
	struct core *core = r->d->core;
	struct exported_mr mr;
	struct procmap run;
	uint64_t lo, hi;
	bool writing;
	int fd;

	/* Nobody may trace a process that is not dumpable. */
	if (prctl(PR_GET_DUMPABLE) != 1)
		return -1;
	if (!core->exports || !r->exports || !r->told || !words_usable() ||
	    !exports_get_mr(core->exports, key, &mr) || mr.key != key || !mr.length ||
	    mr.access & IBV_ACCESS_ON_DEMAND || !(mr.access & any) ||
	    !find_run(mr.host, mr.host + mr.length, &run))
		return -1;
	lo = mr.host > run.lo ? mr.host : run.lo;
	hi = mr.host + mr.length;
	*out = (struct lent){
		.key = key,
		.version = mr.version,
		.lo = lo,
		.hi = hi < run.hi ? hi : run.hi,
		.offset = run.offset + (lo - run.lo),
	};
	writing = mr.access & write;
	fd = open_file(writing ? O_RDWR : O_RDONLY, &run);
	if (fd >= 0 && !note(r, key, mr.version, fd, writing)) {
		close(fd);
		return -1;
	}
	return fd;
}
