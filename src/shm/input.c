/* SPDX-License-Identifier: BSD-2-Clause */
/* input.c - takes in what peers have written. */
#include "shm/shm_qp.h"
#include "verbs/due.h"
#include "verbs/qp.h"

enum {
	LOOKS = 16,  /* rings that a turn looks at */
	LONG = 4096, /* bytes of a record; see tell_early() */
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
		line_open(p);
}

static inline void look_for_news(struct peer *p, uint64_t now)
{
	if (peer_has_news(p))
		src_words(p,
			  atomic_load_explicit(&p->answered->count, memory_order_acquire),
			  now);
}

static void take_datagram(struct peer *p, const uint8_t *payload, uint32_t len,
			  uint64_t now)
{
	struct peers *l = p->l;

	peers_prolong(l);
	dgram_input(p, payload, len, now);
	l->count.traffic.got++;
	l->count.traffic.got_bytes += len;
}

/* There is room for the peer, which waits for it. */
static void has_made_room(struct peer *p)
{
	if (peer_looks(p))
		return;
	peers_prolong(p->l);
	peer_kick(p);
}

/* A long record was read.  Its writer goes on, or is woken, while the next ones are.
 * Returns false if the peer has ended meanwhile. */
__attribute__((noinline)) static bool tell_early(struct peer *p)
{
	if (p->in.tail - p->in.told < RING_TELL)
		return true;
	p->l->core->round.bulk = true;
	if (ring_tell(&p->in))
		has_made_room(p);
	return p->state == PEER_UP;
}

/* Takes in SERVE records at most.  Returns how many, or -EPROTO. */
static int take_records(struct peer *p, uint64_t now)
{
	const uint8_t *payload;
	int n = 0, rc = 0;
	struct rec rec;
	uint32_t len;

	while (n < SERVE && (rc = ring_next(&p->in, &rec, &payload, &len)) > 0) {
		if (__builtin_expect(rec.kind == REC_DGRAM, 0))
			take_datagram(p, payload, len, now);
		else if (__builtin_expect(rec.kind == REC_END, 0)) {
			if (!end_take(p, &rec, payload, len))
				return -EPROTO;
		} else if (!dst_take(p, &rec, payload, len, now))
			return -EPROTO;
		ring_release(&p->in, &rec);
		n++;
		if (__builtin_expect(rec.bytes > LONG, 0) && !tell_early(p))
			return n;
	}
	return rc < 0 ? rc : n;
}

static unsigned serve(struct peers *l, struct peer *p, uint64_t now)
{
	bool kick;
	int n = take_records(p, now);

	if (n < 0) {
		peers_prolong(l);
		peer_broken(p, "what no urnic writes is in its ring");
		return 1;
	}
	kick = n && ring_tell(&p->in);
	look_for_news(p, now);
	if (__builtin_expect(peer_waits(p), 0))
		peer_admit(p);
	if (kick)
		has_made_room(p);
	return (unsigned)n;
}

void peer_drain(struct peer *p)
{
	for (unsigned n = 0; n <= RING_SLOTS && p->state == PEER_UP; n += SERVE)
		if (!serve(p->l, p, p->l->now))
			break;
	if (p->state == PEER_UP)
		src_news(p, p->l->now);
}

unsigned peers_loopback(struct peers *l, uint64_t now)
{
	if (!l->self || ring_empty(&l->self->in))
		return 0;
	return serve(l, l->self, now);
}

/* Serves the first `looks` rings of the list and moves them to its end.  Returns how many
 * rings were served. */
static unsigned look_at(struct peers *l, struct list *rings, unsigned looks, uint64_t now,
			struct peers_got *got)
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

struct peers_got peers_input(struct peers *l, uint64_t now)
{
	struct peers_got got = { .records = peers_loopback(l, now) };
	unsigned looks;

	l->now = now;
	l->one_sided = false;
	looks = look_at(l, &l->hot, LOOKS, now, &got);
	if (looks < LOOKS)
		look_at(l, &l->cold, LOOKS - looks, now, &got);
	got.one_sided = l->one_sided;
	if (!list_empty(&l->dead)) {
		peers_prolong(l);
		peers_bury(l);
	}
	return got;
}

bool rings_are_quiet(const struct peers *l)
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
