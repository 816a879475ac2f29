/* SPDX-License-Identifier: BSD-2-Clause */
/* still.c - see still.h. */
#include "direct/still.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/threads.h"

enum {
	COPYING,
	STILL,	/* stores wait */
	FORKED, /* they do not any more: the child is there */
	ENDED,
};

/* The caller is asleep at LOOKS looks in a row: it waits for a lock. */
enum { LOOKS = 5, LOOK_MS = 1, NAP_NS = 100000, LET_NS = 1000000, PASSES = 100 };

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool is_of(const struct still *s, const struct procmap *m)
{
	for (unsigned i = 0; i < s->n; i++)
		if (swap_has(&s->run[i], m))
			return true;
	return false;
}

/* The caller's own stack is not kept still. */
static int freeze(const struct vacant *v, uint64_t lo, uint64_t len)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), below = 64 << 10;

	return here >= lo && here - lo < len + below ? -EBUSY : vacant_freeze(v, lo, len);
}

/* The program may have moved the pages, and may move them meanwhile. */
static int each_mapping(const struct still *s,
			int (*fn)(const struct vacant *v, uint64_t lo, uint64_t len))
{
	struct procmaps maps;
	struct procmap m;
	int rc;

	procmaps_open(&maps);
	rc = maps.fd < 0 ? -EMFILE : 0;
	while (!rc && procmaps_next(&maps, &m))
		if (is_of(s, &m))
			rc = fn(&s->stores, m.lo, m.hi - m.lo);
	procmaps_close(&maps);
	return rc;
}

static int go_on(const struct vacant *v, uint64_t lo, uint64_t len)
{
	vacant_thaw(v, lo, len);
	return 0;
}

/* To close the descriptor is not enough: the child has it, too. */
static void let_go(struct still *s)
{
	(void)each_mapping(s, go_on);
}

/* --- whom the caller waits for ---------------------------------------------- */

/* In a system call, or in a store of its own (-1); but not in the one that makes the
 * child. */
static bool waits(pid_t tid)
{
	char path[64], text[32];
	ssize_t n;
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	nr = strtol(text, NULL, 10);
#ifdef SYS_fork
	if (nr == SYS_fork)
		return false;
#endif
	return n > 0 && *text != 'r' && nr != SYS_clone && nr != SYS_clone3; /* running */
}

/* --- pages that are let go on ------------------------------------------------ */

static size_t late_bytes(void)
{
	return sizeof(struct still_late) + STILL_PAGES * page_size();
}

static uint8_t *content_of(const struct still_late *late, unsigned i)
{
	return (uint8_t *)(uintptr_t)(late + 1) + i * page_size();
}

/* Which page of which run lies at the address? False: none any more. */
static bool find_page(const struct still *s, uint64_t addr, struct still_page *page)
{
	struct procmaps maps;
	struct procmap m;
	bool found = false;

	procmaps_open(&maps);
	while (!found && procmaps_next(&maps, &m) && m.lo <= addr)
		for (unsigned i = 0; addr < m.hi && !found && i < s->n; i++) {
			found = swap_has(&s->run[i], &m);
			*page = (struct still_page){ i, m.offset + (addr - m.lo) };
		}
	procmaps_close(&maps);
	return found;
}

/* Returns the place for that page; STILL_PAGES: there is none. */
static unsigned place_of(struct still_late *late, const struct still_page *page)
{
	unsigned i;

	for (i = 0; i < late->n; i++)
		if (late->page[i].run == page->run &&
		    late->page[i].offset == page->offset)
			return i;
	if (i < STILL_PAGES)
		late->page[late->n++] = *page;
	return i;
}

/* By a system call, as another thread may unmap the page. Returns whether it is another
 * than it was when it was copied last. */
static bool copy_again(const struct still *s, uint64_t addr)
{
	static uint8_t fresh[64 << 10]; /* the one thread's */
	struct iovec here = { fresh, page_size() },
		     there = { (void *)(uintptr_t)addr, page_size() };
	struct still_page page;
	unsigned i;
	bool other;

	if (!find_page(s, addr, &page) || (i = place_of(s->late, &page)) == STILL_PAGES)
		return false;
	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)page_size())
		(void)!pread(s->run[page.run].fd, fresh, page_size(), (off_t)page.offset);
	other = memcmp(fresh, content_of(s->late, i), page_size()) != 0;
	memcpy(content_of(s->late, i), fresh, page_size());
	return other;
}

/* Pages that are the same at two looks were so together in between. Stores soon come to
 * pages that are protected. */
static void copy_all_again(const struct still *s)
{
	bool other = true;

	for (unsigned n = 0; other && n < PASSES; n++) {
		other = n == 0;
		for (unsigned i = 0; i < s->let.n; i++)
			other |= copy_again(s, s->let.at[i]);
	}
}

/* The stores that the caller waits for are among those that wait. */
static void let_stores(struct still *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->waiting.n; i++) {
		const uint64_t addr = s->waiting.at[i];
		const int rc = s->let.n < STILL_PAGES
				       ? vacant_let(&s->stores, addr, page_size())
				       : -EAGAIN;

		if (!rc)
			s->let.at[s->let.n++] = addr;
		else if (rc == -EAGAIN)
			s->waiting.at[n++] = addr;
	}
	s->waiting.n = n;
	s->since = clock_ns();
	s->asleep = 0;
}

