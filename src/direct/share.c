/* SPDX-License-Identifier: BSD-2-Clause */
/* share.c - see share.h. */
#include "direct/share.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/core.h"
#include "core/exports.h"
#include "core/mkey.h"
#include "core/mr.h"
#include "direct/direct.h"
#include "direct/movable.h"
#include "direct/swap.h"
#include "direct/words.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/procmaps.h"
#include "sys/threads.h"

enum {
	REGIONS = 1024, /* with remote rights, at a time */
	RUNS = 64,	/* a descriptor each */
	MOVED = 1024,	/* in a process's life */
	PIECES = 16,	/* of a region */
	/* The MiB that a process has in memory, each time that it is looked through. */
	LOOKED_MIB = 20 << 10,
};

/* A longer region stays as it is: docs/direct.md has what registration takes, and a fork
 * copies all of them. */
#define LONGEST (UINT64_C(16) << 20)
#define MOST	(UINT64_C(256) << 20)

static struct {
	struct lock lock, forking; /* this one comes before all others */
	bool refused;		   /* the kernel gives no files */
	unsigned n, beyond;	   /* regions that are known; there is no room for */
	unsigned runs;		   /* ranges that are a file's */
	unsigned moved, looked;
	uint64_t bytes; /* of all runs */
	struct extent region[REGIONS];
	struct swap_run run[RUNS];
	uint32_t key[REGIONS]; /* during share_take_back() */
} share;

static struct extent extent_of(const struct mkey *mk)
{
	uint64_t lo = (uintptr_t)mk->host;

	return (struct extent){ lo, lo + mk->length };
}

static struct extent extent_of_run(const struct swap_run *run)
{
	return (struct extent){ run->lo, run->hi };
}

/* The pages of which nothing else has a part. */
static struct extent pages_of(const struct extent *r)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (struct extent){ (r->lo + page - 1) & ~(page - 1), r->hi & ~(page - 1) };
}

static bool is_reached(const struct mkey *mk)
{
	return mk->length &&
	       mk->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC);
}

/* Another region of these bytes is reached by others at this moment, perhaps. */
static bool is_known(const struct extent *r)
{
	for (unsigned i = 0; i < share.n; i++)
		if (extents_meet(&share.region[i], r))
			return true;
	return false;
}

/* Our own NIC is not in it, where our own thread works without the turn, too: a program
 * may register all of its heap. */
static bool is_the_programs(const struct core *core, const struct extent *e)
{
	const struct extent nic = { (uintptr_t)core, (uintptr_t)(core + 1) };

	return !extents_meet(e, &nic) && movable_extent(e);
}

