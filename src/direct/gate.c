/* SPDX-License-Identifier: BSD-2-Clause */
/* gate.c - the page through which a peer reaches this process's memory, and how
 * control calls wait for processes inside (docs/dev/direct.md, "Leaving"). Each peer has
 * its own page.
 *
 * A peer's WRITE is one system call, which the kernel executes in order: a count into
 * the page, the data, the count again. So a call that begins after the page was
 * replaced writes nothing, and the page shows whether a call that had begun has ended.
 * The page is a memfd's: the kernel seals such memory against writing only while
 * nothing holds a reference, so after sealing no call is between finding the page and
 * writing to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "direct/direct.h"
#include "direct/share.h"
#include "direct/words.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/mr.h"

enum {
	PAGE = 4096,
	ALIGN = 1 << 16, /* page size on some machines */
	NAP_NS = 20000,
	DEATH_NS = 5000000, /* from this wait on, look whether the process has died */
	BRIEF_NS = 5000000, /* a process that is inside for less is not given up */
};
#ifndef F_SEAL_WRITE
#define F_SEAL_WRITE 0x0008
#endif

/* --- the page ------------------------------------------------------------ */

/* Maps the page at a random address where no other program has one, so that a program
 * started by exec, or one that gets this process's number, is not written to. NULL:
 * failed. */
