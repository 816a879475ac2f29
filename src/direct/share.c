/* SPDX-License-Identifier: BSD-2-Clause */
/* share.c - see share.h. */
#include "direct/share.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "direct/aside.h"
#include "direct/bare.h"
#include "direct/direct.h"
#include "direct/room.h"
#include "direct/share_own.h"
#include "direct/still.h"
#include "direct/words.h"
#include "sys/cancel.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/procmaps.h"
#include "sys/threads.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"
#include "verbs/pd.h"

enum {
	MOVED = 1024, /* most moves in a process's life, while it has one thread */
	FILES = 64,   /* most files */
	/* Limit on the sum of the process's resident MiB over all scans of its memory. */
	LOOKED_MIB = 20 << 10,
};

/* Most processor time, ns, that moves beside threads may take in a process's life. Each
 * looks at all mappings, so that with many regions they take long. */
#define SPENT UINT64_C(5000000000)

/* Longer regions stay private: docs/dev/direct.md has the cost of registration, and a
 * fork copies all runs. */
#define LONGEST (UINT64_C(16) << 20)
#define MOST	(UINT64_C(256) << 20)
/* Bytes copied for children after which sharing stops. */
#define TIRED (UINT64_C(1) << 30)

struct share share;

/* May another process use the memory? */
static bool is_reached(const struct mkey *mk)
{
	return mk->length &&
	       mk->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC);
}

/* Can QPs of this region's device reach other processes by memory? iWARP's and those of a
 * fabric's adapter cannot, and moving pages would only cost time. */
static bool is_of_use(const struct mkey *mk)
{
	const struct device *dev = pd_device(mk->pd);

	return !dev || dev->kind->shares;
}

/* Does another region have some of these bytes? A peer may be using it now. */
static bool is_known(const struct extent *r)
{
	for (unsigned i = 0; i < share.n; i++)
		if (extents_meet(&share.region[i], r))
			return true;
	return false;
}

/* The NIC's own memory must not move: our engine thread works there without the turn.
 * A program may register all of its heap, so this is checked. */
bool share_is_the_programs(const struct core *core, const struct extent *e)
{
	const struct extent nic = { (uintptr_t)core, (uintptr_t)core + sizeof(*core) };

	return !extents_meet(e, &nic) && movable_extent(e);
}

/* May a page at an edge of a region move, which has other data, too? Not if another
 * region has some of these, as a peer may be using them now. */
static bool may_move_edge(const struct core *core, const struct extent *page)
{
	return !is_known(page) && share_is_the_programs(core, page);
}

/* Returns the region's pages; *edged: with some that have other data, too. Those move
 * only where who touches them can be made to wait: our own threads may, and libc. */
static struct extent pages_of(const struct core *core, const struct extent *r,
			      bool *edged)
{
	const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
	struct extent p = { r->lo & ~(size - 1), (r->hi + size - 1) & ~(size - 1) };
	const struct extent head = { p.lo, p.lo + size }, tail = { p.hi - size, p.hi };
	const bool may = atomic_load(&share.threads);

	if (p.lo < r->lo && !(may && may_move_edge(core, &head)))
		p.lo = head.hi;
	if (p.hi > r->hi && !(may && may_move_edge(core, &tail)))
		p.hi = tail.lo;
	*edged = p.lo < r->lo || p.hi > r->hi;
	return p;
}

/* Is this the only thread that touches memory? */
static bool is_alone(void)
{
	unsigned resident;
	bool now = movable_now(&resident);

	if (now)
		share.looked += resident;
	return now;
}

/* --- regions ------------------------------------------------------------- */

/* Blocks signal handlers of this thread and, by holding the turn, stops the engine, so
 * that pages may move. */
NO_TSA static void hold_still(struct core *core, sigset_t *was)
{
	signals_hold(was);
	if (core)
		turn_take(&core->turn);
}

NO_TSA static void go_on(struct core *core, const sigset_t *was)
{
	if (core)
		turn_give(&core->turn);
	signals_let(was);
}

/* What happens to the runs when regions end. */
struct fate {
	bool lies[RUNS];   /* some of the run is still mapped by the program */
	bool kept[RUNS];   /* a region contains part of it, or it is not its turn */
	bool fixed[RUNS];  /* private pages cannot be as these are */
	bool marked[RUNS]; /* SWAP_MARKED */
};

/* Determines the fates. The program may have moved the pages, and registered them at
 * their new address. */
