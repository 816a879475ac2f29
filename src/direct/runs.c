/* SPDX-License-Identifier: BSD-2-Clause */
/* runs.c - see runs.h. */
#include "direct/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "direct/still.h"
#include "sys/cancel.h"
#include "sys/lock.h"
#include "sys/procmaps.h"

static struct {
	struct lock lock;
	_Atomic pthread_t owner; /* the lock's owner; 0: free */
	sigset_t signals;	 /* the owner's signal mask before */
	atomic_uint n;
	atomic_bool moving;	    /* a run is coming, beside threads */
	atomic_bool beside_threads; /* runs may */
	uint64_t bytes;		    /* of all runs */
	struct swap_run run[RUNS];
} runs;

/* What threads say of their memory while some is becoming a file's. */
static struct {
	atomic_uint calls; /* that are being made */
	atomic_uint forks; /* `calls' counts those of this process only */
	atomic_bool on;	   /* the extent is watched */
	_Atomic uint64_t lo, hi;
	atomic_bool seen; /* a call for it has begun since */
} said;

unsigned runs_count(void)
{
	return atomic_load(&runs.n);
}

uint64_t runs_bytes(void)
{
	return runs.bytes;
}

const struct swap_run *runs_at(unsigned i)
{
	return &runs.run[i];
}

enum { PLACES = 4 * RUNS };

/* Where file pages are that the program has moved. Only the other addresses count:
 * runs.run has where the pages were. */
static struct {
	/* None has been moved; some may have been since `at` was filled; at is right. */
	enum { NONE, UNKNOWN, LISTED } state;
	unsigned n;
	struct {
		struct extent is;
		ino_t of; /* its run's file, and place there */
		uint64_t base;
	} at[PLACES];
} places;

/* Holds signals off while the lock is held, since a handler in this thread would wait for
 * the lock for ever. */
NO_TSA static void hold(void)
{
	sigset_t was;

	signals_hold(&was);
	lock_take(&runs.lock);
	runs.signals = was;
	atomic_store(&runs.owner, pthread_self());
}

NO_TSA static void let_go(void)
{
	const sigset_t was = runs.signals;

	atomic_store(&runs.owner, 0);
	lock_give(&runs.lock);
	signals_let(&was);
}

static bool is_mine(void)
{
	return pthread_equal(atomic_load(&runs.owner), pthread_self());
}

/* --- a descriptor that is kept back ---------------------------------------- */

static struct {
	int fd; /* 0: no descriptor */
	struct fd_id id;
} spare;

static void give_spare(void)
{
	if (spare.fd > 0 && fd_is(spare.fd, &spare.id))
		close(spare.fd);
	spare.fd = 0;
}

static void keep_spare(void)
{
	int fd = runs_count() && !spare.fd ? fd_memory("urnic-spare", 0) : -1;

	if (fd > 0 && !fd_identify(fd, &spare.id))
		spare.fd = fd;
	else if (fd >= 0)
		close(fd);
}

void runs_give_spare(void)
{
	hold();
	give_spare();
	let_go();
}

void runs_keep_spare(void)
{
	hold();
	keep_spare();
	let_go();
}

/* Is there none, and is none coming? */
static bool has_none(void)
{
	return !atomic_load(&runs.moving) && !runs_count();
}

/* --- they come and go ---------------------------------------------------- */

/* Returns a run that has a file for such runs, the one that has had the fewest, as a file
 * lasts as long as any of its runs is mapped; NULL: there is none. */
static struct swap_run *find_host(bool writing)
{
	struct swap_run *best = NULL, *run = &runs.run[0];

	for (unsigned i = 0; i < runs_count(); i++, run++)
		if (!run->guest && run->writing == writing && swap_takes_more(run) &&
		    (!best || run->places < best->places))
			best = run;
	return best;
}

static unsigned count_files(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < runs_count(); i++)
		n += !runs.run[i].guest;
	return n;
}

bool runs_have_room(unsigned files, bool writing)
{
	return runs_count() < RUNS && (count_files() < files || find_host(writing));
}

static int move_out(const struct extent *e, struct swap_run *run,
		    const struct swap_beside *beside, unsigned files, bool writing)
{
	if (beside && atomic_load(&said.seen))
		return -EAGAIN;
	return count_files() < files
		       ? swap_out(e->lo, e->hi, run, beside)
		       : swap_out_with(e->lo, e->hi, run, find_host(writing), beside);
}

