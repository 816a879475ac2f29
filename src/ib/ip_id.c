/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_id.c - which IPv4 identifications to believe of a packet whose ICRC was
 * solved for it, since a UDP socket does not show it.
 *
 * A sender's identifications count up, with gaps (rdma_rxe), or are small (the
 * place in a GSO run).  A random one passes with a chance of 1 in 15, on top
 * of the 16 bits of CRC that are left.
 */
#include <stdlib.h>
#include <string.h>

#include "ib/ib_qp.h"

enum {
	SOURCES = 256, WAYS = 4,
	AHEAD = 4096,			/* a gap: other traffic of that host */
	BEHIND = 64,			/* reordering */
	RUN = 64,			/* GSO: the place in a run */
};

struct source {
	uint8_t ip[16];
	bool known, odd_known;
	uint16_t last, odd;		/* odd: refused; the next agrees, or not */
	uint64_t used;
};

struct ip_ids {
	uint64_t clock;
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

static struct source *find(struct ip_ids *ids, const uint8_t ip[16])
{
	uint32_t h = 0;
	struct source *set, *old;

	for (int i = 0; i < 16; i++)
		h = h * 31 + ip[i];
	set = old = &ids->v[h * 2654435761u >> 26 << 2];
	for (struct source *s = set; s < set + WAYS; s++) {
		if (memcmp(s->ip, ip, 16) == 0) {
			s->used = ++ids->clock;
			return s;
		}
		if (s->used < old->used)
			old = s;
	}
	memset(old, 0, sizeof(*old));
	memcpy(old->ip, ip, 16);
	old->used = ++ids->clock;
	return old;
}

static bool near(uint16_t last, uint16_t id)
{
	return (uint16_t)(id - last) <= AHEAD || (uint16_t)(last - id) <= BEHIND;
}

bool ip_id_accept(struct ip_ids *ids, const uint8_t ip[16], uint16_t id)
{
	struct source *s = find(ids, ip);

	if (id < RUN)
		return true;
	if (!s->known || near(s->last, id)) {
		if (!s->known || (uint16_t)(id - s->last) <= AHEAD)
			s->last = id;
		s->known = true;
		s->odd_known = false;
		return true;
	}
	if (s->odd_known && near(s->odd, id)) {	/* two agree: it has jumped */
		s->last = id;
		s->odd_known = false;
		return true;
	}
	s->odd = id;
	s->odd_known = true;
	return false;
}
