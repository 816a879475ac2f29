/* SPDX-License-Identifier: BSD-2-Clause */
/* reserve.c - see reserve.h, docs/host.md. */
#include "host/reserve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/claim.h"
#include "host/host.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/rand.h"
#include "sys/secret.h"

enum {
	FIRST = SLOT_NAMED + 1,
	NUMBERS = SLOT_LAST - SLOT_NAMED,
	SAMPLE = 32, /* claims of a number that are kept */
	NEAR = 16,   /* power of two: so many are equally good */
	AGAIN = 4,   /* readings take 1/4 of the time, at most */
};

/* --- opening ------------------------------------------------------------- */

enum pass {
	POLITE,	  /* numbers that nobody claims */
	STRONGER, /* .. that those claim who are weaker */
	UNSURE,	  /* .. or of whom that cannot be told */
	PASSES
};

struct dispute {
	const struct claim *mine;
	enum pass pass;
	int diag;
	bool found;
};

static void dispute(void *arg, const struct claim *c)
{
	struct dispute *d = arg;
	uid_t uid;
	int rc;

	if (d->found || c->slot != d->mine->slot || c->tag == d->mine->tag)
		return;
	rc = claim_owner(d->diag, c, &uid);
	if (rc == 0)
		d->found =
			d->pass == POLITE || claim_strength(uid, c->slot) >=
						     claim_strength(geteuid(), c->slot);
	else
		d->found = rc == -EAGAIN && d->pass != UNSURE;
}

/* Is there somebody in the way of this claim? */
static bool is_disputed(const struct claim *mine, enum pass pass)
{
	struct dispute d = { mine, pass, claim_open_diag(), false };

	claim_list(dispute, &d);
	if (d.diag >= 0)
		close(d.diag);
	return d.found;
}

/* The descriptor; -EADDRINUSE: it is somebody else's. */
static int try_to_claim(uint16_t slot, enum pass pass)
{
	const struct claim mine = { .slot = slot, .tag = rand_start() };
	int fd;

	/* Nobody is to find two of this user's, not even for a moment. */
	if (is_disputed(&mine, pass))
		return -EADDRINUSE;
	fd = claim_listen(&mine);
	if (fd >= 0 && (is_disputed(&mine, pass) || is_disputed(&mine, pass))) {
		close(fd);
		return -EADDRINUSE;
	}
	return fd;
}

static void count_claim(void *arg, const struct claim *c)
{
	((unsigned *)arg)[c->slot - FIRST]++;
}

static int by_own_strength(const void *a, const void *b)
{
	uint64_t x = claim_strength(geteuid(), *(const uint16_t *)a);
	uint64_t y = claim_strength(geteuid(), *(const uint16_t *)b);

	return (x < y) - (x > y);
}

static int sweep(const uint16_t order[NUMBERS], enum pass pass, uint16_t *slot)
{
	unsigned claims[NUMBERS] = { 0 };
	struct secret s = { 0 };
	unsigned flip = secret_below(&s, NEAR);

	claim_list(count_claim, claims);
	for (unsigned i = 0; i < NUMBERS + NEAR; i++) {
		unsigned k = i ^ flip;
		int fd;

		if (k >= NUMBERS || (pass == POLITE && claims[order[k] - FIRST]))
			continue;
		fd = try_to_claim(order[k], pass);
		if (fd != -EADDRINUSE) {
			*slot = order[k];
			return fd;
		}
	}
	return -EADDRINUSE;
}

int reserve_listen(uint16_t *slot)
{
	uint16_t order[NUMBERS];
	int fd = -EADDRINUSE;

	if (!claim_uids_count())
		return -EADDRNOTAVAIL;
	for (uint16_t i = 0; i < NUMBERS; i++)
		order[i] = (uint16_t)(FIRST + i);
	/* Root is as strong everywhere: any order does. */
	qsort(order, NUMBERS, sizeof(order[0]), by_own_strength);
	for (enum pass pass = POLITE; pass < PASSES && fd == -EADDRINUSE; pass++)
		fd = sweep(order, pass, slot);
	return fd == -EADDRINUSE ? -EADDRNOTAVAIL : fd;
}