/* False: a child is being made. */
static bool hold_again(struct still *s)
{
	while (s->let.n) {
		const uint64_t addr = s->let.at[s->let.n - 1];
		const int rc = vacant_freeze_again(&s->stores, addr, page_size());

		if (rc == -EAGAIN)
			return false;
		if (!rc)
			(void)copy_again(s, addr);
		s->let.n--;
	}
	return true;
}

/* --- the thread -------------------------------------------------------------- */

/* True: the child is there. The kernel lets its maker go on when this has been read. */
static bool take_news(struct still *s)
{
	uint32_t still = STILL;
	uint64_t addr = 0;

	switch (vacant_news(&s->stores, &addr)) {
	case VACANT_FORK:
		if (!atomic_compare_exchange_strong(&s->phase, &still, FORKED))
			return false;
		let_go(s);
		return true;
	case VACANT_STORE:
		addr &= ~(page_size() - 1);
		for (unsigned i = 0; i < s->waiting.n; i++)
			if (s->waiting.at[i] == addr)
				return false;
		s->waiting.at[s->waiting.n++] = addr;
		return false;
	case VACANT_NOTHING:
		break;
	}
	return false;
}

/* While stores to some pages go on, the kernel is asked, by doing again what has been
 * done, whether it is making the child: its maker has all locks by then, and waits. */
static bool look_while_let(struct still *s)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	if (vacant_let(&s->stores, s->let.at[0], page_size()) != -EAGAIN &&
	    (clock_ns() - s->since < LET_NS || hold_again(s)))
		return false;
	copy_all_again(s);
	return take_news(s);
}

static bool look_at_forker(struct still *s)
{
	if (s->let.n)
		return look_while_let(s);
	if (s->waiting.n < STILL_PAGES && vacant_has_news(&s->stores, LOOK_MS))
		return take_news(s);
	s->asleep =
		atomic_load(&s->phase) == STILL && waits(s->forker) ? s->asleep + 1 : 0;
	if (s->asleep >= LOOKS)
		let_stores(s);
	return false;
}

/* The thread, and the fork that it serves; busy is 0 or 1. */
static struct {
	atomic_bool there, begun;
	_Atomic uint32_t busy;
	struct still *of;
} watcher;

static void await_busy(uint32_t busy)
{
	while (atomic_load(&watcher.busy) != busy)
		(void)syscall(SYS_futex, &watcher.busy, FUTEX_WAIT_PRIVATE, !busy, NULL,
			      NULL, 0);
}

static void set_busy(uint32_t busy)
{
	atomic_store(&watcher.busy, busy);
	(void)syscall(SYS_futex, &watcher.busy, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *watch_fork(void *arg)
{
	threads_begin();
	atomic_store(&watcher.begun, true);
	for (;;) {
		struct still *s;

		await_busy(1);
		s = watcher.of;
		while (atomic_load(&s->phase) <= STILL && !look_at_forker(s))
			;
		set_busy(0);
	}
	return arg;
}

int still_prepare(void)
{
	pthread_t t;
	int rc;

	if (atomic_exchange(&watcher.there, true))
		return 0;
	rc = -threads_create(&t, NULL, watch_fork, NULL);
	if (rc) {
		atomic_store(&watcher.there, false);
		return rc;
	}
	pthread_detach(t);
	while (!atomic_load(&watcher.begun))
		sched_yield();
	return 0;
}

void still_forked(void)
{
	atomic_store(&watcher.there, false);
	atomic_store(&watcher.begun, false);
	atomic_store(&watcher.busy, 0);
}

static int begin_watch(struct still *s)
{
	if (!atomic_load(&watcher.there))
		return -ESRCH;
	s->late = mmap(NULL, late_bytes(), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->late == MAP_FAILED)
		return -ENOMEM;
	watcher.of = s;
	set_busy(1);
	s->is_watched = true;
	return 0;
}

int still_open(struct still *s, bool watched)
{
	*s = (struct still){ .watched = watched, .late = MAP_FAILED };
	return watched ? vacant_open_forks(&s->stores) : vacant_open(&s->stores);
}

int still_begin(struct still *s, const struct swap_run *run, unsigned n)
{
	int rc;

	s->run = run;
	s->n = n;
	s->forker = gettid();
	rc = s->watched ? begin_watch(s) : 0;
	if (!rc)
		rc = each_mapping(s, freeze);
	if (rc)
		(void)still_end(s);
	return rc;
}

void still_copied(struct still *s)
{
	uint32_t copying = COPYING;

	(void)atomic_compare_exchange_strong(&s->phase, &copying, STILL);
}

static void drop_late(struct still *s)
{
	if (s->late != MAP_FAILED)
		munmap(s->late, late_bytes());
	s->late = MAP_FAILED;
}

bool still_end(struct still *s)
{
	const uint32_t was = atomic_exchange(&s->phase, ENDED);
	bool good;

	if (s->is_watched)
		await_busy(0);
	if (was < FORKED)
		let_go(s);
	vacant_close(&s->stores);
	good = s->late == MAP_FAILED || (!s->late->n && !s->let.n);
	drop_late(s);
	return good;
}

void still_in_child(struct still *s)
{
	vacant_close(&s->stores);
	if (s->late == MAP_FAILED)
		return;
	for (unsigned i = 0; i < s->late->n; i++) {
		const struct still_page *page = &s->late->page[i];
		const struct swap_run *run = &s->run[page->run];
		const uint64_t at = page->offset - run->base;

		if (run->copy != MAP_FAILED && at + page_size() <= run->copied)
			memcpy(run->copy + at, content_of(s->late, i), page_size());
	}
	drop_late(s);
}
