/* SPDX-License-Identifier: BSD-2-Clause */
/* ward.c - see ward.h.
 *
 * The lock is taken in the handler of SIGSEGV.  Whoever has it touches no memory of the
 * program's, and no other handler interrupts him: so it is another thread's, which goes
 * on. */
#include "check/ward.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/guard.h"

enum {
	WARDS = 8192, /* each may split a mapping in three, of 65,530 */
	PAGES = 65536,
	CHAINS = 16384,
	TRIES = 100,	     /* of an instruction whose page is open */
	STACK_MIN = 64 << 10 /* of a handler that reports */
};

enum access { OPEN, TO_WRITES, TO_ALL };

struct ward {
	struct ward *next; /* of its request, or spare */
	struct list node;  /* in shut[reads], while a page of it may be shut */
	uint64_t lo;
	/* Its pages are among these at any instruction of the thread that has the lock:
	 * 0 while lo changes. */
	_Atomic uint64_t len;
	bool reads;
	struct ward_note note;
};

struct page {
	struct page *next; /* in its chain, or spare */
	uint64_t at;
	struct ward *shut_by; /* NULL: it is open */
	uint32_t wards;	      /* that have it */
};

static struct lock lock;
static struct ward ward_pool[WARDS] GUARDED_BY(lock), *ward_spare GUARDED_BY(lock);
static struct page page_pool[PAGES] GUARDED_BY(lock), *page_spare GUARDED_BY(lock);
static uint32_t wards_used GUARDED_BY(lock), pages_used GUARDED_BY(lock);
static struct page *chain[CHAINS] GUARDED_BY(lock);
static struct list shut[2] GUARDED_BY(lock);
static bool stopped GUARDED_BY(lock);
static uint64_t page_size;
static pid_t owner;
static void (*tell_touch)(const struct ward_touch *t);

static void take_lock(sigset_t *was) ACQUIRES(lock)
{
	signals_hold(was);
	lock_take(&lock);
}

static void give_lock(const sigset_t *was) RELEASES(lock)
{
	lock_give(&lock);
	signals_let(was);
}

/* --- pages -------------------------------------------------------------------- */

static struct page **place_of(uint64_t at) REQUIRES(lock)
{
	struct page **p = &chain[at / page_size * 0x9e3779b97f4a7c15u >> 50];

	while (*p && (*p)->at != at)
		p = &(*p)->next;
	return p;
}

/* Returns the page's entry, maybe a new one; NULL: there is no room. */
static struct page *have_page(uint64_t at) REQUIRES(lock)
{
	struct page **place = place_of(at), *p = *place;

	if (p)
		return p;
	p = page_spare;
	if (p)
		page_spare = p->next;
	else if (pages_used < PAGES)
		p = &page_pool[pages_used++];
	else
		return NULL;
	*p = (struct page){ .at = at };
	*place = p;
	return p;
}

static void leave_page(uint64_t at) REQUIRES(lock)
{
	struct page **place = place_of(at), *p = *place;

	if (!p || --p->wards)
		return;
	*place = p->next;
	p->next = page_spare;
	page_spare = p;
}

/* Neighbours that get the same protection, by one call */
struct run {
	uint64_t lo, hi;
	enum access to;
};

static void protect_run(struct run *r)
{
	static const int prot[] = { [OPEN] = PROT_READ | PROT_WRITE,
				    [TO_WRITES] = PROT_READ,
				    [TO_ALL] = PROT_NONE };

	if (r->lo != r->hi)
		mprotect((void *)(uintptr_t)r->lo, r->hi - r->lo, prot[r->to]);
	r->lo = r->hi;
}

static void add_page(struct run *r, uint64_t at, enum access to)
{
	if (at != r->hi || to != r->to) {
		protect_run(r);
		*r = (struct run){ at, at, to };
	}
	r->hi += page_size;
}

static void open_page(struct run *r, struct page *p) REQUIRES(lock)
{
	if (p && p->shut_by) {
		p->shut_by = NULL;
		add_page(r, p->at, OPEN);
	}
}

/* --- wards -------------------------------------------------------------------- */

static void open_ward(struct ward *w) REQUIRES(lock)
{
	struct run r = { 0 };

	list_del(&w->node);
	for (uint64_t n = 0; n < w->len; n += page_size) {
		struct page *p = *place_of(w->lo + n);

		if (p && p->shut_by == w)
			open_page(&r, p);
	}
	protect_run(&r);
}

/* A page that another request has, too, is open; but two that only read it have no
 * quarrel. */
static void shut_ward(struct ward *w) REQUIRES(lock)
{
	struct run r = { 0 };

	for (uint64_t n = 0; n < w->len; n += page_size) {
		struct page *p = *place_of(w->lo + n);

		if (p->wards == 1) {
			p->shut_by = w;
			add_page(&r, p->at, w->reads ? TO_ALL : TO_WRITES);
		} else if (w->reads || (p->shut_by && p->shut_by->reads)) {
			open_page(&r, p);
		}
	}
	protect_run(&r);
}

