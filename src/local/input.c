/* SPDX-License-Identifier: BSD-2-Clause */
/* input.c - takes in what peers have written. */
#include "local/peer.h"
#include "verbs/due.h"
#include "verbs/qp.h"

enum {
	LOOKS = 16, /* rings that a turn looks at */
	/* Bytes that a turn copies from a peer's memory count as many records as these
	 * fill. */
	FETCHED = 4096,
};

void peer_admit(struct peer *p)
{
	bool room;

	if (!peer_waits(p) || peer_stays_locked(p))
		return;
	peer_lock(p);
	room = ring_has_room(&p->out);
	peer_unlock(p);
	if (room)
		qp_open_lane(p->l->core, &p->lane);
}

static bool take(struct peer *p, const struct rec *r, const uint8_t *payload,
		 uint32_t len, uint64_t now)
{
	if (r->kind == REC_SEGMENT) /* from a peer that has not agreed on them */
		return false;
	if (r->kind == REC_PACKET && lane_input_short(p, r, payload, len, now))
		return true;
	local_prolong(p->l);
	if (r->kind == REC_PACKET)
		return lane_input(p, r, payload, len, now);
	dgram_input(p, payload, len, now);
	return true;
}

/* What a record takes of SERVE. */
static unsigned cost_of(const struct rec *r)
{
	return 1 + (r->flags & REC_BY_REF ? r->len / FETCHED : 0);
}

static void ask_all(struct peer *p, uint64_t now)
{
	list_for_safe(n, &p->lane.unanswered)
		p->l->ops->news(container_of(n, struct qp, lane.ack), now);
}

/* Completes what the words up to this count say. */
static void hear_words(struct peer *p, uint32_t count, uint64_t now)
{
	uint64_t word[ANSWERS];
	uint32_t n, i = 0;
	const bool whole = peer_words(p, count, word, &n);

	p->heard = count;
	if (!whole) {
		ask_all(p, now);
		return;
	}
	do {
		p->l->ops->told(p->l->core, &p->lane, word[i], now);
	} while (++i < n);
}

static inline void look_for_news(struct peer *p, uint64_t now)
{
	uint32_t count;

	if (!peer_has_news(p))
		return;
	count = atomic_load_explicit(&p->answered->count, memory_order_acquire);
	if (p->segments)
		p->l->ops->segment_words(p, count, now);
	else
		hear_words(p, count, now);
}

/* Takes in records other than segments: all, or with `one` the next.  Returns how many,
 * or -EPROTO. */
static inline int take_records(struct peer *p, bool one, unsigned *cost, uint64_t now)
{
	struct local *l = p->l;
	const uint8_t *payload;
	uint32_t len, bytes = 0;
	struct rec rec;
	int n = 0, rc = 0;

	while (*cost < SERVE && (rc = ring_next(&p->in, &rec, &payload, &len)) > 0) {
		if (!take(p, &rec, payload, len, now))
			return -EPROTO;
		ring_release(&p->in, &rec);
		bytes += len;
		*cost += cost_of(&rec);
		n++;
		if (one)
			break;
	}
	l->count.in += (unsigned)n;
	l->count.in_bytes += bytes;
	return rc < 0 ? rc : n;
}

/* Is the next record for shm/?  A pad is taken with the segment behind it. */
static bool is_segment(const struct ring_in *in)
{
	const unsigned kind = ring_at(in)->kind;

	return kind == REC_SEGMENT || kind == REC_PAD;
}

/* Takes in all records of a peer that sends segments, too.  A record that its writer
 * keeps changing is neither a segment nor another, and costs something, too. */
static int take_mixed(struct peer *p, uint64_t now)
{
	unsigned n = 0;
	int rc;

	for (unsigned cost = 0; cost < SERVE; cost++) {
		rc = p->l->ops->segments(p, SERVE - cost, now);
		if (rc < 0)
			return rc;
		n += (unsigned)rc;
		cost += (unsigned)rc;
		if (ring_empty(&p->in))
			break;
		if (is_segment(&p->in)) /* came just now */
			continue;
		rc = take_records(p, true, &cost, now);
		if (rc < 0)
			return rc;
		n += (unsigned)rc;
	}
	return (int)n;
}

static unsigned serve(struct local *l, struct peer *p, uint64_t now)
{
	unsigned cost = 0;
	bool kick;
	int n = p->segments ? take_mixed(p, now) : take_records(p, false, &cost, now);

	if (n < 0) {
		local_prolong(l);
		peer_broken(p, "what no urnic writes is in its ring");
		return 1;
	}
	kick = n && ring_tell(&p->in);
	look_for_news(p, now);
	if (__builtin_expect(peer_waits(p), 0))
		peer_admit(p);
	if (kick && !peer_looks(p)) {
		local_prolong(l);
		peer_kick(p);
	}
	return (unsigned)n;
}

void peer_drain(struct peer *p)
{
	for (unsigned n = 0; n <= RING_SLOTS && p->state == PEER_UP; n += SERVE)
		if (!serve(p->l, p, p->l->now))
			break;
	if (p->state != PEER_UP)
		return;
	if (p->segments)
		p->l->ops->segment_news(p, p->l->now);
	else
		ask_all(p, p->l->now);
}

unsigned local_loopback(struct local *l, uint64_t now)
{
	if (!l->self || ring_empty(&l->self->in))
		return 0;
	return serve(l, l->self, now);
}

/* Serves the first `looks` rings of the list and moves them to its end.  Returns how many
 * rings were served. */
static unsigned look_at(struct local *l, struct list *rings, unsigned looks, uint64_t now,
			struct local_got *got)
{
	unsigned n = 0;
	struct list *last = rings->prev;

	while (n < looks && !list_empty(rings)) {
		struct list *first = rings->next;
		struct peer *p = container_of(first, struct peer, node_up);

		n++;
		got->records += serve(l, p, now);
		if (first == last || list_empty(rings))
			break;
		if (rings->next == first) {
			list_del(first);
			list_add_tail(rings, first);
		}
	}
	return n;
}

struct local_got local_input(struct local *l, uint64_t now)
{
	struct local_got got = { .records = local_loopback(l, now) };
	unsigned looks;

	l->now = now;
	l->one_sided = false;
	looks = look_at(l, &l->hot, LOOKS, now, &got);
	if (looks < LOOKS)
		look_at(l, &l->cold, LOOKS - looks, now, &got);
	got.one_sided = l->one_sided;
	if (!list_empty(&l->dead)) {
		local_prolong(l);
		local_bury(l);
	}
	return got;
}

bool rings_are_quiet(const struct local *l)
{
	if ((l->self && !ring_empty(&l->self->in)) ||
	    atomic_load_explicit(&l->nhot, memory_order_relaxed) > LOOKS)
		return false;
	list_for(n, &l->hot)
	{
		const struct peer *p = container_of(n, struct peer, node_up);

		if (!ring_empty(&p->in) || peer_has_news(p) || peer_waits(p))
			return false;
	}
	return true;
}
