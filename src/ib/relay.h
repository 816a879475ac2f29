/* SPDX-License-Identifier: BSD-2-Clause */
/* relay.h - what relay.c and fetch.c share: the requests at a target QP of XRC that are
 * for other processes. */
#ifndef IB_RELAY_H
#define IB_RELAY_H

#include "core/xrc.h"
#include "ib/ib_qp.h"
#include "ib/xrc_msg.h"
#include "wire/ib_pkt.h"

enum {
	HELD = 128,	/* packets */
	PAYLOAD = 4096, /* of each: the largest MTU */
	SLOT_WORDS = (1 << QPN_SLOT_BITS) / 64,
};

struct ending;

struct held {
	struct ib_pkt pkt; /* its payload lies in the relay, until it is passed on */
	uint32_t end;	   /* the PSN behind it */
};

struct relay {
	struct list node; /* ib->xrc.relays */
	struct ib_qp *q;
	struct held held[HELD];
	unsigned first, n; /* in held[], of which .. */
	unsigned passed;   /* .. so many are with the process of .. */
	uint16_t slot;
	uint32_t asked; /* the seq behind the last one that XRC_DONE is owed for */
	uint64_t since; /* the first of these was passed on, or the last XRC_DONE came */
	bool stuck;	/* a connection did not take the next one */
	uint32_t life, epoch;
	uint32_t seq;		  /* of the first in held[] */
	uint64_t met[SLOT_WORDS]; /* slots that know this life */
	struct ending *ending;	  /* of the lives before this one */
	/* A part of the answer to the oldest READ. */
	struct {
		enum { NOTHING, WANTED, ASKED, HERE, REFUSED } state;
		enum refusal why;
		uint16_t slot;
		struct xrc_fetch msg;
		uint32_t psn; /* of its first packet */
		uint8_t bytes[XRC_FETCH_MAX];
	} part;
	uint8_t payload[HELD][PAYLOAD];
};

/* That of q, which has none; or NULL. */
struct relay *relay_make(struct ib_qp *q);
static inline void relay_meet(struct relay *r, uint16_t slot)
{
	r->met[slot / 64] |= 1ull << slot % 64;
}

/* --- XRC_END (ending.c) --- */

/* For all lives of that QP; or NULL. */
struct ending *ending_make(struct ib *ib, uint32_t qpn);
/* This life has ended, and those before it: the slots hear it. */
void ending_say(struct ib *ib, struct ending *e, uint32_t life, const uint64_t *slots);
/* The QP ends: so does e, when it was said to all. */
void ending_let_go(struct ending *e);
void endings_again(struct ib *ib);
void endings_gone(struct ib *ib, uint16_t slot);

/* --- the part of an answer (fetch.c) --- */

/* It has come: the QP is due, its answer can go on. */
void fetch_came(struct ib_qp *q, uint16_t slot, const struct xrc_data *m,
		const uint8_t *bytes, size_t len);
/* The process that was asked has ended. */
void fetch_gone(struct ib_qp *q, uint16_t slot);
/* A connection that took nothing may take it now. */
void fetch_again(struct ib_qp *q);

#endif
