/* SPDX-License-Identifier: BSD-2-Clause */
/* runs.c - see runs.h. */
#include "direct/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "direct/still.h"
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
		ino_t of; /* its run's file */
	} at[PLACES];
} places;

/* Blocks signals while the lock is held, since a handler in this thread would wait for
 * the lock for ever. */
NO_TSA static void hold(void)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	lock_take(&runs.lock);
	runs.signals = old;
	atomic_store(&runs.owner, pthread_self());
}

NO_TSA static void let_go(void)
{
	sigset_t old = runs.signals;

	atomic_store(&runs.owner, 0);
	lock_give(&runs.lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
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

int runs_out(const struct extent *e, const struct swap_beside *beside)
{
	unsigned n = runs_count();
	struct swap_run *run = &runs.run[n];
	int rc;

	hold();
	atomic_store(&runs.moving, beside != NULL);
	rc = beside && atomic_load(&said.seen) ? -EAGAIN
					       : swap_out(e->lo, e->hi, run, beside);
	if (!rc) {
		runs.bytes += run->hi - run->lo;
		atomic_store(&runs.n, n + 1);
		keep_spare();
	}
	atomic_store(&runs.moving, false);
	let_go();
	return rc;
}

bool runs_in(unsigned i, unsigned how)
{
	struct swap_run *run = &runs.run[i];
	uint64_t bytes = run->hi - run->lo;
	bool good;

	hold();
	good = swap_in(run, how);
	if (good) {
		unsigned n = runs_count() - 1;

		runs.bytes -= bytes;
		*run = runs.run[n];
		atomic_store(&runs.n, n);
		if (!n) {
			places.state = NONE;
			give_spare();
		}
	}
	let_go();
	return good;
}

void runs_forget(unsigned i)
{
	hold();
	swap_forget(&runs.run[i]);
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
			places.at[places.n++].of = run->id.ino;
		}
	}
	procmaps_close(&maps);
	if (all)
		places.state = LISTED;
}

/* Does the extent have file pages, of that file, where the program has moved them to?
 * of 0: of any. */
static bool has_strayed_to(const struct extent *e, ino_t of)
{
	if (places.state == UNKNOWN)
		list_places();
	if (places.state == UNKNOWN)
		return true;
	for (unsigned i = 0; places.state == LISTED && i < places.n; i++)
		if ((!of || places.at[i].of == of) && extents_meet(e, &places.at[i].is))
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
		met = has_strayed_to(e, 0);
	let_go();
	return met;
}

bool runs_has(unsigned i, const struct extent *e)
{
	bool has;

	hold();
	has = was_at(&runs.run[i], e) || has_strayed_to(e, runs.run[i].id.ino);
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
			(void)punch(run, part.lo - run->lo, part.hi - part.lo);
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

/* A call that runs_watch() does not wait for begins later, and finds `on'. */
bool runs_watch(const struct extent *e)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	atomic_store(&said.seen, false);
	atomic_store(&said.lo, e->lo);
	atomic_store(&said.hi, e->hi);
	atomic_store(&said.on, true);
	for (unsigned i = 0; atomic_load(&said.calls); i++) {
		if (i == NAPS) {
			atomic_store(&said.on, false);
			return false;
		}
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return true;
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

/* --- fork ---------------------------------------------------------------- */

void runs_beside_threads(void)
{
	atomic_store(&runs.beside_threads, true);
}

static struct {
	bool on;
	struct still still;
} fork_of;

bool runs_before_fork(bool waits)
{
	if ((has_none() && !atomic_load(&runs.beside_threads)) || is_mine())
		return false;
	hold();
	fork_of.on = runs_count() && !movable_is_only_thread() &&
		     !still_begin(&fork_of.still, runs.run, runs_count(), waits);
	for (unsigned i = 0; i < runs_count(); i++)
		swap_copy(&runs.run[i]);
	if (fork_of.on)
		still_copied(&fork_of.still);
	return true;
}

void runs_in_parent(void)
{
	if (fork_of.on)
		(void)still_end(&fork_of.still);
	for (unsigned i = 0; i < runs_count(); i++)
		swap_parent(&runs.run[i]);
	let_go();
}

void runs_in_child(void)
{
	if (fork_of.on)
		still_in_child(&fork_of.still);
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