static bool find_fates(const struct core *core, struct fate *f)
{
	struct procmap m;
	struct procmaps maps;
	bool seen;

	memset(f, 0, sizeof(*f));
	for (unsigned i = 0; i < runs_count(); i++) {
		struct extent was = extent_at(i);

		f->kept[i] = is_known(&was);
	}
	procmaps_open(&maps);
	seen = maps.fd >= 0;
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < runs_count(); i++) {
			struct extent is = { m.lo, m.hi };

			if (!swap_has(runs_at(i), &m))
				continue;
			f->lies[i] = true;
			f->kept[i] |= runs_at(i)->edged || is_known(&is) ||
				      !share_is_the_programs(core, &is);
		}
	procmaps_close(&maps);
	return seen;
}

/* Is no run of run i's file mapped, as far as /proc/self/maps could say? */
static bool is_file_free(const struct fate *f, unsigned i)
{
	for (unsigned k = 0; k < runs_count(); k++)
		if ((f->kept[k] || f->lies[k]) &&
		    fd_same(&runs_at(k)->id, &runs_at(i)->id))
			return false;
	return true;
}

/* While other threads could touch the pages: drops what the program has unmapped. */
static void forget_unmapped(const struct core *core)
{
	const unsigned before = runs_count();
	uint64_t since = clock_ns();
	struct fate fate;

	if (!respite_is_over(&share.looks))
		return;
	if (find_fates(core, &fate))
		for (unsigned i = 0; i < runs_count(); i++)
			if (!runs_at(i)->guest && is_file_free(&fate, i))
				runs_end(i);
	for (unsigned i = runs_count(); i-- > 0;)
		if (runs_at(i)->gone) {
			runs_drop(i);
			share.tried[i] = share.tried[runs_count()];
		}
	if (runs_count() < before)
		share.looks.times = 0;
	respite_begin(&share.looks, since);
}

/* Each file costs one of the program's descriptors: most are left to it. */
static unsigned most_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return 0;
	return lim.rlim_cur / 16 < FILES ? (unsigned)lim.rlim_cur / 16 : FILES;
}

