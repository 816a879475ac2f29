/* SPDX-License-Identifier: BSD-2-Clause */
/* vlarb.h - which VL of a port sends next (IBTA vol. 1, 7.6.9).
 *
 * A table's entry, a VL and a weight, is served until packets of so many blocks of 64
 * bytes have gone (the last of them may be longer) or the VL has none; then the next
 * one is.  The high-priority table goes first, until so much of it has gone by that the
 * low-priority table gets its chance.  A VL that no entry with a weight names goes where
 * no other VL has anything, one packet of each in turn.
 */
#ifndef FABRIC_VLARB_H
#define FABRIC_VLARB_H

#include <stdbool.h>
#include <stdint.h>

enum { VLARB_ENTRIES = 8, VLARB_UNBOUNDED = 255 };

enum vlarb_list { VLARB_LOW, VLARB_HIGH, VLARB_NEITHER };

/* As the subnet manager wrote it. */
struct vlarb_tables {
	const uint8_t *list[2]; /* of VLARB_ENTRIES: VL (its lower 4 bits), weight */
	uint8_t limit;		/* LimitOfHighPriority: of 4 KiB; 0: one packet */
};

/* Zero is how it begins. */
struct vlarb {
	struct {
		uint8_t entry; /* whose turn it is */
		int32_t left;  /* of its weight; 0 or less: it has not begun */
	} at[2];
	uint32_t high; /* blocks by the high table since the low one had its chance */
	uint8_t last;  /* VL of neither table that sent */
};

struct vlarb_pick {
	uint8_t vl;
	uint8_t list; /* enum vlarb_list */
	uint8_t entry;
	uint8_t weight; /* its entry begins anew with that; 0: it goes on */
	bool chance;	/* the low table was asked before it, and had nothing */
};

/* One of the VLs in wait, a mask that is not 0.  It changes nothing: what was picked is
 * told when it has gone. */
struct vlarb_pick vlarb_pick(const struct vlarb *a, const struct vlarb_tables *t,
			     unsigned wait);
void vlarb_sent(struct vlarb *a, const struct vlarb_pick *p, uint32_t blocks);

#endif
