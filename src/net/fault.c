/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/fault_spec.h"
#include "net/parcel.h"
#include "sys/log.h"
#include "sys/rand.h"

enum {
	WAITING_MAX = 4096, /* datagrams per direction; more are not held back */
	PASS_MAX = 4,	    /* datagrams that overtake a reordered one */
	REORDER_NS = 1000000,
	RETRY_NS = 50000, /* before a retry, when the inner link was full */
	/* attempts of one recv() to find a datagram that is not dropped */
	ROUNDS = 16,
};

enum fate {
	DROP = 1,
	DUP = 2,
	REORDER = 4,
	DELAY = 8,
	CORRUPT = 16,
};

struct way {
	struct fault_rules rules;
	struct prng rng;
	struct list delayed; /* sorted by due time, earliest first */
	/* reordered ones in order of arrival; released when `after` reaches 0, or when
	 * due */
	struct list passed;
	unsigned waiting; /* datagrams in both lists */
	struct fault_stats stats;
};

struct fault {
	struct link link;
	struct link *inner;
	struct way way[FAULT_DIRS];
	struct list lent; /* copies given out, until the next recv() */
	bool ordered;	  /* keep order: nothing may overtake a waiting datagram */
	void (*describe)(const struct dgram *d, char *buf, size_t size);
};

static struct fault *fault_of(const struct link *link)
{
	return container_of(link, struct fault, link);
}

static struct parcel *first(const struct list *head)
{
	return list_empty(head) ? NULL : container_of(head->next, struct parcel, node);
}

/* --- what happens to a datagram ------------------------------------------ */

static bool is_nth(const struct fault_rules *r, uint64_t count)
{
	for (int i = 0; i < FAULT_NTH_MAX && r->nth[i]; i++)
		if (r->nth[i] == count)
			return true;
	return false;
}

/* Decides what happens to the next datagram. Every datagram takes the same number of
 * draws, so that one rule's outcome does not depend on another's. */
static unsigned judge(struct way *w)
{
	const struct fault_rules *r = &w->rules;
	unsigned fate = 0;

	w->stats.seen++;
	fate |= rand_chance(&w->rng, r->drop) ? DROP : 0;
	fate |= rand_chance(&w->rng, r->dup) ? DUP : 0;
	fate |= rand_chance(&w->rng, r->reorder) ? REORDER : 0;
	fate |= rand_chance(&w->rng, r->delay) ? DELAY : 0;
	fate |= rand_chance(&w->rng, r->corrupt) ? CORRUPT : 0;
	if (is_nth(r, w->stats.seen))
		fate |= DROP;
	if (fate & DROP)
		return DROP;
	if ((fate & DELAY) || w->waiting >= WAITING_MAX)
		fate &= ~(unsigned)REORDER;
	if (w->waiting >= WAITING_MAX)
		fate &= ~(unsigned)(DELAY | DUP);
	return fate;
}

static void say(const struct fault *f, const struct way *w, unsigned fate,
		const struct dgram *d)
{
	static const char *const done[] = {
		"dropped", "duplicated", "reordered", "delayed", "corrupted",
	};
	char what[64] = "", packet[128];
	size_t n = 0;

	for (unsigned i = 0; i < sizeof(done) / sizeof(done[0]); i++) {
		if (fate & 1u << i)
			n += (size_t)snprintf(what + n, sizeof(what) - n, "%s%s",
					      n ? ", " : "", done[i]);
	}
	if (f->describe)
		f->describe(d, packet, sizeof(packet));
	else
		snprintf(packet, sizeof(packet), "%u bytes", d->len);
	log_debug("fault: %s datagram %" PRIu64 " %s: %s",
		  w == &f->way[FAULT_TX] ? "tx" : "rx", w->stats.seen, what, packet);
}

static void count(struct fault_stats *s, unsigned fate)
{
	s->dropped += (fate & DROP) != 0;
	s->duplicated += (fate & DUP) != 0;
	s->reordered += (fate & REORDER) != 0;
	s->delayed += (fate & DELAY) != 0;
	s->corrupted += (fate & CORRUPT) != 0;
}

/* Counts and logs the fate of d, before d is changed. */
static void note(const struct fault *f, struct way *w, unsigned fate,
		 const struct dgram *d)
{
	count(&w->stats, fate);
	if (log_level >= LOG_DEBUG)
		say(f, w, fate, d);
}

static void corrupt(struct parcel *p, struct prng *rng)
{
	uint64_t at = rand_u64(rng), bits = rand_u64(rng);

	if (p->d.len > 0)
		p->bytes[at % p->d.len] ^= (uint8_t)(1 + bits % 255);
}