int runs_out(const struct extent *e, const struct swap_beside *beside, unsigned files,
	     bool writing)
{
	unsigned n = runs_count();
	struct swap_run *run = &runs.run[n];
	int rc;

	hold();
	atomic_store(&runs.moving, beside != NULL);
	rc = move_out(e, run, beside, files, writing);
	if (!rc) {
		run->writing = writing;
		runs.bytes += run->hi - run->lo;
		atomic_store(&runs.n, n + 1);
		keep_spare();
	}
	atomic_store(&runs.moving, false);
	let_go();
	return rc;
}

void runs_are_edged(unsigned from)
{
	hold();
	for (unsigned i = from; i < runs_count(); i++)
		runs.run[i].edged = true;
	let_go();
}

/* Returns another run that has a place in the run's file; NULL: none has. */
static struct swap_run *find_mate(const struct swap_run *run)
{
	struct swap_run *mate = &runs.run[0];

	for (unsigned i = 0; i < runs_count(); i++, mate++)
		if (mate != run && fd_same(&mate->id, &run->id))
			return mate;
	return NULL;
}

static void take_out(unsigned i)
{
	const unsigned n = runs_count() - 1;

	runs.bytes -= runs.run[i].hi - runs.run[i].lo;
	runs.run[i] = runs.run[n];
	atomic_store(&runs.n, n);
	if (!n) {
		places.state = NONE;
		give_spare();
	}
}

bool runs_in(unsigned i, unsigned how)
{
	struct swap_run *run = &runs.run[i], *heir;
	bool good;

	hold();
	heir = run->guest ? NULL : find_mate(run);
	run->guest |= heir != NULL;
	good = swap_in(run, how);
	if (heir && good) {
		heir->guest = false;
		heir->places = run->places;
	} else if (heir) {
		run->guest = false;
	}
	if (good)
		take_out(i);
	let_go();
	return good;
}

void runs_end(unsigned i)
{
	const struct fd_id id = runs.run[i].id;

	hold();
	if (swap_is_unmapped(&runs.run[i]))
		for (unsigned k = 0; k < runs_count(); k++)
			runs.run[k].gone |= fd_same(&runs.run[k].id, &id);
	let_go();
}

void runs_drop(unsigned i)
{
	hold();
	swap_forget(&runs.run[i]);
	take_out(i);
	let_go();
}

bool runs_lend(const struct fd_id *id, bool writing)
{
	bool good = true;

	hold();
	for (unsigned i = 0; i < runs_count(); i++)
		if (fd_same(&runs.run[i].id, id))
			good = swap_lend(&runs.run[i], writing);
	let_go();
	return good;
}

/* --- what the program does to its memory ---------------------------------- */

static const struct swap_run *run_of(const struct procmap *m)
{
	for (unsigned i = 0; i < runs_count(); i++)
		if (swap_has(&runs.run[i], m))
			return &runs.run[i];
	return NULL;
}

/* Lists the mappings of all runs. If that fails, the state stays UNKNOWN. */
static void list_places(void)
{
	const struct swap_run *run;
	struct procmaps maps;
	struct procmap m;
	bool all;

	places.n = 0;
	procmaps_open(&maps);
	all = maps.fd >= 0;
	while (all && procmaps_next(&maps, &m)) {
		run = run_of(&m);
		if (!run)
			continue;
		all = places.n < PLACES;
		if (all) {
			places.at[places.n].is = (struct extent){ m.lo, m.hi };
			places.at[places.n].base = run->base;
			places.at[places.n++].of = run->id.ino;
		}
	}
	procmaps_close(&maps);
	if (all)
		places.state = LISTED;
}

static bool is_at(unsigned place, const struct swap_run *run)
{
	return places.at[place].of == run->id.ino && places.at[place].base == run->base;
}

/* Does the extent have file pages of that run where the program has moved them to? NULL:
 * of any. */
static bool has_strayed_to(const struct extent *e, const struct swap_run *of)
{
	if (places.state == UNKNOWN)
		list_places();
	if (places.state == UNKNOWN)
		return true;
	for (unsigned i = 0; places.state == LISTED && i < places.n; i++)
		if ((!of || is_at(i, of)) && extents_meet(e, &places.at[i].is))
			return true;
	return false;
}

static bool was_at(const struct swap_run *run, const struct extent *e)
{
	return extents_meet(e, &(struct extent){ run->lo, run->hi });
}

