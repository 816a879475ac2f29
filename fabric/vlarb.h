/* SPDX-License-Identifier: BSD-2-Clause */
/* vlarb.h - selects the VL of a port that sends next (IBTA vol. 1, 7.6.9).
 *
 * An entry of a table, a VL and a weight, is served until so many blocks of 64 bytes
 * have been sent (the last packet may exceed that) or the VL has no packet; then the
 * next entry is. The high-priority table goes first, until it has sent so much that the
 * low-priority table gets its chance. A VL that no entry with a weight names sends only
 * if no other VL has packets; such VLs send one packet each in turn.
 */
#ifndef FABRIC_VLARB_H
#define FABRIC_VLARB_H

#include <stdbool.h>
#include <stdint.h>

enum { VLARB_ENTRIES = 8, VLARB_UNBOUNDED = 255 };

enum vlarb_list { VLARB_LOW, VLARB_HIGH, VLARB_NEITHER };

/* The tables as the subnet manager wrote them. */
struct vlarb_tables {
	const uint8_t *list[2]; /* of VLARB_ENTRIES: VL (its lower 4 bits), weight */
	uint8_t limit; /* LimitOfHighPriority, in units of 4 KiB; 0: one packet */
};

/* The arbiter's state; all zero at the start. */
struct vlarb {
	struct {
		uint8_t entry; /* the entry that is served */
		int32_t left;  /* of its weight, in blocks; 0 or less: not begun */
	} at[2];
	uint32_t high; /* blocks by the high table since the low one's last chance */
	uint8_t last;  /* the last VL of neither table that sent */
};

struct vlarb_pick {
	uint8_t vl;
	uint8_t list; /* enum vlarb_list */
	uint8_t entry;
	uint8_t weight; /* the entry begins with this weight; 0: it is continued */
	bool chance;	/* the low table was tried first, and had nothing to send */
};

/* Picks one of the VLs in `wait`, a mask that is not 0, without changing the state.  When
 * the picked VL's packet has gone, the caller reports it by vlarb_sent(). */
struct vlarb_pick vlarb_pick(const struct vlarb *a, const struct vlarb_tables *t,
			     unsigned wait);
void vlarb_sent(struct vlarb *a, const struct vlarb_pick *p, uint32_t blocks);

#endif
