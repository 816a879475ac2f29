/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.c - see reserve.h, docs/host.md. */
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

enum {
	NEAR = 16,	     /* power of two: so many numbers are equally good */
	LISTS_MAX = 8,	     /* in one reading */
	PART = 8,	     /* readings take at most 1/8 of the time, checks as much */
	FAILED_NS = 1000000, /* after a reading that failed */
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

/* The stronger first; of one user, who has two only by some mistake, any one. */
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
	n->asked = false;
}

static void keep(void *arg, const struct claim *c)
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

/* What is known of owners stays, to be checked where a reading does not show it. */
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
		rc = claim_list(keep, r);
	}
	took = clock_ns() - began;
	r->not_before =
		began + took + (rc == -EAGAIN ? FAILED_NS : 0) + (PART - 1) * took;
	r->read_at = rc == -EAGAIN ? 0 : began;
	cancel_let(was);
	return rc;
}

/* Know what was so at since, or later. */
static bool is_known(struct reserve *r, uint64_t since)
{
	if (r->read_at && r->read_at >= since)
		return true;
	return clock_ns() >= r->not_before && read_now(r) != -EAGAIN;
}

/* --- opening ------------------------------------------------------------------- */

enum pass {
	POLITE,	  /* numbers that nobody claims */
	STRONGER, /* .. that those claim who are weaker */
	PASSES
};

static int read_afresh(struct reserve *r)
{
	reserve_init(r, r->uid);
	return read_now(r);
}

/* Is there a claim besides mine that is in the way of it? */
static bool is_taken(struct reserve *r, const struct claim *mine, enum pass pass)
{
	const struct number *n = number_of(r, mine->slot);
	const struct claim *other = n->owner.tag == mine->tag ? &n->next : &n->owner;

	return other->slot &&
	       (pass == POLITE || claim_strength(other->uid, mine->slot) >=
					  claim_strength(r->uid, mine->slot));
}

/* Reads before and after it listens.  The descriptor; -EADDRINUSE: it is somebody
 * else's. */
static int try_to_claim(struct reserve *r, uint16_t slot, enum pass pass)
{
	const struct claim mine = { .slot = slot, .tag = rand_start() };
	int fd, rc;

	/* Nobody is to find two of this user's, not even for a moment. */
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
	unsigned owners; /* numbers that this number's owner has */
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

/* Where a weaker user must lose a number, the user who has most of them does, so that
 * nobody who has one loses it to root in place of a squatter.  Then where this user is
 * strongest; root is as strong everywhere. */
static void rank(struct reserve *r, enum pass pass, uint16_t order[RESERVE_NUMBERS])
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
	rank(r, pass, order);
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

/* The next strongest has the number now. */
static void drop_owner(struct number *n)
{
	struct claim next = n->next;

	n->next.slot = 0;
	set_owner(n, &next);
}

/* A hostile process can hide a claim from a reading, not from a check. */
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

/* 0, and somebody has the number; -ESRCH, -EAGAIN. */
static int find_owner(struct reserve *r, uint16_t slot, uint64_t since)
{
	struct number *n = number_of(r, slot);
	bool known = is_known(r, since);

	if (n->owner.slot && !n->seen && check_unseen(r, n))
		return -EAGAIN;
	if (!n->owner.slot)
		return known ? -ESRCH : -EAGAIN;
	/* Somebody may have come since, and be stronger, but than root. */
	return known || n->owner.uid == 0 || n->owner.uid == r->uid ? 0 : -EAGAIN;
}

int reserve_connect(struct reserve *r, uint16_t slot, uint64_t since)
{
	struct number *n = number_of(r, slot);
	int rc, fd;
	uid_t uid;

	while ((rc = find_owner(r, slot, since)) == 0) {
		fd = claim_connect(&n->owner);
		if (fd < 0 && fd != -ESRCH)
			return -EAGAIN;
		if (fd >= 0 && !name_cred(fd, &uid, &n->pid) && uid == n->owner.uid) {
			n->asked = true;
			return fd;
		}
		if (fd >= 0)
			closer_hang_up(fd);
		drop_owner(n);
	}
	return rc;
}

int reserve_owner(struct reserve *r, uint16_t slot, uint64_t since, uid_t *uid,
		  pid_t *pid)
{
	const struct number *n = number_of(r, slot);
	int rc = find_owner(r, slot, since), fd;

	if (rc)
		return rc;
	if (!n->asked) {
		fd = reserve_connect(r, slot, since);
		if (fd < 0)
			return fd;
		closer_hang_up(fd);
	}
	*uid = n->owner.uid;
	*pid = n->pid;
	return 0;
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

static void mark(void *arg, const struct claim *c)
{
	((bool *)arg)[c->slot - RESERVE_FIRST] = true;
}

unsigned reserve_claimed(void)
{
	bool claimed[RESERVE_NUMBERS] = { false };
	unsigned n = 0;

	claim_list(mark, claimed);
	for (unsigned i = 0; i < RESERVE_NUMBERS; i++)
		n += claimed[i];
	return n;
}
