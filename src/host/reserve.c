/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.c - see reserve.h, docs/dev/host.md. */
#include "host/reserve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/name.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/rand.h"
#include "sys/secret.h"
#include "sys/user.h"

enum {
	NEAR = 16,     /* a power of two; this many numbers rank as equally good */
	LISTS_MAX = 8, /* lists read in one reading */
	/* readings take at most 1/8 of the time, and checks as much */
	PART = 8,
	FAILED_NS = 1000000, /* ns to wait after a reading that failed */
};

void reserve_init(struct reserve *r, uid_t uid)
{
	memset(r, 0, sizeof(*r));
	r->uid = uid;
}

static struct number *number_of(struct reserve *r, uint16_t slot)
{
	return &r->at[slot - RESERVE_FIRST];
}

/* --- reading ------------------------------------------------------------------- */

/* Is a stronger than b? For two claims of one user, who has two only by mistake, any
 * order will do. */
static bool is_stronger(const struct claim *a, const struct claim *b)
{
	uint64_t x, y;

	if (!b->slot)
		return true;
	x = claim_strength(a->uid, a->slot);
	y = claim_strength(b->uid, b->slot);
	return x != y ? x > y : a->tag < b->tag;
}

static void set_owner(struct number *n, const struct claim *c)
{
	n->owner = *c;
	n->seen = true;
}

static void note_claim(void *arg, const struct claim *c)
{
	struct reserve *r = arg;
	struct number *n = number_of(r, c->slot);

	if (claim_is(c, &n->owner)) {
		r->news |= !n->seen;
		n->seen = true;
	} else if (is_stronger(c, &n->owner)) {
		if (n->seen)
			n->next = n->owner;
		set_owner(n, c);
		r->news = true;
	} else if (!claim_is(c, &n->next) && is_stronger(c, &n->next)) {
		n->next = *c;
		r->news = true;
	}
}

/* Reads the claims. Owners known before stay, and are checked if the reading does not
 * show them. */
static int read_now(struct reserve *r)
{
	uint64_t began = clock_ns(), took;
	int was = cancel_hold(), rc = claim_uids_count();

	for (unsigned i = 0; i < RESERVE_NUMBERS; i++) {
		r->at[i].seen = false;
		r->at[i].next.slot = 0;
	}
	r->news = true;
	for (int i = 0; !rc && i < LISTS_MAX && (i < 2 || r->news); i++) {
		r->news = false;
		rc = claim_list(note_claim, r);
	}
	took = clock_ns() - began;
	r->not_before =
		began + took + (rc == -EAGAIN ? FAILED_NS : 0) + (PART - 1) * took;
	r->read_at = rc == -EAGAIN ? 0 : began;
	cancel_let(was);
	return rc;
}

/* Makes sure that what is known was true at `since` or later. Returns false if that is
 * not possible now. */
static bool is_known(struct reserve *r, uint64_t since)
{
	if (r->read_at && r->read_at >= since)
		return true;
	return clock_ns() >= r->not_before && read_now(r) != -EAGAIN;
}

/* --- opening ------------------------------------------------------------------- */

enum pass {
	POLITE,	  /* try numbers that nobody claims */
	STRONGER, /* then numbers whose claims are all weaker */
	PASSES
};

static int read_afresh(struct reserve *r)
{
	reserve_init(r, r->uid);
	return read_now(r);
}

/* Does a claim other than `mine` stand in its way? */
static bool is_taken(struct reserve *r, const struct claim *mine, enum pass pass)
{
	const struct number *n = number_of(r, mine->slot);
	const struct claim *other = n->owner.tag == mine->tag ? &n->next : &n->owner;

	return other->slot &&
	       (pass == POLITE || claim_strength(other->uid, mine->slot) >=
					  claim_strength(r->uid, mine->slot));
}

/* Claims slot; reads the claims before and after listening. Returns the descriptor;
 * -EADDRINUSE: the number is another's; -errno. */
static int try_to_claim(struct reserve *r, uint16_t slot, enum pass pass)
{
	const struct claim mine = { .slot = slot, .tag = rand_start() };
	int fd, rc;

	/* Even for a moment, no process may see two claims of this user for one
	 * number. */
	if (is_taken(r, &mine, pass))
		return -EADDRINUSE;
	fd = claim_listen(&mine);
	if (fd < 0)
		return fd;
	rc = read_afresh(r);
	if (!rc && is_taken(r, &mine, pass))
		rc = -EADDRINUSE;
	if (rc)
		name_let_go(fd);
	return rc ? rc : fd;
}

struct choice {
	unsigned owners; /* how many numbers the owner of this number has */
	uint64_t strength;
	uint16_t slot;
};

static unsigned numbers_of_owner(const struct reserve *r, const struct number *n)
{
	unsigned count = 0;

	for (unsigned i = 0; n->owner.slot && i < RESERVE_NUMBERS; i++)
		count += r->at[i].owner.slot && r->at[i].owner.uid == n->owner.uid;
	return count;
}

static int by_choice(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->owners != y->owners)
		return x->owners < y->owners ? 1 : -1;
	return (x->strength < y->strength) - (x->strength > y->strength);
}

/* Orders the numbers to try. If a weaker user must lose a number, it is the user with
 * most of them, so that nobody who has only one loses it to root in place of a squatter.
 * Next come numbers for which this user is strongest; root is equally strong for all. */
