/* SPDX-License-Identifier: BSD-2-Clause */
/* model.c - a program does to its memory whatever programs do, in random order, while
 * another process reads and writes regions of it.  A model knows what each page must
 * hold, and whatever the adapter does to private memory beneath must not show.
 *
 *	model	--count steps from --seed
 *
 * At the end no page may be a file's any more, unless URNIC_MAP_THREADS lets them stay.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "pattern.h"

enum { PAGE = 4096, AREAS = 4, PAGES = 96, REGIONS = 4, USES = 20 };

/* What the owner asks the other process to do, one request at a time. */
static struct {
	struct card owner, user;
	_Atomic uint32_t joined, asked, done;
	bool over, write;
	uint64_t addr, seed;
	uint32_t rkey, times;
} * sh;

struct page {
	uint64_t seed;	/* 0: the page is full of zeros */
	bool is, fixed; /* fixed: it may not be written to */
};

static struct area {
	uint8_t *at; /* NULL: there is none */
	unsigned pages;
	bool split; /* more than one mapping, by what the program has done */
	struct page page[PAGES];
} areas[AREAS];

static struct region {
	struct ibv_mr *mr;
	struct area *a;
	unsigned first, pages; /* whole pages in it */
	bool stale;	       /* its memory is not where it was */
} regions[REGIONS];

static struct rig r;
static struct ibv_qp *qp;
static uint64_t rng, seeds;
static int ring = -1;
static bool locked;
static pthread_t thread;
static _Atomic bool runs, ends;

static unsigned rnd(unsigned below)
{
	return (unsigned)(mix(++rng) % below);
}

/* --- the model ------------------------------------------------------------- */

static void check_area(const struct area *a)
{
	static const uint8_t zeros[PAGE];

	for (unsigned i = 0; a->at && i < a->pages; i++) {
		const struct page *p = &a->page[i];
		const uint8_t *at = a->at + (size_t)i * PAGE;

		if (!p->is)
			continue;
		if (p->seed)
			CHECK(pattern_check(at, PAGE, p->seed) == PAGE);
		else
			CHECK(!memcmp(at, zeros, PAGE));
	}
}

static void check_all(void)
{
	for (int i = 0; i < AREAS; i++)
		check_area(&areas[i]);
}

static struct area *some_area(void)
{
	struct area *a = &areas[rnd(AREAS)];

	return a->at ? a : NULL;
}

/* Gets a range of pages of the area. */
static unsigned some_pages(const struct area *a, unsigned *n)
{
	unsigned first = rnd(a->pages);

	*n = 1 + rnd(a->pages - first);
	return first;
}

static bool are_there(const struct area *a, unsigned first, unsigned n, bool writable)
{
	for (unsigned i = first; i < first + n; i++)
		if (!a->page[i].is || (writable && a->page[i].fixed))
			return false;
	return true;
}

static struct region *region_of(const struct area *a)
{
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].mr && regions[i].a == a)
			return &regions[i];
	return NULL;
}

/* --- what programs do ------------------------------------------------------- */

static void map(void)
{
	struct area *a = &areas[rnd(AREAS)];

	if (a->at)
		return;
	memset(a, 0, sizeof(*a));
	a->pages = 1 + rnd(PAGES);
	a->at = mmap(NULL, (size_t)a->pages * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(a->at != MAP_FAILED);
	for (unsigned i = 0; i < a->pages; i++)
		a->page[i].is = true;
}

static void unmap(void)
{
	struct area *a = some_area();
	unsigned first = 0, n;

	if (!a)
		return;
	n = a->pages;
	if (rnd(4) || region_of(a))
		first = some_pages(a, &n);
	/* In a gap there may be another area by now. */
	if (!are_there(a, first, n, false))
		return;
	CHECK(!munmap(a->at + (size_t)first * PAGE, (size_t)n * PAGE));
	for (unsigned i = first; i < first + n; i++)
		a->page[i].is = false;
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].mr && regions[i].a == a)
			regions[i].stale = true;
	if (n == a->pages && !region_of(a))
		a->at = NULL;
}

static void fill(struct area *a, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		if (!a->page[i].is || a->page[i].fixed)
			continue;
		a->page[i].seed = ++seeds;
		pattern_fill(a->at + (size_t)i * PAGE, PAGE, seeds);
	}
}

static void store(void)
{
	struct area *a = some_area();
	unsigned first, n;

	if (!a)
		return;
	first = some_pages(a, &n);
	fill(a, first, n);
}

static void protect_some(void)
{
	struct area *a = some_area();
	bool fixed = rnd(2);
	unsigned first, n;

	if (!a)
		return;
	first = some_pages(a, &n);
	if (!are_there(a, first, n, false))
		return;
	CHECK(!mprotect(a->at + (size_t)first * PAGE, (size_t)n * PAGE,
			PROT_READ | (fixed ? 0 : PROT_WRITE)));
	a->split = true;
	for (unsigned i = first; i < first + n; i++)
		a->page[i].fixed = fixed;
}

