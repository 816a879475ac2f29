/* SPDX-License-Identifier: BSD-2-Clause */
/* vlarb.c - the arbiter of a port's VLs; see vlarb.h. */
#include "fabric/vlarb.h"

enum { HIGH_UNIT = 4096 / 64 };

/* Picks from one table, beginning with the entry that is served now; if that entry has
 * begun, it has only the rest of its weight. */
static bool of_list(const struct vlarb *a, const struct vlarb_tables *t, uint8_t list,
		    unsigned wait, struct vlarb_pick *p)
{
	bool begun = a->at[list].left > 0;

	for (unsigned i = 0; i < VLARB_ENTRIES; i++) {
		uint8_t e = (uint8_t)((a->at[list].entry + i) % VLARB_ENTRIES);
		uint8_t vl = t->list[list][e * 2] & 15, weight = t->list[list][e * 2 + 1];

		if (!weight || !(wait >> vl & 1))
			continue;
		*p = (struct vlarb_pick){ .vl = vl,
					  .list = list,
					  .entry = e,
					  .weight = i || !begun ? weight : 0 };
		return true;
	}
	return false;
}

static bool high_may(const struct vlarb *a, uint8_t limit)
{
	return limit == VLARB_UNBOUNDED || a->high == 0 ||
	       a->high < (uint32_t)limit * HIGH_UNIT;
}

/* The next VL in `wait` after vl, round robin. */
static uint8_t after(uint8_t vl, unsigned wait)
{
	do
		vl = (vl + 1) & 15;
	while (!(wait >> vl & 1));
	return vl;
}

struct vlarb_pick vlarb_pick(const struct vlarb *a, const struct vlarb_tables *t,
			     unsigned wait)
{
	struct vlarb_pick p, low;
	bool high = of_list(a, t, VLARB_HIGH, wait, &p);

	if (high && high_may(a, t->limit))
		return p;
	if (of_list(a, t, VLARB_LOW, wait, &low))
		return low;
	if (!high)
		return (struct vlarb_pick){ .vl = after(a->last, wait),
					    .list = VLARB_NEITHER };
	p.chance = true;
	return p;
}

void vlarb_sent(struct vlarb *a, const struct vlarb_pick *p, uint32_t blocks)
{
	if (p->list == VLARB_NEITHER) {
		a->last = p->vl;
		return;
	}
	if (p->weight)
		a->at[p->list].left = p->weight;
	a->at[p->list].left -= (int32_t)blocks;
	a->at[p->list].entry =
		(uint8_t)((p->entry + (a->at[p->list].left <= 0)) % VLARB_ENTRIES);
	if (p->list == VLARB_LOW || p->chance)
		a->high = 0;
	a->high += p->list == VLARB_HIGH ? blocks : 0;
}