static void *map_lonely(int fd)
{
	enum { TRIES = 48, MOST_BITS = 46, TRIES_PER_BIT = 4 };
	void *at;
	uint64_t where;

	/* The number of valid address bits is unknown: start with the most and try
	 * fewer. */
	for (unsigned i = 0; i < TRIES; i++) {
		if (getrandom(&where, sizeof(where), GRND_NONBLOCK) != sizeof(where))
			return NULL;
		where >>= 64 - MOST_BITS + i / TRIES_PER_BIT;
		where -= where % ALIGN;
		/* The address is a hint, which the kernel follows if the place is
		 * free. (MAP_FIXED_NOREPLACE is not used because ThreadSanitizer makes
		 * NULL of it.) */
		at = mmap((void *)(uintptr_t)where, PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
		if (at == (void *)(uintptr_t)where)
			return at;
		if (at != MAP_FAILED)
			munmap(at, PAGE);
	}
	/* A sanitizer allows none of these addresses. */
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

bool gate_open(struct gate *g)
{
	struct gate_page *page = NULL;
	uint64_t value[4];

	if (g->page)
		return true;
	if (getrandom(value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		return false;
	g->fd = fd_memory("urnic-gate", PAGE);
	if (g->fd < 0)
		return false;
	if (fd_identify(g->fd, &g->id) == 0)
		page = map_lonely(g->fd);
	if (!page) {
		close(g->fd);
		g->fd = -1;
		return false;
	}
	madvise(page, PAGE, MADV_DONTFORK);
	memcpy(page->value, value, sizeof(page->value));
	memcpy(page->proof, value + 2, sizeof(page->proof));
	g->page = page;
	unseen_gate(&g->unseen, &page->counts, false);
	return true;
}

bool gate_is_proved(const struct gate *g, const uint64_t proof[2])
{
	return g->page && !g->shut &&
	       !memcmp(g->page->proof, proof, sizeof(g->page->proof));
}

struct nonce gate_nonce(const struct gate *g)
{
	return (struct nonce){ (uintptr_t)g->page,
			       { g->page->value[0], g->page->value[1] } };
}

/* Replaces the page by inaccessible memory, so that nothing else comes to lie at its
 * address. */
static void gate_shut(struct gate *g)
{
	if (g->shut || !g->page)
		return;
	g->shut = true;
	unseen_gate(&g->unseen, NULL, true);
	if (mmap(g->page, PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		munmap(g->page, PAGE);
}

/* fd: memory of a page that is shut. Have all WRITEs ended that had begun? Sleeps
 * while the kernel holds a reference to the page. */
static bool is_quiet(int fd)
{
	struct gate_counts n;

	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE))
		return false;
	return pread(fd, &n, sizeof(n), offsetof(struct gate_page, counts)) ==
		       sizeof(n) &&
	       n.begun == n.ended;
}

/* Returns the caller's own descriptor of the page, for use without the turn; -1: the
 * program has closed ours. */
static int memory_of(const struct gate *g)
{
	return fd_is(g->fd, &g->id) ? fd_raise(fcntl(g->fd, F_DUPFD_CLOEXEC, 0)) : -1;
}

void gate_close(struct gate *g)
{
	unseen_gate(&g->unseen, NULL, false);
	if (g->page)
		munmap(g->page, PAGE);
	g->page = NULL;
	if (g->fd >= 0 && fd_is(g->fd, &g->id))
		close(g->fd);
	g->fd = -1;
	g->shut = false;
}

void gate_forked(struct gate *g)
{
	g->page = NULL;
	gate_close(g);
}

void gate_end(struct reach *r, bool gone)
{
	gate_shut(&r->gate);
	r->parted |= gone;
	if (gone && r->pid <= 0)
		r->told = false;
}

/* --- processes inside ----------------------------------------------------- */

struct whom {
	struct insiders who;
	const struct mkey *mk;	     /* the region whose key has ended, or NULL */
	bool taking;		     /* for gate_wait_others() */
	const struct insiders *gone; /* threads that need no wait, or NULL */
};

static bool is_of(const struct insiders *who, uint64_t word)
{
	return (word & who->mask) == who->want;
}

/* Memory cannot be taken from under this one: it must leave by itself. */
static bool must_leave(const struct whom *whom, uint64_t word)
{
	return whom->taking && !(whom->gone && is_of(whom->gone, word));
}

static bool may_be_inside(const struct reach *r)
{
	return r->told && r->theirs;
}

/* Has the process with this number ended? */
static bool has_died(pid_t pid)
{
	struct pollfd p = { .events = POLLIN };
	bool died;

	if (pid <= 0)
		return false;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return kill(pid, 0) && errno == ESRCH;
	died = poll(&p, 1, 0) == 1;
	close(p.fd);
	return died;
}

/* Identifies a peer's process. */
struct whose {
	pid_t pid;
	bool parted;
	struct export_life life; /* life.at 0: unknown */
};

static struct whose whose(const struct reach *r)
{
	struct whose w = { .pid = r->pid, .parted = r->parted };

	if (r->exports)
		w.life = r->exports->life;
	return w;
}

/* Is the process another program now, by exec (which also ends its connection) or
 * because its number was given to another process? */
static bool is_another(const struct whose *w)
{
	struct export_life got;
	struct iovec here = { &got, sizeof(got) };
	struct iovec there = { (void *)(uintptr_t)w->life.at, sizeof(got) };
	ssize_t n;

	if (!w->parted || !w->life.at || w->pid <= 0)
		return false;
	n = process_vm_readv(w->pid, &here, 1, &there, 1, 0);
	return n < 0 ? errno == EFAULT
		     : n != sizeof(got) || memcmp(&got, &w->life, sizeof(got)) != 0;
}

/* Has the peer's program ended, so that none of its threads is inside? */
static bool has_gone(const struct whose *w)
{
	return has_died(w->pid) || is_another(w);
}

/* Identifies a word by which a peer says that it is inside: word 0 is for its system
 * calls, the others for its threads that have our memory mapped. */
struct place {
	uint64_t number; /* reach.number of the peer */
	unsigned i;
	bool tried; /* taking away its mapping was tried */
};

static uint64_t word_at(const struct reach *r, unsigned i)
{
	uint64_t word;

	if (i == 0)
		return may_be_inside(r) ? atomic_load(r->theirs) : 0;
	if (!r->lent || !r->exports)
		return 0;
	word = atomic_load(&r->exports->thread[i - 1].inside);
	if (word == r->harmless[i - 1] ||
	    qpn_slot((uint32_t)(word >> INSIDE_QPN_AT) & QPN_MASK) != r->d->core->slot)
		return 0;
	return word;
}

/* How often the thread with that word has entered. */
static uint32_t entries_at(const struct reach *r, unsigned i)
{
	return i && r->exports ? atomic_load(&r->exports->thread[i - 1].entries) : 0;
}

/* Finds the next word, after the given place, that says inside. */
static struct reach *next_inside(struct direct *d, const struct whom *whom,
				 struct place *at, uint64_t *word)
{
	list_for(n, &d->reaches)
	{
		struct reach *r = container_of(n, struct reach, node);
		unsigned i = r->number == at->number ? at->i + 1 : 0;

		if (r->number < at->number)
			continue;
		for (; i <= (r->lent ? EXPORT_THREADS : 0); i++) {
			*word = word_at(r, i);
			if (*word && is_of(&whom->who, *word)) {
				*at = (struct place){ r->number, i, false };
				return r;
			}
		}
	}
	return NULL;
}

static bool is_inside(const struct reach *r)
{
	for (unsigned i = 0; i <= EXPORT_THREADS; i++)
		if (word_at(r, i))
			return true;
	return false;
}

bool gate_left(struct reach *r, uint64_t now)
{
	enum { LOOK_NS = 10000000 };
	struct whose w;

	if (!is_inside(r))
		return true;
	if (now - r->left_at < LOOK_NS)
		return false;
	r->left_at = now;
	w = whose(r);
	return has_gone(&w);
}

static struct reach *find_reach(struct core *core, uint64_t number)
{
	const struct direct *d = direct_of(core);

	if (d)
		list_for(n, &d->reaches)
		{
			struct reach *r = container_of(n, struct reach, node);

			if (r->number == number)
				return r;
		}
	return NULL;
}

/* Returns the peer of that place if its word is unchanged; else NULL. */
static struct reach *still_inside(struct core *core, struct place at, uint64_t word)
{
	struct reach *r = find_reach(core, at.number);

	return r && word_at(r, at.i) == word ? r : NULL;
}

/* Shuts the gate for a peer that seems to be stopped. */
static void shut_out(struct reach *r, uint64_t word)
{
	if (r->gate.shut)
		return;
	gate_shut(&r->gate);
	log_warn("slot %u, process %d: the process seems to be stopped "
		 "while it writes to the region of key 0x%08x: until it "
		 "asks for access again, its WRITE and READ go through "
		 "shared memory",
		 r->slot, (int)r->pid, (uint32_t)(word >> INSIDE_KEY_AT));
}

enum seen { OUT, INSIDE, STUCK };

static void tell_stuck(const struct reach *r, struct place at, uint64_t word,
		       uint64_t waited)
{
	unsigned ms = (unsigned)(waited / 1000000);
	uint32_t key = (uint32_t)(word >> INSIDE_KEY_AT);

	if (at.i)
		log_error("slot %u, process %d: for %u ms the process has been "
			  "stopped while it uses the region of key 0x%08x, which it "
			  "has mapped: the wait for it ends, and it may still write "
			  "to that memory",
			  r->slot, (int)r->pid, ms, key);
	else
		log_error("slot %u, process %d: for %u ms the kernel has been "
			  "copying for that process to the region of key 0x%08x: the "
			  "wait for it ends, and it may still write to that memory",
			  r->slot, (int)r->pid, ms, key);
}

/* How long a wait has lasted. */
struct waited {
	uint64_t here; /* ns, for the word under way, which has not changed */
	uint64_t all;  /* ns, since the call began to wait */
};

/* A word that a call has given up on and that is still there is not waited for again:
 * else to end a hundred QPs would take a hundred times as long. */
static bool is_given_up(const struct reach *r, struct place at, uint64_t word)
{
	const struct direct *d = r->d;

	return d->gave_up.number == at.number && d->gave_up.i == at.i &&
	       d->gave_up.word == word && d->gave_up.entries == entries_at(r, at.i);
}

/* Is the peer to be treated as one that is stopped? */
static bool is_late(const struct reach *r, struct place at, uint64_t word,
		    const struct waited *w)
{
	return w->here > r->d->patience_ns ||
	       (w->here > BRIEF_NS &&
		(w->all > r->d->give_up_ns || is_given_up(r, at, word)));
}

static bool gives_up(const struct reach *r, struct place at, uint64_t word,
		     const struct waited *w)
{
	struct direct *d = r->d;

	if (w->here <= BRIEF_NS || (w->all <= d->give_up_ns && !is_given_up(r, at, word)))
		return false;
	d->gave_up.entries = entries_at(r, at.i);
	d->gave_up.number = at.number;
	d->gave_up.i = at.i;
	d->gave_up.word = word;
	return true;
}

/* Decides about a peer whose word has been unchanged for w->here. ended: its last
 * copy has ended too. */
static enum seen judge_word(struct core *core, struct place at, uint64_t word,
			    const struct waited *w, bool ended)
{
	enum seen seen = OUT;
	struct reach *r;

	turn_take(&core->turn);
	r = still_inside(core, at, word);
	if (r && ended) {
		*(at.i ? &r->lent : &r->told) = false;
	} else if (r) {
		seen = gives_up(r, at, word, w) ? STUCK : INSIDE;
		if (seen == STUCK)
			tell_stuck(r, at, word, w->here);
	}
	turn_give(&core->turn);
	return seen;
}

/* A thread of the peer seems to be stopped while it uses memory that it has mapped:
 * makes the region private again. True: its mapping is no longer the region, or will
 * not be once all other threads are out. */
static bool take_away(struct core *core, const struct whom *whom, struct place *at,
		      uint64_t word)
{
	uint32_t key = (uint32_t)(word >> INSIDE_KEY_AT);
	struct reach *r;

	if (whom->taking)
		return true;
	if (at->tried)
		return false;
	at->tried = true;
	if (!share_take_back(core, key, whom->mk, &whom->who))
		return false;
	turn_take(&core->turn);
	r = find_reach(core, at->number);
	if (r)
		log_warn("slot %u, process %d: the process seems to be stopped "
			 "while it uses the region of key 0x%08x, which it has "
			 "mapped: that mapping is cut off from the region, and what "
			 "the process writes there is lost",
			 r->slot, (int)r->pid, key);
	turn_give(&core->turn);
	return true;
}

/* Examines a peer whose word has been unchanged for waited->here. Steps that may sleep
 * run without the turn. */
static enum seen look_inside(struct core *core, const struct whom *whom,
			     struct place *place, uint64_t word,
			     const struct waited *waited)
{
	const struct place at = *place;
	const bool stays = must_leave(whom, word);
	bool shut = false, late, ended;
	struct whose w = { 0 };
	struct reach *r;
	int fd = -1;

	turn_take(&core->turn);
	r = still_inside(core, at, word);
	late = r && is_late(r, at, word, waited);
	if (at.i == 0 && late && !stays)
		shut_out(r, word);
	if (r && at.i == 0 && r->gate.shut) {
		shut = true;
		fd = memory_of(&r->gate);
	}
	if (r)
		w = whose(r);
	turn_give(&core->turn);
	if (!r)
		return OUT;
	if (!shut && (at.i == 0 || waited->here < DEATH_NS))
		return late && stays ? STUCK : INSIDE;
	ended = has_gone(&w) || (shut && is_quiet(fd));
	if (fd >= 0)
		close(fd);
	if (!ended && late && stays)
		return STUCK;
	if (!ended && at.i && late && take_away(core, whom, place, word))
		return OUT;
	return judge_word(core, at, word, waited, ended);
}

/* Waits until all that are inside now have left. Later arrivals see the changed export
 * table. began: when the call began to wait, ns. Returns 0 or -EBUSY. */
static int wait_for(struct core *core, struct whom whom, uint64_t began)
{
	struct direct *d = direct_of(core);
	struct place at = { 0, 0, false };
	uint64_t word, start, now;
	struct waited waited;
	struct reach *r;
	enum seen seen;

	/* Peer threads with our memory mapped use no fence of their own. */
	if (d && atomic_load(&d->lent))
		words_barrier();
	for (;;) {
		turn_take(&core->turn);
		r = d ? next_inside(d, &whom, &at, &word) : NULL;
		turn_give(&core->turn);
		if (!r)
			return 0;
		start = clock_ns();
		for (;;) {
			now = clock_ns();
			waited = (struct waited){ now - start, now - began };
			seen = look_inside(core, &whom, &at, word, &waited);
			if (seen != INSIDE)
				break;
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		}
		if (seen == STUCK)
			return -EBUSY;
	}
}

/* Waits for threads of this process, which may also use the region, and may be blocked
 * on memory that does not come. */
static int wait_for_threads(struct core *core, uint32_t key)
{
	const struct direct *d = direct_of(core);
	const uint64_t most = d ? d->give_up_ns : 0;
	uint32_t other;

	if (words_pass(core, most, &other) == 0)
		return 0;
	log_error("for %u ms a thread of this process has been copying to or "
		  "from another process's region of key 0x%08x: nobody waits "
		  "for it any longer, and it may still use the region of key "
		  "0x%08x",
		  (unsigned)(most / 1000000), other, key);
	return -EBUSY;
}

static struct whom by_key(uint32_t key)
{
	return (struct whom){ .who = { (uint64_t)UINT32_MAX << INSIDE_KEY_AT,
				       (uint64_t)key << INSIDE_KEY_AT } };
}

int gate_wait_key(struct core *core, const struct mkey *mk)
{
	const uint64_t began = clock_ns();
	struct whom whom = by_key(mk->key);
	int rc = wait_for_threads(core, mk->key);

	whom.mk = mk;
	return rc ? rc : wait_for(core, whom, began);
}

int gate_wait_others(struct core *core, uint32_t key, const struct insiders *gone)
{
	struct whom whom = by_key(key);

	whom.taking = true;
	whom.gone = gone;
	return wait_for(core, whom, clock_ns());
}

void gate_is_harmless(struct core *core, uint32_t key)
{
	turn_take(&core->turn);
	list_for(n, &direct_of(core)->reaches)
	{
		struct reach *r = container_of(n, struct reach, node);

		for (unsigned i = 1; r->exports && i <= EXPORT_THREADS; i++) {
			uint64_t word = word_at(r, i);

			if (word && (uint32_t)(word >> INSIDE_KEY_AT) == key)
				r->harmless[i - 1] = word;
		}
	}
	turn_give(&core->turn);
}

void gate_is_lent(struct reach *r, uint32_t key)
{
	for (unsigned i = 0; i < EXPORT_THREADS; i++)
		if ((uint32_t)(r->harmless[i] >> INSIDE_KEY_AT) == key)
			r->harmless[i] = 0;
}

int direct_fence(struct core *core, uint32_t qpn)
{
	if (!core->exports)
		return 0;
	return wait_for(core,
			(struct whom){ .who = { (uint64_t)QPN_MASK << INSIDE_QPN_AT,
						(uint64_t)qpn << INSIDE_QPN_AT } },
			clock_ns());
}
