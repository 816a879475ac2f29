/* SPDX-License-Identifier: BSD-2-Clause */
/* gate.c - the page through which a peer reaches this process's memory, and how
 * control calls wait for who is inside (docs/local.md, "Leaving").
 *
 * Each peer has a page of its own.  A peer's WRITE is one system call, which the
 * kernel executes in order: a number into the page, the data, the number again.
 * So a call that begins when the page has been taken away writes nothing, and the
 * page shows whether one that has begun has ended.  The page is a memfd's, since
 * the kernel seals such memory against writing only when nobody holds on to it:
 * then no call is between finding the page and writing to it.
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
#include <time.h>
#include <unistd.h>

#include "local/local_qp.h"
#include "sys/log.h"

enum {
	PAGE = 4096,
	ALIGN = 1 << 16,	 /* some machines' pages are larger */
	PATIENCE_NS = 250000000, /* a copy takes microseconds */
	NAP_NS = 20000,
};
#ifndef F_SEAL_WRITE
#define F_SEAL_WRITE 0x0008
#endif

/* --- the page ------------------------------------------------------------ */

/* Where no other program has one: so what this process becomes by exec, or who gets
 * its number, is not written to.  NULL: nowhere. */
static void *map_lonely(int fd)
{
	enum { TRIES = 48, MOST_BITS = 46, TRIES_PER_BIT = 4 };
	void *at;
	uint64_t where;

	/* How large an address may be is not known. */
	for (unsigned i = 0; i < TRIES; i++) {
		if (getrandom(&where, sizeof(where), GRND_NONBLOCK) != sizeof(where))
			return NULL;
		where >>= 64 - MOST_BITS + i / TRIES_PER_BIT;
		where -= where % ALIGN;
		/* A hint, which is followed where nothing is in the way.  (Not
		 * MAP_FIXED_NOREPLACE: ThreadSanitizer makes NULL of it.) */
		at = mmap((void *)(uintptr_t)where, PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
		if (at == (void *)(uintptr_t)where)
			return at;
		if (at != MAP_FAILED)
			munmap(at, PAGE);
	}
	/* A sanitizer wants it elsewhere. */
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

bool gate_open(struct gate *g)
{
	uint64_t value[2];

	if (g->page)
		return true;
	if (getrandom(value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		return false;
	g->fd = fd_memory("urnic-gate", PAGE);
	if (g->fd < 0)
		return false;
	if (fd_identify(g->fd, &g->id) == 0)
		g->page = map_lonely(g->fd);
	if (!g->page) {
		close(g->fd);
		g->fd = -1;
		return false;
	}
	madvise(g->page, PAGE, MADV_DONTFORK);
	memcpy(g->page->value, value, sizeof(value));
	return true;
}

struct nonce gate_nonce(const struct gate *g)
{
	return (struct nonce){ (uintptr_t)g->page,
			       { g->page->value[0], g->page->value[1] } };
}

/* Nothing else may come to lie there. */
static void gate_shut(struct gate *g)
{
	if (g->shut || !g->page)
		return;
	if (mmap(g->page, PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		munmap(g->page, PAGE);
	g->shut = true;
}

/* It is shut, and this is its memory: has all ended that had begun?  Sleeps while
 * the kernel holds on to the page. */
static bool is_quiet(int fd)
{
	struct {
		uint64_t begun, ended;
	} n;

	static_assert(offsetof(struct gate_page, ended) ==
			      offsetof(struct gate_page, begun) + sizeof(n.begun),
		      "read at once");
	if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE))
		return false;
	return pread(fd, &n, sizeof(n), offsetof(struct gate_page, begun)) == sizeof(n) &&
	       n.begun == n.ended;
}

/* A descriptor for the caller alone, who lets go of the turn; -1: the program has
 * closed ours. */
static int memory_of(const struct gate *g)
{
	return fd_is(g->fd, &g->id) ? fd_raise(fcntl(g->fd, F_DUPFD_CLOEXEC, 0)) : -1;
}

void gate_close(struct gate *g)
{
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

void gate_end(struct peer *p, bool gone)
{
	gate_shut(&p->gate);
	if (gone && p->pid <= 0)
		p->told = false;
}

/* --- who is inside ------------------------------------------------------- */

/* Peers whose word is want, as far as mask goes. */
struct whom {
	uint64_t mask, want;
};

static bool may_be_inside(const struct peer *p)
{
	return p->told && p->theirs && p->pipe;
}

/* The process that had this number has ended. */
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

/* The first of a list that came after the one with that number and is inside. */
static struct peer *first_inside(struct list *peers, const struct whom *whom,
				 uint64_t after, uint64_t *word)
{
	list_for(n, peers)
	{
		struct peer *p = container_of(n, struct peer, node);

		if (p->number <= after || !may_be_inside(p))
			continue;
		*word = atomic_load(p->theirs);
		if (*word && (*word & whom->mask) == whom->want)
			return p;
	}
	return NULL;
}

/* The dead list has those whose connection has ended, not always their process. */
static struct peer *next_inside(struct local *l, const struct whom *whom, uint64_t after,
				uint64_t *word)
{
	struct peer *p = first_inside(&l->peers, whom, after, word);

	return p ? p : first_inside(&l->dead, whom, after, word);
}

bool gate_left(struct peer *p)
{
	enum { LOOK_NS = 10000000 };

	if (!may_be_inside(p) || !atomic_load(p->theirs))
		return true;
	if (p->l->now - p->left_at < LOOK_NS)
		return false;
	p->left_at = p->l->now;
	return has_died(p->pid);
}

/* The peer of that number, if its word is still that. */
static struct peer *still_inside(struct core *core, uint64_t number, uint64_t word)
{
	const struct whom all = { UINT64_MAX, word };
	struct peer *p = NULL;
	uint64_t now;

	if (core->local)
		p = next_inside(core->local, &all, number - 1, &now);
	return p && p->number == number ? p : NULL;
}

/* It seems to be stopped: it gets in no more. */
static void shut_out(struct peer *p, uint64_t word)
{
	if (p->gate.shut)
		return;
	gate_shut(&p->gate);
	log_warn("slot %u, process %d: it seems to be stopped while it writes to the "
		 "region of key 0x%08x: until it asks for another way in it reaches no "
		 "memory of this process directly, but by way of shared memory",
		 p->slot, (int)p->pid, (uint32_t)(word >> INSIDE_KEY_AT));
}

enum seen { OUT, INSIDE, STUCK };

/* It is shut out, and had that word so long ago.  ended: so has its last copy. */
static enum seen judge(struct core *core, uint64_t number, uint64_t word, uint64_t waited,
		       bool ended)
{
	enum seen seen = OUT;
	struct peer *p;

	turn_take(&core->turn);
	p = still_inside(core, number, word);
	if (p && ended) {
		p->told = false;
	} else if (p) {
		seen = waited > core->local->give_up_ns ? STUCK : INSIDE;
		if (seen == STUCK)
			log_error("slot %u, process %d: for %u s the kernel has been "
				  "copying for it to the region of key 0x%08x: no more "
				  "is waited for that, and it may still be written to",
				  p->slot, (int)p->pid, (unsigned)(waited / 1000000000),
				  (uint32_t)(word >> INSIDE_KEY_AT));
	}
	turn_give(&core->turn);
	return seen;
}

/* The peer of that number, which had that word so long ago.  What may sleep does
 * so without the turn. */
static enum seen look(struct core *core, uint64_t number, uint64_t word, uint64_t waited)
{
	bool shut = false, ended;
	pid_t pid = 0;
	struct peer *p;
	int fd = -1;

	turn_take(&core->turn);
	p = still_inside(core, number, word);
	if (p && waited > PATIENCE_NS)
		shut_out(p, word);
	if (p && p->gate.shut) {
		shut = true;
		pid = p->pid;
		fd = memory_of(&p->gate);
	}
	turn_give(&core->turn);
	if (!p)
		return OUT;
	if (!shut)
		return INSIDE;
	ended = has_died(pid) || is_quiet(fd);
	if (fd >= 0)
		close(fd);
	return judge(core, number, word, waited, ended);
}

/* All that are inside now leave.  Who comes later has seen what is on the board.
 * 0 or -EBUSY. */
static int wait_for(struct core *core, struct whom whom)
{
	uint64_t number = 0, word, start;
	struct peer *p;
	enum seen seen;

	for (;;) {
		turn_take(&core->turn);
		p = core->local ? next_inside(core->local, &whom, number, &word) : NULL;
		number = p ? p->number : 0;
		turn_give(&core->turn);
		if (!number)
			return 0;
		start = clock_ns();
		while ((seen = look(core, number, word, clock_ns() - start)) == INSIDE)
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		if (seen == STUCK)
			return -EBUSY;
	}
}

int gate_wait_key(struct core *core, uint32_t key)
{
	return wait_for(core, (struct whom){ (uint64_t)UINT32_MAX << INSIDE_KEY_AT,
					     (uint64_t)key << INSIDE_KEY_AT });
}

void local_fence(struct core *core, uint32_t qpn)
{
	if (core->board)
		(void)wait_for(core, (struct whom){ (uint64_t)QPN_MASK << INSIDE_QPN_AT,
						    (uint64_t)qpn << INSIDE_QPN_AT });
}