static bool may_be_stored_to(unsigned access)
{
	return access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

/* May that many bytes become a file's? What is unmapped does not count. */
static bool has_room(const struct core *core, uint64_t bytes, bool writing)
{
	for (int again = 0;; again++) {
		if (runs_have_room(most_files(), writing) && runs_bytes() + bytes <= MOST)
			return true;
		if (again)
			return false;
		forget_unmapped(core);
	}
}

/* Has the try failed for a reason that may be gone by the next? What other threads do to
 * the memory, beside which it was tried. */
static bool is_passing(int rc)
{
	return rc == -EAGAIN || rc == -EBUSY || rc == -ENOENT || rc == -EFAULT;
}

/* beside: other threads, or NULL: there are none. */
static int swap_piece(const struct extent *e, unsigned access, struct swap_beside *beside)
{
	const bool writing = may_be_stored_to(access);
	int rc;

	if (!runs_have_room(most_files(), writing) || share.refused ||
	    runs_bytes() + (e->hi - e->lo) > MOST)
		return 0;
	if (beside && vacant_add(&beside->place, e->lo, e->hi - e->lo))
		return 0;
	share.moved++;
	memset(&share.tried[runs_count()], 0, sizeof(share.tried[0]));
	rc = runs_out(e, beside, most_files(), writing);
	if (beside)
		vacant_drop(&beside->place);
	if (!rc || (beside && is_passing(rc)))
		return rc;
	share.refused = true;
	log_info("private memory is not shared with other processes: %s", strerror(-rc));
	return rc;
}

static void tell_swapped(const struct extent *r)
{
	log_debug("memory region at %#" PRIx64 ": other processes may map its pages",
		  r->lo);
}

static void swap_alone(struct core *core, const struct extent *r, unsigned access)
{
	struct extent piece[PIECES];
	unsigned n = movable_find(r, piece, PIECES);
	sigset_t old;

	hold_still(core, &old);
	for (unsigned i = 0; i < n; i++)
		(void)swap_piece(&piece[i], access, NULL);
	go_on(core, &old);
	if (n)
		tell_swapped(r);
}

static bool may_move_piece(uint64_t lo, uint64_t hi)
{
	return movable_is_untied(&(struct extent){ lo, hi });
}

/* The descriptor is there only while signals are blocked: a child that a handler makes
 * would have it, and it is for the parent's memory. Returns -EAGAIN if another thread has
 * said something of the memory meanwhile. */
static int swap_pieces_beside(struct core *core, const struct extent *piece, unsigned n,
			      unsigned access)
{
	struct swap_beside beside = { .may = may_move_piece, .place = { .fd = -1 } };
	sigset_t old;
	int rc;

	hold_still(core, &old);
	rc = runs_keep_next(KEEP_MOVING) ? vacant_open(&beside.place) : -EAGAIN;
	runs_keep(KEEP_MOVING, beside.place.fd);
	for (unsigned i = 0; !rc && i < n; i++)
		rc = swap_piece(&piece[i], access, &beside);
	runs_keep(KEEP_MOVING, -1);
	vacant_close(&beside.place);
	go_on(core, &old);
	return rc;
}

enum { TRIES = 3 };

/* What the memory is must be learned without the turn, as that takes long; so it is
 * watched that no other thread says something of it meanwhile. */
static void swap_beside(struct core *core, const struct extent *r, unsigned access)
{
	struct extent piece[PIECES];
	unsigned n = 0;
	int rc = -EAGAIN;

	for (unsigned i = 0; i < TRIES && rc == -EAGAIN && runs_watch(r); i++) {
		unsigned resident = 0;

		n = bare_calls() || !movable_beside_threads(r, &resident)
			    ? 0
			    : movable_find(r, piece, PIECES);
		share.looked += resident;
		rc = n ? swap_pieces_beside(core, piece, n, access) : 0;
		runs_unwatch();
	}
	if (n && !rc)
		tell_swapped(r);
}

/* Deregistrations look for all runs, so these are few. */
static bool is_enough_alone(void)
{
	return share.moved >= MOVED || share.looked >= LOOKED_MIB ||
	       runs_count() >= FILES;
}

static bool may_move_beside(void)
{
	return atomic_load(&share.threads) && share.spent < SPENT;
}

/* The calling thread's processor time, ns. */
static uint64_t own_time(void)
{
	struct timespec t = { 0, 0 };

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void swap_region(struct core *core, const struct extent *region, unsigned access)
{
	bool alone, edged;
	struct extent r = pages_of(core, region, &edged);
	const unsigned before = runs_count();
	uint64_t since;

	if (r.lo >= r.hi || r.hi - r.lo > LONGEST || share.beyond || share.refused ||
	    is_known(&r) || !share_is_the_programs(core, &r) ||
	    (is_enough_alone() && !may_move_beside()))
		return;
	alone = is_alone();
	if ((alone && !edged ? is_enough_alone() : !may_move_beside()) ||
	    !has_room(core, r.hi - r.lo, may_be_stored_to(access)) ||
	    !room_for(runs_bytes() + 2 * (r.hi - r.lo)))
		return;
	if (alone && !edged) {
		swap_alone(core, &r, access);
		return;
	}
	since = own_time();
	swap_beside(core, &r, access);
	share.spent += own_time() - since;
	if (edged)
		runs_are_edged(before);
}

/* Called before the region enters the export table. */
static void added(struct core *core, const struct mkey *mk)
{
	struct extent r = extent_of(mk);

	if (!is_reached(mk))
		return;
	lock_take(&share.lock);
	if (!(mk->access & IBV_ACCESS_ON_DEMAND) && is_of_use(mk))
		swap_region(core, &r, (unsigned)mk->access);
	if (share.n < REGIONS)
		share.region[share.n++] = r;
	else
		share.beyond++;
	lock_give(&share.lock);
}

static void forget_region(const struct extent *r)
{
	for (unsigned i = 0; i < share.n; i++)
		if (share.region[i].lo == r->lo && share.region[i].hi == r->hi) {
			share.region[i] = share.region[--share.n];
			return;
		}
	if (share.beyond)
		share.beyond--;
}

/* Makes run i private. False: it is still file pages. */
bool share_run_in(struct core *core, unsigned i, unsigned how)
{
	sigset_t old;
	bool good;

	hold_still(core, &old);
	good = runs_in(i, how | (share.noticed ? SWAP_ALONE : 0));
	go_on(core, &old);
	if (good)
		share.tried[i] = share.tried[runs_count()];
	return good;
}

/* What has the program said of the pages? Reading that costs the kernel some 20 us for
 * each MiB that the process has in memory. */
static void find_flags(struct fate *f)
{
	struct procmap m;
	struct procmaps maps;

	procmaps_open_flags(&maps);
	for (unsigned i = 0; maps.fd < 0 && i < runs_count(); i++)
		f->fixed[i] = true;
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < runs_count(); i++)
			if (!f->kept[i] && swap_has(runs_at(i), &m) &&
			    !movable_is_revertible(&maps, &f->marked[i]))
				f->fixed[i] = true;
	procmaps_close(&maps);
}

/* Keeps those, too, that have just been tried. Returns whether any is left to try. */
static bool is_any_free(struct fate *f)
{
	bool any = false;

	for (unsigned i = 0; i < runs_count(); i++) {
		f->kept[i] |= !respite_is_over(&share.tried[i].end);
		any |= !f->kept[i];
	}
	return any;
}

/* pinned: SWAP_PINNED or 0. */
static bool try_in(struct core *core, unsigned i, const struct fate *f, unsigned pinned)
{
	return !f->fixed[i] &&
	       share_run_in(core, i,
			    (f->lies[i] ? pinned : 0) | (f->marked[i] ? SWAP_MARKED : 0));
}

/* May a run have lost its last region, at the address where the pages were? */
static bool may_be_free(void)
{
	for (unsigned i = 0; i < runs_count(); i++) {
		struct extent was = extent_at(i);

		if (!is_known(&was))
			return true;
	}
	return false;
}

/* Makes pages that no region contains private again, if no other thread can touch them.
 * What else was asked when they became a file's is not asked again, as it may be
 * otherwise by now, for good: memory elsewhere that is locked, a tracer, a ring of
 * io_uring. */
static void swap_back(struct core *core)
{
	uint64_t since = clock_ns();
	struct fate fate;
	unsigned pinned;

	if (share.beyond || !may_be_free())
		return;
	if (!movable_is_only_thread()) {
		forget_unmapped(core);
		return;
	}
	if (!find_fates(core, &fate) || !is_any_free(&fate))
		return;
	find_flags(&fate);
	pinned = movable_may_be_pinned() ? SWAP_PINNED : 0;
	for (unsigned i = runs_count(); i-- > 0;)
		if (!fate.kept[i] && !try_in(core, i, &fate, pinned))
			respite_begin(&share.tried[i].end, since);
}

/* Called when the region has ended and no thread is inside. */
static void removed(struct core *core, const struct mkey *mk)
{
	struct extent r = extent_of(mk);

	if (!is_reached(mk))
		return;
	lock_take(&share.lock);
	forget_region(&r);
	swap_back(core);
	lock_give(&share.lock);
}

/* Registering for membarrier(2) is immediate while the process has one thread; with
 * more it takes some 10 ms, which would delay the first mapping. So it is done here. */
void share_start(struct core *core, bool noticed)
{
	unsigned resident;

	if (movable_now(&resident))
		(void)words_register();
	if (movable_strictly()) {
		log_info("private memory is not shared with other processes: %s",
			 "the kernel does not overcommit memory "
			 "(vm.overcommit_memory is 2)");
		return;
	}
	lock_take(&share.lock);
	share.core = core;
	share.noticed |= noticed;
	lock_give(&share.lock);
	core->region.added = added;
	core->region.removed = removed;
}

int share_beside_threads(void)
{
	struct vacant v;
	int rc = vacant_open_forks(&v);

	if (rc)
		return rc;
	vacant_close(&v);
	rc = still_prepare();
	if (rc)
		return rc;
	runs_beside_threads();
	atomic_store(&share.threads, true);
	return 0;
}

bool share_is_beside_threads(void)
{
	return atomic_load(&share.threads);
}

void share_stop(const struct core *core)
{
	lock_take(&share.lock);
	if (share.core == core)
		share.core = NULL;
	lock_give(&share.lock);
}

/* --- fork ---------------------------------------------------------------- */

/* Stops sharing in a program that forks again and again, or that has no memory for a
 * copy: private memory serves it better. */
static void tire_of_copies(void)
{
	const struct extent all = { 0, UINT64_MAX };
	bool tired;

	if (!share.noticed || !runs_count())
		return;
	tired = atomic_fetch_add(&share.copied, runs_bytes()) + runs_bytes() >= TIRED;
	if (!tired && room_for(runs_bytes()))
		return;
	if ((share_make_private(&all) || share.threads) && tired &&
	    !atomic_exchange(&share.refused, true))
		log_info("private memory is not shared with other processes: %s",
			 "the program forks often, and each fork would copy that memory");
}

static void make_all_private(void)
{
	const struct extent all = { 0, UINT64_MAX };

	(void)share_make_private(&all);
}

/* On a shared stack parent and child would run on one stack for a moment. */
void share_leave_stack(void)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), around = 64 << 10;
	const struct extent stack = { here - around, here + around };

	if (runs_meet(&stack))
		(void)aside_call(make_all_private);
}

void share_prepare(void)
{
	share_leave_stack();
	tire_of_copies();
}

NO_TSA bool share_hold(enum lock_how how)
{
	return lock_get(&share.lock, how);
}

NO_TSA void share_let_go(void)
{
	lock_give(&share.lock);
}

bool share_copy(void)
{
	return !share.noticed && runs_before_fork(true);
}

void share_copied(void)
{
	runs_in_parent();
}

void share_copied_to_child(void)
{
	runs_in_child();
}

/* The child starts afresh: its regions are shared anew, and its NIC is another. */
NO_TSA void share_forked(void)
{
	share.refused = false;
	share.core = NULL;
	share.n = share.beyond = share.moved = share.looked = 0;
	share.spent = 0;
	share.copied = 0;
	threads_forked();
	lock_init(&share.lock);
}
