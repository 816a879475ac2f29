/* SPDX-License-Identifier: BSD-2-Clause */
/* relay.h - XRC between processes: a target QP here takes requests for SRQs of other
 * processes of the domain (relay.c), and other processes pass on requests for SRQs here
 * (carry.c).  Inside ib/ only; see docs/dev/xrc.md.  All need the turn; a function with a
 * QP needs its qp->lock, too. */
#ifndef IB_RELAY_H
#define IB_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "ib/ib_qp.h"

enum { XRC_BUCKETS = 256, XRC_SLOTS = 1 << QPN_SLOT_BITS };

/* State of the NIC for XRC between processes. */
struct ib_xrc {
	int (*pass)(void *arg, uint16_t slot, const struct iovec *part, unsigned n);
	void *arg;
	struct list ends;		    /* of lives of this process's target QPs */
	struct list stand_ins[XRC_BUCKETS]; /* for target QPs of other processes */
	uint16_t nstand_ins[XRC_SLOTS];
	uint32_t lives; /* the last life that a relay was given */
	/* A full connection refused an XRC_END: say it again then. 0: the time is not
	 * chosen yet; NEVER: none was refused. */
	uint64_t again_at;
};

extern struct room_key ib_xrc_key;

/* NULL: no other process can be reached. */
static inline struct ib_xrc *xrc_of(const struct ib *ib)
{
	return room_get(ib->core, &ib_xrc_key);
}

/* The QP's relay; NULL: no request was for another process yet. */
static inline struct relay *relay_of(const struct ib_qp *q)
{
	return q->own;
}

/* Does SRQ srqn belong to another process? */
static inline bool is_abroad(const struct ib_qp *q, uint32_t srqn)
{
	return srqn && qpn_slot(srqn) != q->qp->core->slot;
}

/* ACCEPTED if pkt continues the message under way, or begins one after it. */
enum refusal xrc_follows(const struct ib_qp *q, const struct ib_pkt *pkt);
/* The receive under way went away with its SRQ.  Forgets it and returns true. */
bool xrc_lost_recv(struct ib_qp *q) REQUIRES(q->qp->lock);

/* Takes pkt, an XRC request, if it is for another process or comes behind one that is.
 * Returns false if pkt is for this process and has the expected PSN or an earlier one. */
bool relay_takes(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
/* Repeats a question, or looks again for a receive.  Returns when to call it next. */
uint64_t relay_run(struct ib_qp *q, uint64_t now);
/* The responder is reset or fails: the relay drops its queue. */
void relay_stop(struct ib_qp *q);
void relay_free(struct ib_qp *q);
/* As rsp_bytes(), for a READ of another process's memory, from packet t->sent on; also
 * -EAGAIN while it is fetched: the QP becomes due when it has arrived. */
int relay_bytes(struct ib_qp *q, const struct resource *t, uint64_t now,
		struct rsp_bytes *out, enum refusal *why);
/* The response to the oldest READ has been sent. */
void relay_read_done(struct ib_qp *q);
/* Do responses wait for such payload? */
bool relay_waits(const struct ib_qp *q);
void relay_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now);
void relay_gone(struct ib *ib, uint16_t slot, uint64_t now);
/* Says again each XRC_END that a full connection refused. */
void relays_end(struct ib *ib);
/* Frees what is left of QPs that are gone. */
void relays_close(struct ib *ib);

void carry_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now);
void carry_gone(struct ib *ib, uint16_t slot, uint64_t now);
void carry_close(struct ib *ib);

/* Passes a message of n parts to the process of slot.  Returns as ib_xrc.pass. */
int xrc_pass(struct ib *ib, uint16_t slot, const struct iovec *part, unsigned n);

#endif