/* --- finding ------------------------------------------------------------- */

/* What was read last, for all lookups of the process. */
static struct {
	struct lock lock;
	struct secret random;
	uint64_t not_before; /* the next reading */
	struct kept {
		uint32_t count;
		struct claim claim[SAMPLE];
	} at[NUMBERS];
} list;

/* Each of a number's claims is kept with the same chance. */
static void keep(void *arg, const struct claim *c)
{
	struct kept *k = &list.at[c->slot - FIRST];
	uint32_t i = k->count++;

	(void)arg;
	if (i >= SAMPLE)
		i = secret_below(&list.random, k->count);
	if (i < SAMPLE)
		k->claim[i] = *c;
}

static void read_now(void)
{
	uint64_t now = clock_ns();

	for (unsigned i = 0; i < NUMBERS; i++)
		list.at[i].count = 0;
	if (claim_uids_count())
		claim_list(keep, NULL);
	list.not_before = clock_ns() + AGAIN * (clock_ns() - now);
}

/* False: it is too early. */
static bool read_again(void)
{
	if (clock_ns() < list.not_before)
		return false;
	read_now();
	return true;
}

struct owner {
	const struct claim *claim;
	uid_t uid;
	uint64_t strength;
};

/* The strongest first. */
static int by_strength(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	if (x->strength != y->strength)
		return x->strength < y->strength ? 1 : -1;
	return (x->claim->tag > y->claim->tag) - (x->claim->tag < y->claim->tag);
}

static unsigned owners_of(uint16_t slot, struct owner o[SAMPLE])
{
	const struct kept *k = &list.at[slot - FIRST];
	int diag = k->count ? claim_open_diag() : -1;
	unsigned n = 0;

	for (unsigned i = 0; i < k->count && i < SAMPLE; i++) {
		if (claim_owner(diag, &k->claim[i], &o[n].uid))
			continue;
		o[n].claim = &k->claim[i];
		o[n].strength = claim_strength(o[n].uid, slot);
		n++;
	}
	if (diag >= 0)
		close(diag);
	qsort(o, n, sizeof(*o), by_strength);
	return n;
}

/* The descriptor, and whose it is; -ESRCH; -EAGAIN. */
static int find(uint16_t slot, uid_t *uid)
{
	struct owner o[SAMPLE];
	unsigned n = owners_of(slot, o);

	for (unsigned i = 0; i < n; i++) {
		int fd = claim_connect(o[i].claim);
		pid_t pid;

		if (fd == -ESRCH)
			continue; /* it has gone */
		if (fd < 0)
			return -EAGAIN;
		if (name_cred(fd, uid, &pid) == 0 && *uid == o[i].uid)
			return fd;
		close(fd);
	}
	return -ESRCH;
}

int reserve_connect(uint16_t slot)
{
	uid_t uid;
	bool fresh;
	int fd;

	lock_take(&list.lock);
	fresh = read_again();
	fd = find(slot, &uid);
	lock_give(&list.lock);
	/* Somebody may have come since, and be stronger, but than root. */
	if (fresh || (fd >= 0 && (uid == 0 || uid == geteuid())))
		return fd;
	if (fd >= 0)
		close(fd);
	return -EAGAIN;
}

int reserve_connect_user(uid_t uid, uint16_t *slot)
{
	int fd = -ESRCH;

	lock_take(&list.lock);
	read_now();
	for (*slot = FIRST; *slot <= SLOT_LAST; ++*slot) {
		uid_t owner;

		fd = list.at[*slot - FIRST].count ? find(*slot, &owner) : -ESRCH;
		if (fd >= 0 && owner == uid)
			break;
		if (fd >= 0)
			close(fd);
		fd = -ESRCH;
	}
	lock_give(&list.lock);
	return fd;
}

static void mark(void *arg, const struct claim *c)
{
	((bool *)arg)[c->slot - FIRST] = true;
}

unsigned reserve_claimed(void)
{
	bool claimed[NUMBERS] = { false };
	unsigned n = 0;

	claim_list(mark, claimed);
	for (unsigned i = 0; i < NUMBERS; i++)
		n += claimed[i];
	return n;
}