/* On an ordered link a datagram waits behind all others, whenever they are due. */
static void wait_until(const struct fault *f, struct way *w, struct parcel *p,
		       uint64_t due)
{
	struct list *before = w->delayed.prev;

	while (!f->ordered && before != &w->delayed &&
	       container_of(before, struct parcel, node)->due > due)
		before = before->prev;
	p->due = due;
	list_add_tail(before->next, &p->node);
	w->waiting++;
}

static void wait_for_others(struct way *w, struct parcel *p, uint64_t now)
{
	p->after = 1 + (unsigned)rand_below(&w->rng, PASS_MAX);
	p->due = now + REORDER_NS;
	list_add_tail(&w->passed, &p->node);
	w->waiting++;
}

/* A datagram went past the reordered ones: each waits for one fewer. */
static void went_by(struct way *w)
{
	list_for(n, &w->passed)
	{
		struct parcel *p = container_of(n, struct parcel, node);

		if (p->after > 0)
			p->after--;
	}
}

/* Removes and returns a waiting datagram that may go now; NULL: none. */
static struct parcel *take_due(struct way *w, uint64_t now)
{
	struct parcel *p = first(&w->delayed);

	if (!p || p->due > now) {
		p = NULL;
		list_for(n, &w->passed)
		{
			struct parcel *q = container_of(n, struct parcel, node);

			if (q->after == 0 || q->due <= now) {
				p = q;
				break;
			}
		}
	}
	if (p) {
		list_del(&p->node);
		w->waiting--;
	}
	return p;
}

static uint64_t way_deadline(const struct way *w)
{
	const struct parcel *p = first(&w->delayed);
	uint64_t due = p ? p->due : UINT64_MAX;

	list_for(n, &w->passed)
	{
		const struct parcel *q = container_of(n, struct parcel, node);
		uint64_t then = q->after == 0 ? 0 : q->due;

		due = then < due ? then : due;
	}
	return due;
}

/* Applies fate to p. Returns true if p, or the first of its copies, goes on now. */
static bool suffer(const struct fault *f, struct way *w, struct parcel *p, unsigned fate,
		   uint64_t now)
{
	if (fate & CORRUPT)
		corrupt(p, &w->rng);
	p->d.damaged |= f->ordered && (fate & CORRUPT);
	if (fate & DUP) {
		struct parcel *twin = parcel_make(&p->d);

		if (twin)
			wait_until(f, w, twin, now);
	}
	if (fate & DELAY) {
		wait_until(f, w, p, now + w->rules.delay_ns);
		return false;
	}
	if (fate & REORDER) {
		wait_for_others(w, p, now);
		return false;
	}
	return true;
}

/* --- the link ------------------------------------------------------------ */

/* The inner link was full: p is sent again later; on an ordered link it stays first. */
static void try_again(const struct fault *f, struct way *w, struct parcel *p,
		      uint64_t now)
{
	if (!f->ordered) {
		wait_until(f, w, p, now + RETRY_NS);
		return;
	}
	p->due = now + RETRY_NS;
	list_add_tail(w->delayed.next, &p->node);
	w->waiting++;
}

/* On an ordered link: would n more datagrams exceed what may wait? Without a delay only
 * a damaged datagram waits, for room in the inner link, and no other may pass it. */
static bool is_full(const struct fault *f, const struct way *w, unsigned n)
{
	if (!f->ordered)
		return false;
	return w->rules.delay ? w->waiting + n > WAITING_MAX : w->waiting > 0;
}

static int send_due(struct fault *f, uint64_t now)
{
	struct way *w = &f->way[FAULT_TX];
	struct parcel *p;

	while ((p = take_due(w, now))) {
		int rc = f->inner->ops->send(f->inner, &p->d, 1, now);

		if (rc <= 0) {
			try_again(f, w, p, now);
			return rc;
		}
		free(p);
	}
	return 0;
}

/* Returns 1 if d was taken, 0 if the inner link is full, -errno if it is broken. A
 * datagram that is refused is passed again, so its draws are undone; one that a fault
 * has touched is always taken. */
static int send_one(struct fault *f, struct dgram *d, uint64_t now)
{
	struct way *w = &f->way[FAULT_TX];
	struct prng before = w->rng;
	struct parcel *p;
	unsigned fate;
	int rc;

	if (is_full(f, w, 1))
		return 0;
	fate = judge(w);
	if (fate == 0) {
		rc = f->inner->ops->send(f->inner, d, 1, now);
		if (rc > 0) {
			went_by(w);
			return 1;
		}
		w->rng = before;
		w->stats.seen--;
		return rc;
	}
	p = fate & DROP ? NULL : parcel_make(d);
	note(f, w, p ? fate : DROP, d);
	if (!p || !suffer(f, w, p, fate, now))
		return 1;
	rc = f->inner->ops->send(f->inner, &p->d, 1, now);
	if (rc <= 0) {
		try_again(f, w, p, now);
		return rc < 0 ? rc : 1;
	}
	free(p);
	went_by(w);
	return 1;
}