/* Nobody but this thread touches memory. */
static bool is_alone(void)
{
	unsigned resident;
	bool now = movable_now(&resident);

	if (now)
		share.looked += resident;
	return now;
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

/* A descriptor each, of those that the program may have. */
static bool has_room(void)
{
	struct rlimit lim;

	return share.runs < RUNS && !getrlimit(RLIMIT_NOFILE, &lim) &&
	       share.runs < lim.rlim_cur / 16;
}

static void swap_piece(const struct extent *e)
{
	int rc;

	if (!has_room() || share.refused || share.bytes + (e->hi - e->lo) > MOST)
		return;
	share.moved++;
	rc = swap_out(e->lo, e->hi, &share.run[share.runs]);
	if (!rc) {
		share.runs++;
		share.bytes += e->hi - e->lo;
		return;
	}
	share.refused = true;
	log_info("private memory is not shared with other processes: %s", strerror(-rc));
}

static void swap_region(struct core *core, const struct extent *region)
{
	struct extent r = pages_of(region), piece[PIECES];
	sigset_t old;
	unsigned n;

	if (r.lo >= r.hi || r.hi - r.lo > LONGEST || share.beyond || share.refused ||
	    !has_room() || share.moved >= MOVED || share.looked >= LOOKED_MIB ||
	    is_known(&r) || !is_the_programs(core, &r) || !is_alone())
		return;
	n = movable_find(&r, piece, PIECES);
	hold_still(core, &old);
	for (unsigned i = 0; i < n; i++)
		swap_piece(&piece[i]);
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

/* False: it is the file's still. */
static bool swap_run_in(struct core *core, unsigned i)
{
	struct swap_run *run = &share.run[i];
	uint64_t bytes = run->hi - run->lo;
	sigset_t old;
	bool good;

	hold_still(core, &old);
	good = swap_in(run);
	go_on(core, &old);
	if (!good)
		return false;
	share.bytes -= bytes;
	share.run[i] = share.run[--share.runs];
	return true;
}

/* What becomes of the runs when regions go. */
struct fate {
	bool lies[RUNS]; /* the program has not unmapped all of it */
	bool kept[RUNS]; /* a region has a part of it, or it must not move */
};

/* The program may have moved the pages, and registered them where they are now. */
static bool find_fates(const struct core *core, struct fate *f)
{
	struct procmap m;
	struct procmaps maps;
	bool seen;

	memset(f, 0, sizeof(*f));
	for (unsigned i = 0; i < share.runs; i++) {
		struct extent was = extent_of_run(&share.run[i]);

		f->kept[i] = is_known(&was);
	}
	procmaps_open_flags(&maps);
	seen = maps.fd >= 0;
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < share.runs; i++) {
			struct extent is = { m.lo, m.hi };

			if (!swap_has(&share.run[i], &m))
				continue;
			f->lies[i] = true;
			f->kept[i] |= is_known(&is) || !is_the_programs(core, &is) ||
				      !movable_is_plain_file(&maps);
		}
	procmaps_close(&maps);
	return seen;
}

/* A region that was where the pages were may be gone. */
static bool may_be_free(void)
{
	for (unsigned i = 0; i < share.runs; i++) {
		struct extent was = extent_of_run(&share.run[i]);

		if (!is_known(&was))
			return true;
	}
	return false;
}

/* Pages that no region has are private again, if nobody else can touch them.  Else the
 * memory of what has been unmapped goes, but a fork looks for it still: another thread
 * may have moved it just now. */
static void swap_back(struct core *core)
{
	struct fate fate;
	bool alone;

	if (share.beyond || !may_be_free())
		return;
	alone = is_alone();
	if (!find_fates(core, &fate))
		return;
	for (unsigned i = share.runs; i-- > 0;)
		if (!fate.kept[i] && alone)
			(void)swap_run_in(core, i);
		else if (!fate.kept[i] && !fate.lies[i])
			swap_forget(&share.run[i]);
}

/* It is no region any more, and nobody is inside. */
static void removed(struct core *core, const struct mkey *mk)
{
	struct extent r = extent_of(mk);

	if (!is_reached(mk))
		return;
	lock_take(&share.lock);
	forget(&r);
	swap_back(core);
	lock_give(&share.lock);
}

/* With one thread the kernel has nothing to wait for; with more it takes some 10 ms,
 * which the first mapping would come later. */
void share_start(struct core *core)
{
	unsigned resident;

	if (movable_now(&resident))
		(void)words_register();
	if (movable_strictly()) {
		log_info("private memory is not shared with other processes: %s",
			 "memory is promised strictly (vm.overcommit_memory is 2)");
		return;
	}
	core->mr_added = added;
	core->mr_removed = removed;
}

/* --- under somebody who does not leave ------------------------------------ */

/* The run that has all that others have mapped of the region; RUNS: there is none. */
static unsigned find_run(struct core *core, uint32_t key, const struct mkey *mk)
{
	struct fd_id id = { 0 };
	unsigned i;

	turn_take(&core->turn);
	if (!mk)
		mk = mkey_find(core, key);
	if (mk && !mk->lent_more)
		id = mk->lent;
	turn_give(&core->turn);
	for (i = 0; i < share.runs; i++)
		if (id.ino && fd_same(&share.run[i].id, &id))
			return i;
	return RUNS;
}

/* Where the pages are, as the program may have moved them. */
struct places {
	unsigned n;
	struct extent at[PIECES];
};

/* False: they are in too many places, or must not move. */
static bool find_places(const struct core *core, const struct swap_run *run,
			struct places *p)
{
	struct procmap m;
	struct procmaps maps;
	bool good;

	p->n = 0;
	procmaps_open_flags(&maps);
	good = maps.fd >= 0;
	while (good && procmaps_next(&maps, &m)) {
		struct extent is = { m.lo, m.hi };

		if (!swap_has(run, &m))
			continue;
		good = p->n < PIECES && is_the_programs(core, &is) &&
		       movable_is_plain_file(&maps);
		if (good)
			p->at[p->n++] = is;
	}
	procmaps_close(&maps);
	return good;
}

static bool has_part(const struct places *p, const struct extent *e)
{
	for (unsigned i = 0; i < p->n; i++)
		if (extents_meet(&p->at[i], e))
			return true;
	return false;
}

/* Others do not begin to touch these pages: by any region that has a part of them, where
 * they were or where they are. */
static bool take_down(struct core *core, const struct swap_run *run,
		      const struct places *p, unsigned *n)
{
	const struct extent was = extent_of_run(run);

	*n = 0;
	turn_take(&core->turn);
	for (unsigned i = 0; i < EXPORT_MRS && *n < REGIONS; i++) {
		uint32_t key = core->exports->mr[i].key;
		const struct mkey *mk = key ? mkey_find(core, key) : NULL;
		struct extent e;

		if (!mk)
			continue;
		e = extent_of(mk);
		if (!extents_meet(&e, &was) && !has_part(p, &e) &&
		    !fd_same(&mk->lent, &run->id))
			continue;
		exports_del_mr(core, key);
		share.key[(*n)++] = key;
	}
	turn_give(&core->turn);
	return *n < REGIONS;
}

static void put_up(struct core *core, unsigned n)
{
	turn_take(&core->turn);
	for (unsigned i = 0; i < n; i++) {
		const struct mkey *mk = mkey_find(core, share.key[i]);

		if (mk)
			exports_put_mr(core, mk);
	}
	turn_give(&core->turn);
}

/* ... and those that had begun have ended, or do not leave, either. */
static bool are_out(struct core *core, uint32_t key, unsigned n)
{
	if (gate_wait_others(core, key))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (share.key[i] != key && gate_wait_others(core, share.key[i]))
			return false;
	return true;
}

static bool take_back(struct core *core, uint32_t key, unsigned run)
{
	struct places places;
	bool good;
	unsigned n;

	if (!is_alone() || !find_places(core, &share.run[run], &places))
		return false;
	good = take_down(core, &share.run[run], &places, &n) && are_out(core, key, n);
	if (good) {
		atomic_fetch_add(&core->exports->torn, 1);
		words_barrier();
		good = swap_run_in(core, run);
	}
	if (good) {
		gate_is_harmless(core, key);
		for (unsigned i = 0; i < n; i++)
			gate_is_harmless(core, share.key[i]);
	}
	put_up(core, n);
	return good;
}

bool share_take_back(struct core *core, uint32_t key, const struct mkey *mk)
{
	bool good = false;
	unsigned run;

	lock_take(&share.lock);
	run = find_run(core, key, mk);
	if (run < RUNS)
		good = take_back(core, key, run);
	lock_give(&share.lock);
	return good;
}

/* --- fork ---------------------------------------------------------------- */

/* Other threads may open and close devices meanwhile; nothing moves where there are
 * any. */
NO_TSA void share_copy(void)
{
	lock_take(&share.forking);
	lock_take(&share.lock);
	for (unsigned i = 0; i < share.runs; i++)
		swap_copy(&share.run[i]);
	lock_give(&share.lock);
}

NO_TSA void share_before_fork(void)
{
	lock_take(&share.lock);
}

NO_TSA void share_parent(void)
{
	for (unsigned i = 0; i < share.runs; i++)
		swap_parent(&share.run[i]);
	lock_give(&share.lock);
	lock_give(&share.forking);
}

/* What the child registers it shares anew: its NIC, too, is another. */
NO_TSA void share_child(void)
{
	swap_child(share.run, share.runs);
	share.refused = false;
	share.n = share.beyond = share.runs = share.moved = share.looked = 0;
	share.bytes = 0;
	threads_forked();
	lock_give(&share.lock);
	lock_give(&share.forking);
}
