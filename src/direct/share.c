/* SPDX-License-Identifier: BSD-2-Clause */
/* share.c - see share.h. */
#include "direct/share.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "core/mr.h"
#include "direct/swap.h"
#include "direct/words.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/threads.h"

enum {
	REGIONS = 1024, /* with remote rights, at a time */
	PIECES = 16,	/* of a region */
};

/* A longer region stays as it is: docs/direct.md has what registration takes. */
#define LONGEST (UINT64_C(16) << 20)

struct extent {
	uint64_t lo, hi;
};

static struct {
	struct lock lock;
	struct swap swap;
	bool tried;	      /* to make the file */
	unsigned n, beyond;   /* regions that are known; there is no room for */
	unsigned runs, moved; /* ranges that are the file's; that ever were */
	struct extent region[REGIONS];
	struct swap_run run[SWAP_RUNS];
	struct swap_copy *copy; /* during a fork */
} share = { .swap.fd = -1 };

static struct extent extent_of(const struct mkey *mk)
{
	uint64_t lo = (uintptr_t)mk->host;

	return (struct extent){ lo, lo + mk->length };
}

/* The pages of which nothing else has a part. */
static struct extent pages_of(const struct extent *r)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (struct extent){ (r->lo + page - 1) & ~(page - 1), r->hi & ~(page - 1) };
}

static bool overlap(const struct extent *a, uint64_t lo, uint64_t hi)
{
	return a->lo < hi && lo < a->hi;
}

static bool is_reached(const struct mkey *mk)
{
	return mk->length &&
	       mk->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC);
}

/* --- may it be? ---------------------------------------------------------- */

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

static bool is_private(const struct procmap *m)
{
	return !strcmp(m->perms, "rw-p") && !m->inode &&
	       (!*m->name || !strcmp(m->name, "[heap]") ||
		!strncmp(m->name, "[anon:", 6));
}

/* The stack that this runs on may be the program's own, in the region. */
static bool has_stack(uint64_t lo, uint64_t hi)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), below = 64 << 10;

	return lo <= here && here - lo < hi - lo + below;
}

/* The private memory in the range; 0: there is none. */
static unsigned find_private(const struct extent *in, struct extent piece[PIECES])
{
	struct procmap m;
	struct procmaps maps;
	unsigned n = 0;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		if (n < PIECES && overlap(in, m.lo, m.hi) && is_private(&m))
			piece[n++] = (struct extent){ m.lo > in->lo ? m.lo : in->lo,
						      m.hi < in->hi ? m.hi : in->hi };
	procmaps_close(&maps);
	return n;
}

static bool is_behind_our_back(void)
{
	struct procmap m;
	struct procmaps maps;
	bool behind = false;

	procmaps_open(&maps);
	while (!behind && procmaps_next(&maps, &m))
		behind = is_behind(m.name);
	procmaps_close(&maps);
	return behind;
}

/* Nobody else can touch this process's memory: no thread of the program's, and nothing
 * that has pinned its pages.  Locked pages would not be locked any more. */
static bool is_alone(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long threads = 0, locked = 1, pinned = 1;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Threads: %lu", &threads);
		sscanf(line, "VmLck: %lu", &locked);
		sscanf(line, "VmPin: %lu", &pinned);
	}
	if (f)
		fclose(f);
	return threads == 1 + threads_own() && !locked && !pinned &&
	       !is_behind_our_back();
}

/* Another region of these bytes is reached by others at this moment, perhaps. */
static bool is_known(const struct extent *r)
{
	for (unsigned i = 0; i < share.n; i++)
		if (overlap(&share.region[i], r->lo, r->hi))
			return true;
	return false;
}

/* Memory that is promised strictly may be refused when a page of a file is touched. */
static bool is_strict(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = 2;

	if (f && fscanf(f, "%d", &mode) != 1)
		mode = 2;
	if (f)
		fclose(f);
	return mode == 2;
}

static bool has_file(void)
{
	if (!share.tried) {
		int rc = is_strict() ? -ENOMEM : swap_open(&share.swap);

		share.tried = true;
		if (rc)
			log_info("private memory is not shared with other processes: %s",
				 strerror(-rc));
	}
	return share.swap.fd >= 0;
}

