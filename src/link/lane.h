/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.h - packets to one other process of this host, written where that process reads
 * them (docs/lane.md).  A connected QP may have a lane in place of its path's link.
 *
 * Nothing is lost on a lane, nothing overtakes, and a packet is sent when it is
 * written; but a lane can be full, may not be up yet, and dies with the other process.
 * It carries headers as values and up to LANE_PAYLOAD bytes.
 *
 * Every call is made with the engine's turn held.
 */
#ifndef LINK_LANE_H
#define LINK_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"
#include "sys/list.h"
#include "wire/ib_pkt.h"

enum { LANE_PAYLOAD = 16 << 10 };

/* What a packet says of the path that it came by: both directions of one, as numbers
 * that both ends work out alike. */
struct lane_route {
	uint32_t out, in;
};

/* Which QP sends, and its route. */
struct lane_from {
	uint32_t qpn, out;
};

struct lane_short {
	uint8_t opcode;
	bool se, ackreq;
	uint32_t dst, psn;
};

enum lane_state {
	LANE_PENDING, /* the other has not answered: nothing can be sent */
	LANE_UP,
	LANE_DEAD, /* nothing will come, and nothing goes */
};

struct span;

struct lane {
	const struct lane_ops {
		/* A packet with these headers and bytes [off, off + len) of the span is
		 * written, and so sent.  0; -ENOBUFS: there is no room, or not enough
		 * to leave some for the ACKs of others; -EFAULT: the payload's memory
		 * is gone. */
		int (*send)(struct lane *l, const struct lane_from *from,
			    const struct ib_fields *f, const struct span *span,
			    uint32_t off, uint32_t len);
		/* The same for a packet without such headers as RETH, of an RC QP. */
		int (*send_short)(struct lane *l, const struct lane_from *from,
				  const struct lane_short *s, const struct span *span,
				  uint32_t len);
		struct lane_route (*route)(const struct link_addr *addr);
		/* Make *read what it is now.  False: it says what cannot be, and the
		 * lane is dead. */
		bool (*look)(struct lane *l);
		/* It is full, but has the other read something lately? */
		bool (*moves)(struct lane *l, uint64_t now);
		/* A QP has left l->qps. */
		void (*left)(struct lane *l);
		/* The region of key is used a lot: the other is to lend it. */
		void (*borrow)(struct lane *l, uint32_t key);
		/* The other has shut its memory: it is to give another way in. */
		void (*unlock)(struct lane *l, uint64_t now);
		/* What word says (executed, below) was executed, and the other waits for
		 * it: it is told, and is to be woken if it sleeps. */
		void (*nudge)(struct lane *l, uint64_t word);
	} * ops;
	enum lane_state state;
	uint64_t dead_since; /* when a QP first found it dead; 0: none has */
	struct list qps;     /* qp->lane_node */
	/* The line of those that wait for room (core/lane.c), by qp->lane_wait.  When
	 * there is some all are admitted: first those of `waiting`, which wrote nothing
	 * when there was some last, then those of `served`. */
	struct list waiting, served, admitted;
	uint32_t admitted_at;	/* *written then */
	struct list unanswered; /* qp->lane_out: they asked for an ACK */
	/* What each QP has executed, by its index (sys/qpn.h), in memory that both see:
	 * ours, which the other reads, and the other's.  It takes the place of ACKs. */
	_Atomic uint64_t *executed;
	const _Atomic uint64_t *theirs;
	/* How far this process has written, the other has read, and this process has
	 * read; in units of the lane's own, free-running. */
	const uint32_t *written, *read, *got;
	struct reach *reach;		 /* the other's memory (direct/); never NULL */
	uint64_t direct, direct_bytes;	 /* WRITEs and READs done there */
	uint64_t at_once, at_once_bytes; /* ... by who posted, of QPs that left */
};

static inline bool lane_is_awaited(const struct lane *l)
{
	return !list_empty(&l->waiting) || !list_empty(&l->served);
}

#endif
