/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - XRC between processes: requests for SRQs of other processes of the domain, and
 * those that other processes pass on.  Inside ib/ only; docs/xrc.md is the page.  Turn
 * held, and qp->lock of what has a QP. */
#ifndef IB_XRC_H
#define IB_XRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/target.h"
#include "sys/list.h"
#include "sys/qpn.h"

struct ib;
struct ib_pkt;
struct ib_qp;
struct relay;
struct resource;
struct span;

enum { XRC_BUCKETS = 256, XRC_SLOTS = 1 << QPN_SLOT_BITS };

/* XRC between processes: relay.c, carry.c. */
struct ib_xrc {
	/* Passes a message on to a process of this user's.  0, -EAGAIN, -ESRCH, -EFAULT;
	 * NULL: there are no others. */
	int (*pass)(void *arg, uint16_t slot, const struct iovec *part, unsigned n);
	void *arg;
	struct list relays;		    /* of this process's target QPs */
	struct list stand_ins[XRC_BUCKETS]; /* for those of others */
	struct list late;		    /* answers: carry.c */
	struct list endings;		    /* of lives of target QPs: ending.c */
	uint16_t nstand_ins[XRC_SLOTS], nlate[XRC_SLOTS];
	uint32_t lives;	   /* given to relays */
	bool again;	   /* a connection took nothing: it is tried again .. */
	uint64_t again_at; /* .. then; 0: not known yet */
};

/* pkt, a request of XRC, is for another process, or comes behind one that is: taken.
 * False: it is this process's, with the expected PSN or before it. */
bool relay_takes(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
/* The responder forgets all: so does the relay. */
void relay_stop(struct ib_qp *q);
void relay_free(struct ib_qp *q);
/* The bytes of a READ's answer t from its packet t->sent on, which are fetched from
 * another process: *out.  0; -EAGAIN: they are not here yet, and the QP is due when they
 * are; -EACCES: they are refused, *why. */
struct relay_bytes {
	uint8_t *at;
	uint32_t first, n; /* packets of the answer */
};
int relay_bytes(struct ib_qp *q, const struct resource *t, struct relay_bytes *out,
		enum refusal *why);
/* The answer to the oldest READ is out. */
void relay_read_done(struct ib_qp *q);
/* Do answers wait for such bytes? */
bool relay_waits(const struct ib_qp *q);
void relay_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now);
void relay_gone(struct ib *ib, uint16_t slot, uint64_t now);
/* What a connection did not take is said again. */
void relay_again(struct ib *ib, uint64_t now);
void carry_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now);
void carry_gone(struct ib *ib, uint16_t slot, uint64_t now);
void carry_again(struct ib *ib);
void carry_close(struct ib *ib);
void endings_close(struct ib *ib);
/* A message of a head and n < 4 other parts.  As ib_xrc.pass. */
int xrc_pass(struct ib *ib, uint16_t slot, const void *head, size_t len,
	     const struct iovec *body, unsigned n);
void xrc_again(struct ib *ib); /* soon */

#endif