/* MADV_DONTNEED gives zeros, all other advice changes nothing. */
static void advise(void)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_DONTNEED,	MADV_WILLNEED, MADV_COLD,   MADV_PAGEOUT,
		MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_RANDOM,
	};
	int how = advice[rnd(sizeof(advice) / sizeof(advice[0]))];
	struct area *a = some_area();
	unsigned first, n;

	if (!a)
		return;
	first = some_pages(a, &n);
	/* Locked pages take no MADV_DONTNEED. */
	if (!are_there(a, first, n, false) || (locked && how == MADV_DONTNEED))
		return;
	(void)madvise(a->at + (size_t)first * PAGE, (size_t)n * PAGE, how);
	a->split |= how != MADV_DONTNEED && how != MADV_WILLNEED;
	for (unsigned i = first; how == MADV_DONTNEED && i < first + n; i++)
		a->page[i].seed = 0;
}

/* Does something keep pages a file's? */
static bool may_stay(void)
{
	const char *beside_threads = getenv("URNIC_MAP_THREADS");

	return ring >= 0 || runs || (beside_threads && !strcmp(beside_threads, "yes"));
}

static void resize(void)
{
	struct area *a = some_area();
	unsigned pages;
	uint8_t *at;

	if (!a || !are_there(a, 0, a->pages, true))
		return;
	pages = 1 + rnd(PAGES);
	at = mremap(a->at, (size_t)a->pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
	if (at == MAP_FAILED) {
		/* Some pages are a file's, so the area is several mappings. */
		CHECK(errno == EFAULT ? a->split : errno == ENOMEM && may_stay());
		return;
	}
	for (unsigned i = a->pages; i < pages; i++)
		a->page[i] = (struct page){ .is = true };
	for (int i = 0; i < REGIONS; i++)
		if (regions[i].mr && regions[i].a == a)
			regions[i].stale |= at != a->at || pages < a->pages;
	a->at = at;
	a->pages = pages;
}

static void lock_some(void)
{
	struct area *a = some_area();
	unsigned first, n;

	if (locked) {
		CHECK(!munlockall());
		locked = false;
	} else if (a) {
		first = some_pages(a, &n);
		n = n > 8 ? 8 : n;
		if (are_there(a, first, n, false))
			locked = !mlock(a->at + (size_t)first * PAGE, (size_t)n * PAGE);
		a->split = true;
	}
}

/* A descriptor of io_uring is opened, or closed again. */
static void have_ring(void)
{
	uint64_t params[15] = { 0 }; /* struct io_uring_params */

	if (ring >= 0) {
		CHECK(!close(ring));
		ring = -1;
	} else {
		ring = (int)syscall(SYS_io_uring_setup, 1, params);
	}
}

static void *idle(void *arg)
{
	while (!ends)
		crew_nap();
	return arg;
}

static void have_thread(void)
{
	if (runs) {
		ends = true;
		CHECK(!pthread_join(thread, NULL));
		ends = runs = false;
	} else {
		CHECK(!pthread_create(&thread, NULL, idle, NULL));
		runs = true;
	}
}

/* A child has all memory as it was at the fork, whatever its parent and the other process
 * store, and what it stores is its own. */
static void have_child(void)
{
	int turn[2];
	pid_t pid;
	char c;

	CHECK(!pipe(turn));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(read(turn[0], &c, 1) == 1);
		check_all();
		for (int i = 0; i < AREAS; i++)
			if (areas[i].at)
				fill(&areas[i], 0, areas[i].pages);
		check_all();
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		store();
	CHECK(write(turn[1], "", 1) == 1);
	crew_reap(pid);
	close(turn[0]);
	close(turn[1]);
}

static void spawn_other(void)
{
	char *argv[] = { "true", NULL }, *envp[] = { NULL };
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, envp));
	crew_reap(pid);
}

/* --- regions ---------------------------------------------------------------- */

static void have_region(void)
{
	struct region *g = &regions[rnd(REGIONS)];
	struct area *a = some_area();
	unsigned first, n;
	size_t off;

	if (g->mr || !a)
		return;
	first = some_pages(a, &n);
	if (!are_there(a, first, n, true))
		return;
	/* A region of several pages begins and ends in the middle of one. */
	off = n > 1 ? 100 : 0;
	g->mr = ibv_reg_mr(r.pd, a->at + (size_t)first * PAGE + off,
			   (size_t)n * PAGE - 2 * off, RIG_ACCESS);
	CHECK(g->mr);
	g->a = a;
	g->first = n > 1 ? first + 1 : first;
	g->pages = n > 2 ? n - 2 : n == 1;
	g->stale = false;
}