static int fault_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct fault *f = fault_of(link);
	int rc = send_due(f, now);

	for (unsigned i = 0; i < n; i++) {
		if (rc >= 0)
			rc = send_one(f, &v[i], now);
		if (rc <= 0)
			return i > 0 ? (int)i : rc;
	}
	rc = send_due(f, now); /* sends the duplicates that became due */
	return n > 0 || rc >= 0 ? (int)n : rc;
}

static void move(struct dgram *to, const struct dgram *from)
{
	bool own = from->iov == &from->one;

	*to = *from;
	if (own)
		to->iov = &to->one;
}

/* Filters v[at..n), which came from the inner link: moves those that are received now to
 * v[at...]. Returns the end of those. */
static unsigned sift(struct fault *f, struct dgram *v, unsigned at, unsigned n,
		     uint64_t now)
{
	struct way *w = &f->way[FAULT_RX];

	for (unsigned i = at; i < n; i++) {
		unsigned fate = judge(w);
		struct parcel *p;

		if (fate == 0) {
			if (at < i)
				move(&v[at], &v[i]);
			at++;
			went_by(w);
			continue;
		}
		p = fate & DROP ? NULL : parcel_make(&v[i]);
		note(f, w, p ? fate : DROP, &v[i]);
		if (!p || !suffer(f, w, p, fate, now))
			continue;
		list_add_tail(&f->lent, &p->node);
		parcel_show(p, &v[at++]);
		went_by(w);
	}
	return at;
}

static int fault_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct fault *f = fault_of(link);
	struct parcel *p;
	unsigned got = 0;
	int rc;

	parcels_free(&f->lent);
	send_due(f, now);
	while (got < n && (p = take_due(&f->way[FAULT_RX], now))) {
		list_add_tail(&f->lent, &p->node);
		parcel_show(p, &v[got++]);
	}
	/* A result of 0 would mean that no datagram waits, so try again when all of a
	 * batch were dropped. */
	for (int round = 0; got < n && round < ROUNDS; round++) {
		if (is_full(f, &f->way[FAULT_RX], n - got))
			break;
		rc = f->inner->ops->recv(f->inner, v + got, n - got, now);
		if (rc < 0 && got == 0)
			return rc;
		if (rc <= 0)
			break;
		got = sift(f, v, got, got + (unsigned)rc, now);
		if (got > 0)
			break;
	}
	return (int)got;
}

static uint64_t fault_deadline(struct link *link)
{
	struct fault *f = fault_of(link);
	uint64_t due = f->inner->ops->deadline(f->inner);

	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		uint64_t then = way_deadline(&f->way[dir]);

		due = then < due ? then : due;
	}
	return due;
}

static void fault_close(struct link *link)
{
	struct fault *f = fault_of(link);

	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		parcels_free(&f->way[dir].delayed);
		parcels_free(&f->way[dir].passed);
	}
	parcels_free(&f->lent);
	f->inner->ops->close(f->inner);
	free(f);
}

static const struct link_ops fault_ops = {
	.send = fault_send,
	.recv = fault_recv,
	.deadline = fault_deadline,
	.close = fault_close,
};

static int wrap(struct link **out, struct link *inner, const struct fault_spec *parsed,
		bool ordered)
{
	struct fault *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->inner = inner;
	f->ordered = ordered;
	f->link = (struct link){ .ops = &fault_ops, .run_max = 1, .mtu = inner->mtu };
	list_init(&f->lent);
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		struct way *w = &f->way[dir];

		w->rules = parsed->rules[dir];
		rand_seed(&w->rng, parsed->seed + ((uint64_t)dir << 32));
		list_init(&w->delayed);
		list_init(&w->passed);
	}
	*out = &f->link;
	return 0;
}

int fault_wrap(struct link **out, struct link *inner, const char *spec, char *err,
	       size_t errlen)
{
	struct fault_spec parsed;
	int rc = fault_parse(&parsed, spec, err, errlen);

	if (rc)
		return rc;
	rc = wrap(out, inner, &parsed, false);
	if (rc)
		snprintf(err, errlen, "out of memory");
	return rc;
}

int fault_wrap_ordered(struct link **out, struct link *inner, const char *spec, char *err,
		       size_t errlen)
{
	struct fault_spec parsed;
	int rc = fault_parse_ordered(&parsed, spec, err, errlen);

	if (rc)
		return rc;
	rc = wrap(out, inner, &parsed, true);
	if (rc)
		snprintf(err, errlen, "out of memory");
	return rc;
}

void fault_describe(struct link *link,
		    void (*describe)(const struct dgram *d, char *buf, size_t size))
{
	fault_of(link)->describe = describe;
}

const struct fault_stats *fault_stats(const struct link *link, bool rx)
{
	return &fault_of(link)->way[rx ? FAULT_RX : FAULT_TX].stats;
}
