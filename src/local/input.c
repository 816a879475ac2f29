/* SPDX-License-Identifier: BSD-2-Clause */
/* input.c - takes in what peers have written. */
#include "local/peer.h"
#include "verbs/due.h"
#include "verbs/qp.h"

enum { LOOKS = 16 }; /* rings that a turn looks at */

void peer_admit(struct peer *p)
{
	bool room;

	if (!peer_waits(p) || peer_stays_locked(p))
		return;
	peer_lock(p);
	room = ring_has_room(&p->out);
	peer_unlock(p);
	if (room)
		line_open(p);
}

static inline void look_for_news(struct peer *p, uint64_t now)
{
	if (peer_has_news(p))
		p->l->ops->words(p,
				 atomic_load_explicit(&p->answered->count,
						      memory_order_acquire),
				 now);
}

/* Is the next record for shm/?  A pad is taken with the segment behind it. */
static bool is_segment(const struct ring_in *in)
{
	const uint8_t kind = ring_at(in)->kind;

	return kind == REC_SEGMENT || kind == REC_PAD;
}

/* Takes in the next record, a datagram.  Returns 1, or -EPROTO. */
static int take_datagram(struct peer *p, uint64_t now)
{
	struct local *l = p->l;
	const uint8_t *payload;
	struct rec rec;
	uint32_t len;

	if (ring_next(&p->in, &rec, &payload, &len) <= 0 || rec.kind != REC_DGRAM)
		return -EPROTO;
	local_prolong(l);
	dgram_input(p, payload, len, now);
	ring_release(&p->in, &rec);
	l->count.in++;
	l->count.in_bytes += len;
	return 1;
}

/* Takes in SERVE records at most.  A record that its writer keeps changing is neither a
 * segment nor a datagram, and costs something, too.  Returns how many, or -EPROTO. */
static int take_records(struct peer *p, uint64_t now)
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
		rc = take_datagram(p, now);
		if (rc < 0)
			return rc;
		n += (unsigned)rc;
	}
	return (int)n;
}

static unsigned serve(struct local *l, struct peer *p, uint64_t now)
{
	bool kick;
	int n = take_records(p, now);

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
	if (p->state == PEER_UP)
		p->l->ops->news(p, p->l->now);
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
