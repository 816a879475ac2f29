/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/ip_addr.h"
#include "net/parcel.h"
#include "net/pcap.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "wire/ib_hdr.h"

enum {
	WAITING_MAX = 4096, /* datagrams per direction; more are not held back */
	PASS_MAX = 4,	    /* datagrams that overtake a reordered one */
	REORDER_NS = 1000000,
	RETRY_NS = 50000, /* before a retry, when the inner link was full */
	/* attempts of one recv() to find a datagram that is not dropped */
	ROUNDS = 16,
	ECN_CE = 3,
};

struct way {
	struct fault_judge judge;
	struct prng rng;     /* for what a fault does, not for whom it befalls */
	struct list delayed; /* sorted by due time, earliest first */
	/* reordered ones in order of arrival; released when `after` reaches 0, or when
	 * due */
	struct list passed;
	unsigned waiting; /* datagrams in both lists */
	bool keeps;	  /* a delay or a rate may make datagrams wait */
	struct fault_stats stats;
};

struct fault {
	struct link link;
	struct link *inner;
	struct link *capture; /* inner, if it is a pcap link; or NULL */
	struct fault_spec spec;
	uint64_t began; /* ns; 0: with the first datagram */
	bool any;	/* there are faults */
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

/* --- captures --------------------------------------------------------------- */

static bool is_captured(const struct fault *f)
{
	return f->capture && pcap_records(f->capture);
}

static int pass_on(struct fault *f, struct dgram *d, const char *note, uint64_t now)
{
	return is_captured(f) ? pcap_send_noted(f->capture, d, note, now)
			      : f->inner->ops->send(f->inner, d, 1, now);
}

/* What comes is recorded by show_fate() when its fate is known. */
static int take_in(struct fault *f, struct dgram *v, unsigned n, uint64_t now)
{
	return f->capture ? pcap_recv_quiet(f->capture, v, n, now)
			  : f->inner->ops->recv(f->inner, v, n, now);
}

/* Records d, before it is changed, with its fate. */
static void show_fate(struct fault *f, const struct dgram *d, enum pcapng_dir dir,
		      const struct fault_fate *fate, uint64_t now)
{
	char note[PARCEL_NOTE];

	if (!is_captured(f))
		return;
	fault_note(note, sizeof(note), fate);
	pcap_note(f->capture, d, dir, fate->what ? note : NULL, now);
}

/* --- what happens to a datagram ------------------------------------------ */

/* What cannot wait is not held back, and what the rate would hold back is lost. */
static void make_room(const struct way *w, struct fault_fate *fate)
{
	if (w->waiting < WAITING_MAX || fate->what & FAULT_DROP)
		return;
	if (fate->what & FAULT_SLOW)
		fate->what = FAULT_DROP | FAULT_FULL;
	fate->what &= ~(unsigned)(FAULT_REORDER | FAULT_DELAY | FAULT_DUP);
}

static struct fault_fate judge_dgram(struct fault *f, struct way *w,
				     const struct dgram *d, uint64_t now)
{
	struct fault_fate fate;

	if (!f->began)
		f->began = now ? now : 1;
	w->judge.counts = is_captured(f);
	w->stats.seen++;
	fate = fault_judge(&w->judge, d, now, now > f->began ? now - f->began : 0);
	make_room(w, &fate);
	return fate;
}

static void say_fate(const struct fault *f, const struct way *w,
		     const struct fault_fate *fate, const struct dgram *d)
{
	char what[128], packet[128], event[32] = "";

	fault_words(what, sizeof(what), fate->what);
	if (fate->event)
		snprintf(event, sizeof(event), " by event %u", fate->event);
	if (f->describe)
		f->describe(d, packet, sizeof(packet));
	else
		snprintf(packet, sizeof(packet), "%u bytes", d->len);
	log_debug("fault: %s datagram %" PRIu64 " %s%s: %s",
		  w == &f->way[FAULT_TX] ? "tx" : "rx", w->judge.now.seen, what, event,
		  packet);
}

static void count_fate(struct fault_stats *s, unsigned what)
{
	s->dropped += (what & FAULT_DROP) != 0;
	s->duplicated += (what & FAULT_DUP) != 0;
	s->reordered += (what & FAULT_REORDER) != 0;
	s->delayed += (what & FAULT_DELAY) != 0;
	s->corrupted += (what & FAULT_CORRUPT) != 0;
	s->marked += (what & FAULT_ECN) != 0;
	s->slowed += (what & FAULT_SLOW) != 0;
	s->beyond += (what & FAULT_FULL) != 0;
}

/* Counts and logs the fate of d, before d is changed. */
static void note(const struct fault *f, struct way *w, const struct fault_fate *fate,
		 const struct dgram *d)
{
	count_fate(&w->stats, fate->what);
	if (log_level >= LOG_DEBUG)
		say_fate(f, w, fate, d);
}

static void corrupt(struct parcel *p, struct prng *rng)
{
	uint64_t at = rand_u64(rng), bits = rand_u64(rng);

	if (p->d.len > 0)
		p->bytes[at % p->d.len] ^= (uint8_t)(1 + bits % 255);
}

/* A packet of InfiniBand has FECN for it, of RoCE v2 the IP header. */
static void mark(const struct fault *f, struct parcel *p)
{
	struct bth *bth = (struct bth *)p->bytes;

	if (!f->ordered)
		ip_of(&p->d)->tclass |= ECN_CE;
	else if (p->d.len >= sizeof(*bth))
		bth->fbecn |= BTH_FECN;
}

/* On an ordered link a datagram waits behind all others, whenever they are due. */
static void wait_until(const struct fault *f, struct way *w, struct parcel *p,
		       uint64_t due)
{
	struct list *before = w->delayed.prev;

	if (f->ordered && before != &w->delayed) {
		uint64_t last = container_of(before, struct parcel, node)->due;

		due = due > last ? due : last;
	}
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

/* On an ordered link none passes those that wait. */
static bool is_behind(const struct fault *f, const struct way *w)
{
	return f->ordered && w->waiting > 0;
}

/* Applies fate to p. Returns true if p, or the first of its copies, goes on now. */
static bool suffer(const struct fault *f, struct way *w, struct parcel *p,
		   const struct fault_fate *fate, uint64_t now)
{
	if (fate->what & FAULT_CORRUPT)
		corrupt(p, &w->rng);
	if (fate->what & FAULT_ECN)
		mark(f, p);
	p->d.damaged |= f->ordered && (fate->what & FAULT_CORRUPT);
	if (fate->what & FAULT_DUP) {
		struct parcel *twin = parcel_make(&p->d);

		if (twin) {
			memcpy(twin->note, p->note, sizeof(twin->note));
			wait_until(f, w, twin, now);
		}
	}
	if (fate->what & (FAULT_DELAY | FAULT_SLOW)) {
		wait_until(f, w, p, fate->due);
		return false;
	}
	if (is_behind(f, w)) {
		wait_until(f, w, p, now);
		return false;
	}
	if (fate->what & FAULT_REORDER) {
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

/* On an ordered link: would n more datagrams exceed what may wait? Without a delay or a
 * rate only
 * a damaged datagram waits, for room in the inner link, and no other may pass it. */
static bool is_full(const struct fault *f, const struct way *w, unsigned n)
{
	if (!f->ordered)
		return false;
	return w->keeps ? w->waiting + n > WAITING_MAX : w->waiting > 0;
}

static int send_due(struct fault *f, uint64_t now)
{
	struct way *w = &f->way[FAULT_TX];
	struct parcel *p;

	while ((p = take_due(w, now))) {
		int rc = pass_on(f, &p->d, *p->note ? p->note : NULL, now);

		if (rc <= 0) {
			try_again(f, w, p, now);
			return rc;
		}
		turn_free(p);
	}
	return 0;
}

/* d suffers nothing. Returns as send_one() does. */
static int send_whole(struct fault *f, struct way *w, struct dgram *d, uint64_t now)
{
	struct parcel *p;
	int rc;

	if (is_behind(f, w)) {
		p = parcel_make(d);
		if (p)
			wait_until(f, w, p, now);
		return 1;
	}
	rc = pass_on(f, d, NULL, now);
	if (rc > 0)
		went_by(w);
	return rc;
}

/* Returns 1 if d was taken, 0 if the inner link is full, -errno if it is broken. A
 * datagram that is refused is passed again, so its draws are undone; one that a fault
 * has touched is always taken. */
static int send_one(struct fault *f, struct dgram *d, uint64_t now)
{
	struct way *w = &f->way[FAULT_TX];
	struct fault_state before = w->judge.now;
	struct fault_fate fate;
	struct parcel *p;
	int rc;

	if (is_full(f, w, 1))
		return 0;
	fate = judge_dgram(f, w, d, now);
	if (!fate.what) {
		rc = send_whole(f, w, d, now);
		if (rc <= 0) {
			fault_judge_undo(&w->judge, &before);
			w->stats.seen--;
		}
		return rc;
	}
	p = fate.what & FAULT_DROP ? NULL : parcel_make(d);
	if (!p)
		fate.what = FAULT_DROP | (fate.what & FAULT_FULL);
	note(f, w, &fate, d);
	if (!p)
		show_fate(f, d, PCAPNG_OUT, &fate, now);
	else if (is_captured(f))
		fault_note(p->note, sizeof(p->note), &fate);
	if (!p || !suffer(f, w, p, &fate, now))
		return 1;
	rc = pass_on(f, &p->d, *p->note ? p->note : NULL, now);
	if (rc <= 0) {
		try_again(f, w, p, now);
		return rc < 0 ? rc : 1;
	}
	turn_free(p);
	went_by(w);
	return 1;
}

/* Nothing can befall a datagram, and none waits. */
static bool is_idle(const struct fault *f, int dir)
{
	return !f->any && !f->way[dir].waiting;
}

static int fault_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct fault *f = fault_of(link);
	int rc;

	if (is_idle(f, FAULT_TX)) {
		rc = f->inner->ops->send(f->inner, v, n, now);
		f->link.run_max = f->inner->run_max;
		return rc;
	}
	rc = send_due(f, now);
	for (unsigned i = 0; i < n; i++) {
		if (rc >= 0)
			rc = send_one(f, &v[i], now);
		if (rc <= 0)
			return i > 0 ? (int)i : rc;
	}
	rc = send_due(f, now); /* sends the duplicates that became due */
	return n > 0 || rc >= 0 ? (int)n : rc;
}

static void move_dgram(struct dgram *to, const struct dgram *from)
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
		struct fault_fate fate = judge_dgram(f, w, &v[i], now);
		struct parcel *p;

		if (!fate.what && !is_behind(f, w)) {
			show_fate(f, &v[i], PCAPNG_IN, &fate, now);
			if (at < i)
				move_dgram(&v[at], &v[i]);
			at++;
			went_by(w);
			continue;
		}
		p = fate.what & FAULT_DROP ? NULL : parcel_make(&v[i]);
		if (!p)
			fate.what = FAULT_DROP | (fate.what & FAULT_FULL);
		if (fate.what)
			note(f, w, &fate, &v[i]);
		show_fate(f, &v[i], PCAPNG_IN, &fate, now);
		if (!p || !suffer(f, w, p, &fate, now))
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
	if (is_idle(f, FAULT_RX) && is_idle(f, FAULT_TX))
		return f->inner->ops->recv(f->inner, v, n, now);
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
		rc = take_in(f, v + got, n - got, now);
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

static bool may_keep(const struct fault_spec *spec, int dir)
{
	for (unsigned g = 0; g < spec->groups; g++)
		if (spec->group[g].rules[dir].delay || spec->group[g].rules[dir].rate)
			return true;
	return false;
}

/* Takes f->spec for the rules from now on. */
static void begin_faults(struct fault *f)
{
	f->any = fault_is_any(&f->spec);
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		struct way *w = &f->way[dir];
		fault_sends *sends = w->judge.sends;
		void *arg = w->judge.arg;

		fault_judge_init(&w->judge, &f->spec, dir);
		w->judge.by_lid = f->ordered;
		w->judge.sends = sends;
		w->judge.arg = arg;
		w->keeps = may_keep(&f->spec, dir);
		rand_seed(&w->rng, ~f->spec.seed + ((uint64_t)dir << 32));
	}
}

int fault_put(struct link **out, struct link *inner, bool ordered)
{
	struct fault *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->inner = inner;
	f->ordered = ordered;
	f->link = (struct link){ .ops = &fault_ops,
				 .run_max = inner->run_max,
				 .mtu = inner->mtu };
	list_init(&f->lent);
	f->spec.groups = 1;
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		list_init(&f->way[dir].delayed);
		list_init(&f->way[dir].passed);
	}
	begin_faults(f);
	*out = &f->link;
	return 0;
}

/* All that waits is due now. */
static void let_go(struct way *w, uint64_t now)
{
	list_for(n, &w->delayed)
	{
		struct parcel *p = container_of(n, struct parcel, node);

		p->due = p->due < now ? p->due : now;
	}
	list_for(n, &w->passed)
	{
		container_of(n, struct parcel, node)->after = 0;
	}
}

static void lose_waiting(struct way *w)
{
	w->stats.dropped += w->waiting;
	w->waiting = 0;
	parcels_free(&w->delayed);
	parcels_free(&w->passed);
}

void fault_set(struct link *link, const struct fault_spec *spec, uint64_t now)
{
	struct fault *f = fault_of(link);

	for (int dir = 0; dir < FAULT_DIRS; dir++)
		let_go(&f->way[dir], now);
	(void)send_due(f, now);
	/* A later send may have runs, which must not be cut. */
	if (!f->ordered)
		lose_waiting(&f->way[FAULT_TX]);
	f->spec = *spec;
	f->began = now;
	begin_faults(f);
	f->link.run_max = f->any ? 1 : f->inner->run_max;
}

static int wrap(struct link **out, struct link *inner, const char *text, bool ordered,
		char *err, size_t errlen)
{
	struct fault_spec *spec = malloc(sizeof(*spec));
	int rc;

	if (!spec) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	rc = (ordered ? fault_parse_ordered : fault_parse)(spec, text, err, errlen);
	if (!rc) {
		rc = fault_put(out, inner, ordered);
		if (rc)
			snprintf(err, errlen, "out of memory");
		else
			fault_set(*out, spec, 0);
	}
	free(spec);
	return rc;
}

int fault_wrap(struct link **out, struct link *inner, const char *spec, char *err,
	       size_t errlen)
{
	return wrap(out, inner, spec, false, err, errlen);
}

int fault_wrap_ordered(struct link **out, struct link *inner, const char *spec, char *err,
		       size_t errlen)
{
	return wrap(out, inner, spec, true, err, errlen);
}

void fault_knows(struct link *link, fault_sends *sends, void *arg)
{
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		fault_of(link)->way[dir].judge.sends = sends;
		fault_of(link)->way[dir].judge.arg = arg;
	}
}

void fault_capture(struct link *link, struct link *capture)
{
	fault_of(link)->inner = fault_of(link)->capture = capture;
}

struct link *fault_inner(const struct link *link)
{
	return fault_of(link)->inner;
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

bool fault_acts(const struct link *link)
{
	return fault_of(link)->any;
}