/* --- regions ------------------------------------------------------------- */

/* Pages may move: no signal handler of this thread touches them, nor does our own
 * thread. */
static void hold_still(struct core *core, sigset_t *old) ACQUIRES(core->turn)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, old);
	turn_take(&core->turn);
}

static void go_on(struct core *core, const sigset_t *old) RELEASES(core->turn)
{
	turn_give(&core->turn);
	sigprocmask(SIG_SETMASK, old, NULL);
}

static void swap_region(struct core *core, const struct extent *region)
{
	struct extent r = pages_of(region), piece[PIECES];
	sigset_t old;
	unsigned n;

	if (r.lo >= r.hi || r.hi - r.lo > LONGEST || share.beyond ||
	    share.moved == SWAP_RUNS || is_known(&r) || has_stack(r.lo, r.hi) ||
	    !is_alone() || !has_file())
		return;
	n = find_private(&r, piece);
	hold_still(core, &old);
	for (unsigned i = 0; i < n && share.moved < SWAP_RUNS; i++)
		if (swap_out(&share.swap, piece[i].lo, piece[i].hi,
			     &share.run[share.runs]))
			share.runs++, share.moved++;
	go_on(core, &old);
	if (n)
		log_debug("memory region at %#" PRIx64 ": other processes may map its "
			  "pages",
			  r.lo);
}

/* It is going to be a region, and is not in the export table yet. */
static void added(struct core *core, const struct mkey *mk)
{
	struct extent r = extent_of(mk);

	if (!is_reached(mk))
		return;
	lock_take(&share.lock);
	if (!(mk->access & IBV_ACCESS_ON_DEMAND))
		swap_region(core, &r);
	if (share.n < REGIONS)
		share.region[share.n++] = r;
	else
		share.beyond++;
	lock_give(&share.lock);
}

static void forget(const struct extent *r)
{
	for (unsigned i = 0; i < share.n; i++)
		if (share.region[i].lo == r->lo && share.region[i].hi == r->hi) {
			share.region[i] = share.region[--share.n];
			return;
		}
	if (share.beyond)
		share.beyond--;
}

/* Pages of the range that no region has are private again, where nobody else can touch
 * them. */
static void swap_back(struct core *core, const struct extent *of)
{
	sigset_t old;
	bool alone = false;

	for (unsigned i = share.runs; i-- > 0;) {
		const struct swap_run *run = &share.run[i];

		if (!overlap(of, run->lo, run->hi) || share.beyond ||
		    has_stack(run->lo, run->hi) ||
		    is_known(&(struct extent){ run->lo, run->hi }))
			continue;
		if (!alone && !is_alone())
			return;
		alone = true;
		hold_still(core, &old);
		if (swap_in(&share.swap, run))
			share.run[i] = share.run[--share.runs];
		go_on(core, &old);
	}
	if (!share.runs) {
		swap_close(&share.swap);
		share.tried = false;
	}
}

/* It is no region any more, and nobody is inside. */
static void removed(struct core *core, const struct mkey *mk)
{
	struct extent r = extent_of(mk);

	if (!is_reached(mk))
		return;
	lock_take(&share.lock);
	forget(&r);
	if (share.runs)
		swap_back(core, &r);
	lock_give(&share.lock);
}

/* With one thread the kernel has nothing to wait for; with more it takes some 10 ms,
 * which the first mapping would come later. */
void share_start(struct core *core)
{
	if (is_alone())
		(void)words_register();
	core->mr_added = added;
	core->mr_removed = removed;
}

/* --- fork ---------------------------------------------------------------- */

NO_TSA void share_before_fork(void)
{
	lock_take(&share.lock);
	share.copy = share.runs ? swap_copy(&share.swap) : NULL;
}

NO_TSA void share_parent(void)
{
	swap_parent(share.copy);
	share.copy = NULL;
	lock_give(&share.lock);
}

/* What the child registers it shares anew: its NIC, too, is another. */
NO_TSA void share_child(void)
{
	swap_child(share.copy);
	swap_close(&share.swap);
	share.copy = NULL;
	share.tried = false;
	share.n = share.beyond = share.runs = share.moved = 0;
	threads_forked();
	lock_give(&share.lock);
}
