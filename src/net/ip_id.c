/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_id.c - decides which IPv4 identifications to believe. A UDP socket does not show
 * them, so they are solved for from the packet's ICRC.
 *
 * A solved identification leaves 16 of the CRC's 32 bits to detect errors, so these
 * rules must make up for the rest. There are two kinds of sender. Linux UDP sockets with
 * DF number packets by their place in a GSO run: small numbers, nearly always as
 * guessed. rdma_rxe and adapters count: by one for each packet between two addresses,
 * including those for other processes of this host, and Linux adds up to one for each
 * tick that the counter was idle. So the longer ago the last packet was, the larger the
 * step that is believed. A sender's first packet shows its kind; the sender is believed
 * to have changed when several packets agree.
 *
 * A packet gets its number before it waits in a queue of the sender, where rdma_rxe
 * keeps up to 64 of each QP. So the QPs of one sender overtake each other by hundreds
 * (691 was seen with 16 QPs; 1,081 where processors are busy). A number is at most 64
 * ahead of all that came before, or a few hundred where processors are busy (410 was
 * seen). A number far behind is believed if it is missing so far, which most numbers are
 * not.
 *
 * Datagrams that our own socket had no room for are a gap as well. The socket tells how
 * many, but counts a merged run as one.
 *
 * A corrupted packet is still accepted with a chance of 2^-26 for the first kind of
 * sender. For a busy one of the second kind it is 2^-20 if packets are in order, and
 * 2^-19 where nine of ten are missing.
 */
#include <stdlib.h>
#include <string.h>

#include "net/ip_addr.h"
#include "net/ip_id.h"

enum {
	SOURCES = 256,
	WAYS = 4,
	AHEAD = 512, /* largest gap: packets lost, or sent to others */
	/* largest step back: repeats, or several counters of one sender */
	BEHIND = 64,
	WINDOW = 4096, /* packets of reordering: 64 QPs of rdma_rxe */
	OPEN = 1024,   /* the same, where the past is unknown */
	RUN = 64,      /* places in a GSO run */
	/* right guesses in a row that show that the sender no longer counts */
	GUESSES = 8,
};

static const uint64_t PACKET_NS = 2000;	   /* ns per packet of the fastest counter */
static const uint64_t ODD_NS = 4000000000; /* ns until a refused number is forgotten */

struct mark {
	bool known;
	uint16_t id;
	uint64_t at, lost; /* at: ns; lost: ids->lost then */
};

struct source {
	uint8_t from[16], to[16];
	/* the sender numbers packets by their place in a run */
	bool places;
	/* right guesses since the last solved identification */
	unsigned guesses;
	/* last: the highest; odd: a refused number, which the next may confirm */
	struct mark last, odd;
	/* which numbers before last are missing, by id % WINDOW */
	uint64_t missing[WINDOW / 64];
	uint64_t used;
};

struct ip_ids {
	uint64_t clock;
	uint64_t lost;	       /* datagrams ever lost by our own socket */
	struct source *latest; /* the source found last */
	struct source v[SOURCES];
};

struct ip_ids *ip_ids_new(void)
{
	return calloc(1, sizeof(struct ip_ids));
}

void ip_ids_free(struct ip_ids *ids)
{
	free(ids);
}

static bool is_of(const struct source *s, const struct dgram *d)
{
	return memcmp(s->from, ip_of(d)->from.ip, 16) == 0 &&
	       memcmp(s->to, ip_of(d)->to.ip, 16) == 0;
}

static struct source *find_source(struct ip_ids *ids, const struct dgram *d)
{
	uint32_t h = 0;
	struct source *set, *old;

	if (ids->latest && is_of(ids->latest, d))
		return ids->latest;
	for (int i = 0; i < 16; i++)
		h = (h * 31 + ip_of(d)->from.ip[i]) * 31 + ip_of(d)->to.ip[i];
	set = old = &ids->v[h * 2654435761u >> 26 << 2];
	for (struct source *s = set; s < set + WAYS; s++) {
		if (is_of(s, d)) {
			s->used = ++ids->clock;
			return ids->latest = s;
		}
		if (s->used < old->used)
			old = s;
	}
	memset(old, 0, sizeof(*old));
	memcpy(old->from, ip_of(d)->from.ip, 16);
	memcpy(old->to, ip_of(d)->to.ip, 16);
	old->used = ++ids->clock;
	return ids->latest = old;
}

/* Could a counter that showed m.id at m.at show id now? */
static bool follows(const struct ip_ids *ids, const struct mark *m, uint16_t id,
		    uint64_t now)
{
	uint64_t idle = now > m->at ? (now - m->at) / PACKET_NS : 0;
	uint64_t lost = (ids->lost - m->lost) * RUN;

	return (uint16_t)(id - m->id) <= AHEAD + idle + lost ||
	       (uint16_t)(m->id - id) <= BEHIND;
}

static void set_missing(struct source *s, uint16_t id, bool missing)
{
	uint64_t bit = 1ull << id % 64, *word = &s->missing[id % WINDOW / 64];

	*word = missing ? *word | bit : *word & ~bit;
}

static bool is_missing(const struct source *s, uint16_t id)
{
	return (uint16_t)(s->last.id - id) < WINDOW &&
	       s->missing[id % WINDOW / 64] >> id % 64 & 1;
}

/* Makes id the highest number of s. */
static void follow_id(const struct ip_ids *ids, struct source *s, uint16_t id,
		      uint64_t now)
{
	uint16_t n = (uint16_t)(id - s->last.id - 1);

	if (!s->last.known || n >= WINDOW) { /* the numbers between are unknown */
		memset(s->missing, 0, sizeof(s->missing));
		n = OPEN;
	}
	for (; n > 0; n--)
		set_missing(s, (uint16_t)(id - n), true);
	s->last = (struct mark){ true, id, now, ids->lost };
}

static bool counts(const struct ip_ids *ids, struct source *s, uint16_t id, uint64_t now)
{
	if (!s->last.known ||
	    (!is_missing(s, id) && (uint16_t)(s->last.id - id) > BEHIND))
		follow_id(ids, s, id, now);
	set_missing(s, id, false);
	s->odd.known = false;
	s->guesses = 0;
	return true;
}

void ip_id_lost(struct ip_ids *ids, uint32_t n)
{
	ids->lost += n;
}

void ip_id_guessed(struct ip_ids *ids, const struct dgram *d)
{
	struct source *s = find_source(ids, d);

	if (s->last.known && ++s->guesses < GUESSES)
		return;
	s->places = true;
	s->last.known = s->odd.known = false;
}

bool ip_id_accept(struct ip_ids *ids, const struct dgram *d, uint16_t id, uint64_t now)
{
	struct source *s = find_source(ids, d);

	if (s->last.known ? follows(ids, &s->last, id, now) || is_missing(s, id)
			  : !s->places && id >= RUN)
		return counts(ids, s, id, now);
	if (id < RUN)
		return true;
	if (s->odd.known && now - s->odd.at < ODD_NS && follows(ids, &s->odd, id, now)) {
		s->last.known = false;
		return counts(ids, s, id, now);
	}
	s->odd = (struct mark){ true, id, now, ids->lost };
	return false;
}