static void rank_numbers(struct reserve *r, enum pass pass,
			 uint16_t order[RESERVE_NUMBERS])
{
	struct choice c[RESERVE_NUMBERS];

	for (uint16_t i = 0; i < RESERVE_NUMBERS; i++) {
		c[i].slot = (uint16_t)(RESERVE_FIRST + i);
		c[i].owners = pass == STRONGER ? numbers_of_owner(r, &r->at[i]) : 0;
		c[i].strength = claim_strength(r->uid, c[i].slot);
	}
	qsort(c, RESERVE_NUMBERS, sizeof(c[0]), by_choice);
	for (uint16_t i = 0; i < RESERVE_NUMBERS; i++)
		order[i] = c[i].slot;
}

static int sweep(struct reserve *r, enum pass pass, uint16_t *slot)
{
	uint16_t order[RESERVE_NUMBERS];
	struct secret s = { 0 };
	unsigned flip = secret_below(&s, NEAR);
	int rc = read_afresh(r);

	if (rc)
		return rc;
	rank_numbers(r, pass, order);
	for (unsigned i = 0; i < RESERVE_NUMBERS + NEAR; i++) {
		unsigned k = i ^ flip;

		if (k >= RESERVE_NUMBERS)
			continue;
		rc = try_to_claim(r, order[k], pass);
		if (rc != -EADDRINUSE) {
			*slot = order[k];
			return rc;
		}
	}
	return -EADDRINUSE;
}

int reserve_listen(struct reserve *r, uint16_t *slot)
{
	int fd = -EADDRINUSE;

	for (enum pass pass = POLITE; pass < PASSES && fd == -EADDRINUSE; pass++)
		fd = sweep(r, pass, slot);
	return fd == -EADDRINUSE || fd == -EOPNOTSUPP ? -EADDRNOTAVAIL : fd;
}

/* --- finding ------------------------------------------------------------------- */

/* Drops the owner; the next strongest has the number now. */
static void drop_owner(struct number *n)
{
	struct claim next = n->next;

	n->next.slot = 0;
	set_owner(n, &next);
}

/* Checks owners that a reading did not show: a hostile process can hide a claim from a
 * reading, but not from a check. */
static int check_unseen(struct reserve *r, struct number *n)
{
	uint64_t began = clock_ns();
	int rc;

	if (began < r->check_not_before)
		return -EAGAIN;
	rc = claim_check(&n->owner);
	r->check_not_before = clock_ns() + (PART - 1) * (clock_ns() - began);
	if (rc == -EAGAIN)
		r->check_not_before += FAILED_NS;
	else if (rc == 0)
		n->seen = true;
	else
		drop_owner(n);
	return rc == -EAGAIN ? rc : 0;
}

/* Returns 0: the number has an owner; -ESRCH; -EAGAIN. */
static int find_owner(struct reserve *r, uint16_t slot, uint64_t since)
{
	struct number *n = number_of(r, slot);
	bool known = is_known(r, since);

	if (n->owner.slot && !n->seen && check_unseen(r, n))
		return -EAGAIN;
	if (!n->owner.slot)
		return known ? -ESRCH : -EAGAIN;
	/* A stronger claim may have appeared since, unless the owner is root or this
	 * user. */
	return known || n->owner.uid == 0 || n->owner.uid == r->uid ? 0 : -EAGAIN;
}

int reserve_connect(struct reserve *r, uint16_t slot, uint64_t since)
{
	struct number *n = number_of(r, slot);
	int rc, fd;
	uid_t uid;
	pid_t pid;

	while ((rc = find_owner(r, slot, since)) == 0) {
		fd = claim_connect(&n->owner);
		if (fd < 0 && fd != -ESRCH)
			return -EAGAIN;
		if (fd >= 0 && !user_of_peer(fd, &uid, &pid) && uid == n->owner.uid)
			return fd;
		if (fd >= 0)
			closer_hang_up(fd);
		drop_owner(n);
	}
	return rc;
}

uint64_t reserve_due(const struct reserve *r)
{
	return r->not_before > r->check_not_before ? r->not_before : r->check_not_before;
}

int reserve_connect_user(struct reserve *r, uid_t uid, uint16_t *slot)
{
	if (read_now(r))
		return -ESRCH;
	for (*slot = RESERVE_FIRST; *slot <= SLOT_LAST; ++*slot) {
		const struct number *n = number_of(r, *slot);
		int fd;

		if (!n->seen || !n->owner.slot || n->owner.uid != uid)
			continue;
		fd = reserve_connect(r, *slot, r->read_at);
		if (fd >= 0 && n->owner.uid == uid)
			return fd;
		if (fd >= 0)
			closer_hang_up(fd);
	}
	return -ESRCH;
}

static void mark_claim(void *arg, const struct claim *c)
{
	((bool *)arg)[c->slot - RESERVE_FIRST] = true;
}

unsigned reserve_claimed(void)
{
	bool claimed[RESERVE_NUMBERS] = { false };
	unsigned n = 0;

	claim_list(mark_claim, claimed);
	for (unsigned i = 0; i < RESERVE_NUMBERS; i++)
		n += claimed[i];
	return n;
}