bool runs_meet(const struct extent *e)
{
	bool met = false;

	if (has_none() || is_mine())
		return false;
	hold();
	for (unsigned i = 0; !met && i < runs_count(); i++)
		met = was_at(&runs.run[i], e);
	if (!met)
		met = has_strayed_to(e, NULL);
	let_go();
	return met;
}

bool runs_has(unsigned i, const struct extent *e)
{
	bool has;

	hold();
	has = was_at(&runs.run[i], e) || has_strayed_to(e, &runs.run[i]);
	let_go();
	return has;
}

void runs_strayed(void)
{
	if (has_none() || is_mine())
		return;
	hold();
	places.state = UNKNOWN;
	let_go();
}

static bool punch(const struct swap_run *run, uint64_t from, uint64_t len)
{
	return run->fd >= 0 && fd_is(run->fd, &run->id) &&
	       !fallocate(run->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)from, (off_t)len);
}

/* Stores zeros through a mapping whose file must not have holes made in it. By a system
 * call, as another thread may unmap the memory meanwhile. */
static void store_zeros(const struct procmap *m, const struct extent *part)
{
	static const uint8_t zeros[64 << 10];
	struct iovec from = { (void *)(uintptr_t)zeros, sizeof(zeros) }, to;
	const bool may = m->perms[1] == 'w';
	const int prot = (m->perms[0] == 'r' ? PROT_READ : 0) |
			 (m->perms[2] == 'x' ? PROT_EXEC : 0);
	void *at = (void *)(uintptr_t)part->lo;

	if (!may)
		mprotect(at, part->hi - part->lo, PROT_READ | PROT_WRITE);
	for (uint64_t lo = part->lo; lo < part->hi; lo += from.iov_len) {
		if (part->hi - lo < from.iov_len)
			from.iov_len = part->hi - lo;
		to = (struct iovec){ (void *)(uintptr_t)lo, from.iov_len };
		if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0)
			break;
	}
	if (!may)
		mprotect(at, part->hi - part->lo, prot);
}

/* Zeroes through the mapping if the program has closed the descriptor, or the file was
 * lent for reading. */
static void zero_in(const struct procmap *m, const struct extent *e)
{
	const struct extent part = { m->lo > e->lo ? m->lo : e->lo,
				     m->hi < e->hi ? m->hi : e->hi };

	if (part.lo >= part.hi)
		return;
	for (unsigned i = 0; i < runs_count(); i++)
		if (swap_has(&runs.run[i], m) &&
		    !punch(&runs.run[i], m->offset + (part.lo - m->lo),
			   part.hi - part.lo) &&
		    madvise((void *)(uintptr_t)part.lo, part.hi - part.lo, MADV_REMOVE))
			store_zeros(m, &part);
}

/* For when /proc cannot be read. Pages that were not moved are at their old address or
 * unmapped, where zeroes are not missed. */
static void zero_unseen(const struct extent *e)
{
	for (unsigned i = 0; places.state == NONE && i < runs_count(); i++) {
		const struct swap_run *run = &runs.run[i];
		const struct extent part = { run->lo > e->lo ? run->lo : e->lo,
					     run->hi < e->hi ? run->hi : e->hi };

		if (part.lo < part.hi)
			(void)punch(run, run->base + (part.lo - run->lo),
				    part.hi - part.lo);
	}
}

void runs_zero(const struct extent *e)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct extent whole = { e->lo, (e->hi + page - 1) & ~(page - 1) };
	struct procmaps maps;
	struct procmap m;

	if (is_mine())
		return;
	hold();
	procmaps_open(&maps);
	if (maps.fd < 0) {
		give_spare();
		procmaps_open(&maps);
	}
	if (maps.fd < 0)
		zero_unseen(&whole);
	while (procmaps_next(&maps, &m) && m.lo < whole.hi)
		zero_in(&m, &whole);
	procmaps_close(&maps);
	keep_spare();
	let_go();
}

/* --- what the program says of its memory ----------------------------------- */

enum { NAPS = 100, NAP_NS = 50000 };

