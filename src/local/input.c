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

	if (!peer_waits(p))
		return;
	peer_lock(p);
	room = ring_has_room(&p->out);
	peer_unlock(p);
	if (room)
		qp_admit_all(p->l->core, &p->lane);
}

static bool take(struct peer *p, const struct rec *r, const uint8_t *payload,
		 uint32_t len, uint64_t now)
{
	if (r->kind == REC_SEGMENT)
		return p->segments && p->l->ops->segment(p, r, payload, len, now);
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

/* Completes what the words up to this count say.  Returns false if some of them were
 * overwritten already, or might be while they are read: then ask_all(). */
static bool hear_last(struct peer *p, uint32_t count, uint64_t now)
{
	const struct answered *a = p->answered;
	uint32_t n = count - p->heard;
	uint64_t word[ANSWERS];

	if (n >= ANSWERS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		word[i] = atomic_load_explicit(&a->word[(p->heard + 1 + i) % ANSWERS],
					       memory_order_acquire);
	/* Relaxed: who saw a later word acquired, with it, the count before that word. */
	if (atomic_load_explicit(&a->count, memory_order_relaxed) - p->heard >= ANSWERS)
		return false;
	p->heard = count;
	for (uint32_t i = 0; i < n; i++)
		if (p->segments)
			p->l->ops->segment_told(p, word[i], now);
		else
			p->l->ops->told(p->l->core, &p->lane, word[i], now);
	return true;
}

static struct list *next_of(struct peer *p, struct list *n)
{
	struct list *next;

	peer_lock(p);
	next = n->next;
	peer_unlock(p);
	return next;
}

/* Posting threads add to the list's end meanwhile; only the turn's holder removes. */
static void ask_all_segments(struct peer *p, uint64_t now)
{
	struct list *head = &p->lane.unanswered, *n, *next;

	for (n = next_of(p, head); n != head; n = next) {
		next = next_of(p, n);
		p->l->ops->segment_news(container_of(n, struct qp, lane.ack), now);
	}
}

static void ask_all(struct peer *p, uint64_t now)
{
	if (p->segments) {
		ask_all_segments(p, now);
		return;
	}
	list_for_safe(n, &p->lane.unanswered)
		p->l->ops->news(container_of(n, struct qp, lane.ack), now);
}

static void look_for_news(struct peer *p, uint64_t now)
{
	uint32_t count;

	if (!peer_has_news(p))
		return;
	count = atomic_load_explicit(&p->answered->count, memory_order_acquire);
	if (hear_last(p, count, now))
		return;
	p->heard = count;
	ask_all(p, now);
}

static unsigned serve(struct local *l, struct peer *p, uint64_t now)
{
	const uint8_t *payload;
	struct rec rec;
	uint32_t len, bytes = 0;
	unsigned n = 0, cost = 0;
	bool kick;
	int rc = 0;

	while (cost < SERVE && (rc = ring_next(&p->in, &rec, &payload, &len)) > 0) {
		if (!take(p, &rec, payload, len, now)) {
			rc = -EPROTO;
			break;
		}
		ring_release(&p->in, &rec);
		bytes += len;
		cost += cost_of(&rec);
		n++;
	}
	l->count.in += n;
	l->count.in_bytes += bytes;
	if (rc < 0) {
		local_prolong(l);
		peer_broken(p, "what no urnic writes is in its ring");
		return n;
	}
	kick = n && ring_tell(&p->in);
	look_for_news(p, now);
	peer_admit(p);
	if (kick && !peer_looks(p)) {
		local_prolong(l);
		peer_kick(p);
	}
	return n;
}

void peer_drain(struct peer *p)
{
	for (unsigned n = 0; n <= RING_SLOTS && p->state == PEER_UP; n += SERVE)
		if (!serve(p->l, p, p->l->now))
			break;
	if (p->state == PEER_UP)
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

bool local_is_quiet(const struct local *l)
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