static void drop_region(struct region *g)
{
	if (g->mr)
		CHECK(!ibv_dereg_mr(g->mr));
	g->mr = NULL;
}

/* The other process reads or writes a page of a region, several times. */
static void use_region(void)
{
	struct region *g = &regions[rnd(REGIONS)];
	struct page *p;
	unsigned i;

	if (!g->mr || g->stale || !g->pages)
		return;
	i = g->first + rnd(g->pages);
	p = &g->a->page[i];
	if (!p->is || p->fixed)
		return;
	sh->write = rnd(2);
	sh->seed = sh->write ? ++seeds : p->seed;
	sh->addr = (uint64_t)(uintptr_t)(g->a->at + (size_t)i * PAGE);
	sh->rkey = g->mr->rkey;
	sh->times = rnd(3) ? 1 : USES;
	sh->asked++;
	crew_wait(&sh->done, sh->asked);
	p->seed = sh->seed;
}

/* --- the two processes -------------------------------------------------------- */

static void step(void)
{
	switch (rnd(24)) {
	case 0:
		map();
		break;
	case 1:
		unmap();
		break;
	case 2:
		protect_some();
		break;
	case 3:
	case 4:
		advise();
		break;
	case 5:
		resize();
		break;
	case 6:
		lock_some();
		break;
	case 7:
		have_ring();
		break;
	case 8:
		have_thread();
		break;
	case 9:
		have_child();
		break;
	case 10:
		spawn_other();
		break;
	case 11:
		drop_region(&regions[rnd(REGIONS)]);
		break;
	case 12:
	case 13:
	case 14:
		have_region();
		break;
	case 15:
	case 16:
		store();
		break;
	default:
		use_region();
		break;
	}
}

static bool any_is_a_file(void)
{
	for (int i = 0; i < AREAS; i++)
		for (unsigned j = 0; areas[i].at && j < areas[i].pages; j++)
			if (areas[i].page[j].is &&
			    is_a_file(areas[i].at + (size_t)j * PAGE))
				return true;
	return false;
}

/* Pages that had to stay a file's become private when another region is deregistered,
 * once nothing forbids it: neither a thread, nor a ring while the other process maps
 * them. Tries are not made again at once. */
static void end_all(void)
{
	double since = now_s();

	for (int i = 0; i < REGIONS; i++)
		drop_region(&regions[i]);
	if (runs)
		have_thread();
	if (ring >= 0)
		have_ring();
	while (any_is_a_file() && !may_stay()) {
		struct ibv_mr *mr = ibv_reg_mr(r.pd, r.buf, PAGE, RIG_ACCESS);

		CHECK(mr && !ibv_dereg_mr(mr));
		CHECK(now_s() - since < 20);
		crew_nap();
	}
	check_all();
}

static void be_owner(void *arg)
{
	(void)arg;
	rng = mix(lopt.seed) << 8;
	rig_open(&r);
	qp = rig_qp(&r);
	sh->owner = crew_card(&r, qp);
	sh->joined++;
	crew_wait(&sh->joined, 2);
	crew_join(&r, qp, &sh->user);
	sh->joined++;
	crew_wait(&sh->joined, 4);
	for (unsigned i = 0; i < lopt.count; i++) {
		step();
		check_all();
	}
	end_all();
	sh->over = true;
	sh->asked++;
}

static void use(void)
{
	struct card at = { .addr = sh->addr, .rkey = sh->rkey };
	static const uint8_t zeros[PAGE];

	if (sh->write)
		pattern_fill(r.buf, PAGE, sh->seed);
	for (uint32_t i = 0; i < sh->times; i++) {
		if (!sh->write)
			memset(r.buf, 0x5a, PAGE);
		crew_expect(&r, qp, &at, sh->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			    0, PAGE, 0);
		if (sh->seed)
			CHECK(pattern_check(r.buf, PAGE, sh->seed) == PAGE);
		else
			CHECK(!memcmp(r.buf, zeros, PAGE));
	}
}

static void be_user(void *arg)
{
	uint32_t n = 0;

	(void)arg;
	rig_open(&r);
	qp = rig_qp(&r);
	sh->user = crew_card(&r, qp);
	sh->joined++;
	crew_wait(&sh->joined, 2);
	crew_join(&r, qp, &sh->owner);
	sh->joined++;
	for (;;) {
		crew_wait(&sh->asked, ++n);
		if (sh->over)
			return;
		use();
		sh->done = n;
	}
}

int model(void)
{
	pid_t owner, user;

	sh = crew_share(sizeof(*sh));
	owner = crew_fork(be_owner, NULL);
	user = crew_fork(be_user, NULL);
	crew_reap(owner);
	crew_reap(user);
	say("all right");
	return 0;
}