static bool are_over(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	for (unsigned i = 0; atomic_load(&said.calls); i++) {
		if (i == NAPS)
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return true;
}

/* A call that runs_watch() does not wait for begins later, and finds `on'. */
bool runs_watch(const struct extent *e)
{
	atomic_store(&said.seen, false);
	atomic_store(&said.lo, e->lo);
	atomic_store(&said.hi, e->hi);
	atomic_store(&said.on, true);
	if (are_over())
		return true;
	atomic_store(&said.on, false);
	return false;
}

void runs_unwatch(void)
{
	atomic_store(&said.on, false);
}

/* Each of this and runs_out() stores first and then looks at what the other stores:
 * either runs_out() gives up, or this waits. */
unsigned runs_change(const struct extent *e)
{
	const unsigned when = atomic_load(&said.forks);

	atomic_fetch_add(&said.calls, 1);
	if (!atomic_load(&said.on) ||
	    !extents_meet(e, &(struct extent){ said.lo, said.hi }))
		return when;
	atomic_store(&said.seen, true);
	if (atomic_load(&runs.moving) && !is_mine()) {
		hold();
		let_go();
	}
	return when;
}

void runs_changed(unsigned when)
{
	if (when == atomic_load(&said.forks))
		atomic_fetch_sub(&said.calls, 1);
}

/* A descriptor, or one of these. */
enum { OPENING = -2, NONE_KEPT = -1 };

static atomic_int kept[] = { [KEEP_MOVING] = NONE_KEPT, [KEEP_FORKING] = NONE_KEPT };
static _Atomic pthread_t opener[2];

bool runs_keep_next(enum runs_keep k)
{
	atomic_store(&opener[k], pthread_self());
	atomic_store(&kept[k], OPENING);
	if (are_over())
		return true;
	atomic_store(&kept[k], NONE_KEPT);
	return false;
}

void runs_keep(enum runs_keep k, int fd)
{
	atomic_store(&kept[k], fd < 0 ? NONE_KEPT : fd);
}

/* A handler of a signal may be the caller, but not in the thread that opens: it has
 * signals blocked. */
bool runs_keeps(int fd)
{
	bool keeps = fd < 0;
	int is;

	if (!atomic_load(&runs.beside_threads))
		return false;
	for (unsigned k = 0; k < sizeof(kept) / sizeof(kept[0]); k++) {
		while ((is = atomic_load(&kept[k])) == OPENING &&
		       !pthread_equal(opener[k], pthread_self()))
			sched_yield();
		keeps |= is == fd;
	}
	return keeps;
}

/* Before the program can use the descriptor. */
void runs_opened(int fd)
{
	const struct extent all = { 0, UINT64_MAX };

	if (atomic_load(&said.on) && !is_mine() && movable_stores_directly(fd))
		runs_changed(runs_change(&all));
}

/* --- fork ---------------------------------------------------------------- */

void runs_beside_threads(void)
{
	atomic_store(&runs.beside_threads, true);
}

static struct {
	bool on;
	struct still still;
} fork_of;

/* The child needs no descriptor that is kept back. */
static bool hold_stores(bool waits)
{
	struct still *s = &fork_of.still;
	int rc;

	give_spare();
	(void)runs_keep_next(KEEP_FORKING);
	rc = still_open(s, waits);
	runs_keep(KEEP_FORKING, rc ? -1 : s->stores.fd);
	return !rc && !still_begin(s, runs.run, runs_count());
}

bool runs_before_fork(bool waits)
{
	if ((has_none() && !atomic_load(&runs.beside_threads)) || is_mine())
		return false;
	hold();
	fork_of.on = runs_count() && !movable_is_only_thread() && hold_stores(waits);
	for (unsigned i = 0; i < runs_count(); i++)
		swap_copy(&runs.run[i]);
	if (fork_of.on)
		still_copied(&fork_of.still);
	return true;
}

void runs_in_parent(void)
{
	runs_keep(KEEP_FORKING, -1);
	if (fork_of.on)
		(void)still_end(&fork_of.still);
	for (unsigned i = 0; i < runs_count(); i++)
		swap_parent(&runs.run[i]);
	keep_spare();
	let_go();
}

void runs_in_child(void)
{
	runs_keep(KEEP_MOVING, -1);
	runs_keep(KEEP_FORKING, -1);
	if (fork_of.on)
		still_in_child(&fork_of.still);
	still_forked();
	if (runs_count())
		swap_child(runs.run, runs_count());
	give_spare();
	atomic_store(&runs.n, 0);
	places.state = NONE;
	runs.bytes = 0;
	atomic_fetch_add(&said.forks, 1);
	atomic_store(&said.calls, 0);
	atomic_store(&said.on, false);
	let_go();
}