static struct ward *make_ward(void) REQUIRES(lock)
{
	struct ward *w = ward_spare;

	if (stopped)
		return NULL;
	if (w)
		ward_spare = w->next;
	else if (wards_used < WARDS)
		w = &ward_pool[wards_used++];
	return w;
}

struct ward *ward_begin(uint64_t at, uint64_t len, bool reads,
			const struct ward_note *note, struct ward *next)
{
	const uint64_t lo = (at + page_size - 1) / page_size * page_size,
		       hi = (at + len) / page_size * page_size;
	struct page *p;
	struct ward *w;
	sigset_t was;

	if (lo >= hi)
		return next;
	guard_arm(); /* in front of a handler that the program has installed */
	take_lock(&was);
	w = make_ward();
	if (w) {
		w->next = next;
		w->lo = lo;
		w->reads = reads;
		w->note = *note;
		list_add_tail(&shut[reads], &w->node);
		for (; lo + w->len < hi && (p = have_page(lo + w->len));
		     w->len += page_size)
			p->wards++;
		shut_ward(w);
	}
	give_lock(&was);
	return w ? w : next;
}

static struct ward *end_one(struct ward *w) REQUIRES(lock)
{
	struct ward *next = w->next;

	open_ward(w);
	for (uint64_t n = 0; n < w->len; n += page_size)
		leave_page(w->lo + n);
	w->len = 0;
	w->next = ward_spare;
	ward_spare = w;
	return next;
}

void ward_end(struct ward *w)
{
	sigset_t was;

	take_lock(&was);
	while (w)
		w = end_one(w);
	give_lock(&was);
}

static void open_list(struct list *l, uint64_t at, uint64_t len) REQUIRES(lock)
{
	list_for_safe(n, l)
	{
		struct ward *w = container_of(n, struct ward, node);

		if (at < w->lo ? w->lo - at < len : at - w->lo < w->len)
			open_ward(w);
	}
}

static void open_all(void) REQUIRES(lock)
{
	open_list(&shut[false], 0, UINT64_MAX);
	open_list(&shut[true], 0, UINT64_MAX);
}

void ward_open(uint64_t at, uint64_t len)
{
	sigset_t was;

	take_lock(&was);
	open_list(&shut[false], at, len);
	open_list(&shut[true], at, len);
	give_lock(&was);
}

void ward_open_sends(void)
{
	sigset_t was;

	take_lock(&was);
	open_list(&shut[false], 0, UINT64_MAX);
	give_lock(&was);
}

void ward_stop(void)
{
	sigset_t was;

	take_lock(&was);
	stopped = true;
	open_all();
	give_lock(&was);
}

/* --- touches ------------------------------------------------------------------ */

/* The page is open: another thread has opened it since the fault. But if that goes on,
 * it was the program that has protected it. */
static bool may_try_again(uintptr_t at)
{
	static __thread uintptr_t last __attribute__((tls_model("initial-exec")));
	static __thread unsigned tries __attribute__((tls_model("initial-exec")));

	tries = at == last ? tries + 1 : 0;
	last = at;
	return tries < TRIES;
}

/* Opens the ward that has shut the page at. Returns false if there is none. */
static bool open_touched(uintptr_t at, struct ward_touch *t)
{
	struct page *p;
	struct ward *w;
	sigset_t was;

	take_lock(&was);
	p = *place_of(at / page_size * page_size);
	w = p ? p->shut_by : NULL;
	if (w) {
		t->note = w->note;
		t->wrote |= !w->reads;
		open_ward(w);
	}
	give_lock(&was);
	return w;
}

/* Is there room to unwind and print? Some programs have small stacks for handlers. */
static bool has_stack(void)
{
	stack_t s;

	return sigaltstack(NULL, &s) || !(s.ss_flags & SS_ONSTACK) ||
	       s.ss_size >= STACK_MIN;
}

static bool is_touched(const struct guard_touch *g)
{
	struct ward_touch t = { .at = g->at, .by = g->by, .wrote = g->writes };

	if (!open_touched(g->at, &t))
		return may_try_again(g->at);
	if (!g->ours && getpid() == owner && has_stack())
		tell_touch(&t);
	return true;
}

/* --- fork, and start ------------------------------------------------------------ */

/* What the parent's requests use is the child's to read.  Another thread may have been
 * in the middle of a change: see ward.len. */
static NO_TSA void in_child(void)
{
	lock_init(&lock);
	stopped = true;
	for (uint32_t i = 0; i < wards_used; i++)
		if (ward_pool[i].len)
			mprotect((void *)(uintptr_t)ward_pool[i].lo, ward_pool[i].len,
				 PROT_READ | PROT_WRITE);
}

void ward_start(void (*fn)(const struct ward_touch *t))
{
	page_size = (uint64_t)getpagesize();
	owner = getpid();
	tell_touch = fn;
	lock_take(&lock);
	list_init(&shut[false]);
	list_init(&shut[true]);
	lock_give(&lock);
	pthread_atfork(NULL, NULL, in_child);
	guard_owner = is_touched;
}
