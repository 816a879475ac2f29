/* SPDX-License-Identifier: BSD-2-Clause */
/* relay.h - shared by relay.c, ending.c and fetch.c: requests at a target QP of XRC
 * that are for SRQs of other processes. */
#ifndef IB_RELAY_H
#define IB_RELAY_H

#include "core/xrc.h"
#include "ib/ib_qp.h"
#include "ib/xrc_msg.h"
#include "wire/ib_pkt.h"

enum {
	HELD = 128,	/* packets in the queue */
	PAYLOAD = 4096, /* bytes of each packet: the largest MTU */
	SLOT_WORDS = (1 << QPN_SLOT_BITS) / 64,
};

struct ending;

struct held {
	struct ib_pkt pkt; /* payload: in the relay's payload[] until it is passed on */
	uint32_t end;	   /* the PSN behind it */
};

struct relay {
	struct list node; /* ib->xrc.relays */
	struct ib_qp *q;
	struct held held[HELD];
	unsigned first, n; /* the queue is held[first, first + n) */
	unsigned passed;   /* the first `passed` of it are with the process of slot */
	uint16_t slot;
	uint32_t asked; /* the seq behind the last packet that an XRC_DONE is owed for */
	uint64_t since; /* when that debt began, or the last XRC_DONE came */
	bool stuck;	/* a full connection refused the next packet */
	/* The SRQ had no receive for the first packet: the queue waits, is passed on
	 * again at again_at, and later after gap; until: then the peer is told.  0: none.
	 */
	uint64_t until, again_at, gap;
	uint32_t life, epoch;
	uint32_t seq;		  /* seq of the first in held[] */
	uint64_t met[SLOT_WORDS]; /* slots that were sent anything of this life */
	struct ending *ending;	  /* of the earlier lives */
	/* A part of the response to the oldest READ. */
	struct {
		enum { NOTHING, WANTED, ASKED, HERE, REFUSED } state;
		enum refusal why;
		uint16_t slot;
		struct xrc_fetch msg;
		uint32_t psn; /* PSN of its first packet */
		uint8_t bytes[XRC_FETCH_MAX];
	} part;
	uint8_t payload[HELD][PAYLOAD];
};

/* Makes q's relay; q has none yet.  Returns NULL without memory. */
struct relay *relay_make(struct ib_qp *q);
static inline void relay_meet(struct relay *r, uint16_t slot)
{
	r->met[slot / 64] |= 1ull << slot % 64;
}

/* --- XRC_END (ending.c) --- */

/* The ending is used for all lives of that QP.  Returns NULL without memory. */
struct ending *ending_make(struct ib *ib, uint32_t qpn);
/* Life `life` and all before it have ended: sends XRC_END to each slot in the bitmap. */
void ending_say(struct ib *ib, struct ending *e, uint32_t life, const uint64_t *slots);
/* The QP is freed: e is freed as soon as all slots have been told. */
void ending_let_go(struct ending *e);
void endings_again(struct ib *ib);
void endings_gone(struct ib *ib, uint16_t slot);

/* --- the part of an answer (fetch.c) --- */

/* The part has arrived: makes the QP due, so that its response can go on. */
void fetch_came(struct ib_qp *q, uint16_t slot, const struct xrc_data *m,
		const uint8_t *bytes, size_t len);
/* The process that was asked for the part has ended. */
void fetch_gone(struct ib_qp *q, uint16_t slot);
/* Repeats the request for a part, if a full connection refused it. */
void fetch_again(struct ib_qp *q);

#endif
