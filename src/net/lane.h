/* SPDX-License-Identifier: BSD-2-Clause */
/* lane.h - a lane: packets to one other process of this host, written where that process
 * reads them (docs/dev/lane.md). A connected QP may use a lane in place of its path's
 * link.
 *
 * A lane loses and reorders nothing, and writing a packet sends it. But a lane can be
 * full or not yet up, and it dies with the other process. It carries headers as values,
 * and up to LANE_PAYLOAD bytes.
 *
 * Every call needs the engine's turn.
 */
#ifndef NET_LANE_H
#define NET_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"
#include "sys/list.h"
#include "wire/ib_pkt.h"

enum { LANE_PAYLOAD = 16 << 10 };

/* The path of a packet, as numbers that both ends compute alike for both directions. */
struct lane_route {
	uint32_t out, in;
};

/* The sending QP and its route. */
struct lane_from {
	uint32_t qpn, out;
};

struct lane_short {
	uint8_t opcode;
	bool se, ackreq;
	uint32_t dst, psn;
};

enum lane_state {
	LANE_PENDING, /* the other process has not answered: nothing can be sent */
	LANE_UP,
	LANE_DEAD, /* nothing is sent or received any more */
};

struct span;

struct lane {
	const struct lane_ops {
		/* Sends a packet with headers f and bytes [off, off + len) of the span;
		 * with f->by_ref only where those bytes lie.
		 * Returns 0; -ENOBUFS if the lane has no room, or only the room kept for
		 * other QPs' ACKs; -EFAULT if the payload is no longer mapped. */
		int (*send)(struct lane *l, const struct lane_from *from,
			    const struct ib_fields *f, const struct span *span,
			    uint32_t off, uint32_t len);
		/* Like send(), for an RC packet without extended headers such as
		 * RETH. */
		int (*send_short)(struct lane *l, const struct lane_from *from,
				  const struct lane_short *s, const struct span *span,
				  uint32_t len);
		struct lane_route (*route)(const struct link_addr *addr);
		/* Updates *read. Returns false if the other process wrote an impossible
		 * value; the lane is then dead. */
		bool (*look)(struct lane *l);
		/* Has the other process read anything lately, although the lane is full?
		 * now is in ns. */
		bool (*moves)(struct lane *l, uint64_t now);
		/* Tells the lane that a QP has left l->qps. */
		void (*left)(struct lane *l);
		/* Asks the other process to lend the memory of region `key`, which is
		 * used often. */
		void (*borrow)(struct lane *l, uint32_t key);
		/* Asks the other process, which has shut its memory, for another way in.
		 * now is in ns. */
		void (*unlock)(struct lane *l, uint64_t now);
		/* Tells the other process, which waits for it, that what `word` says was
		 * executed (see `executed` below), and wakes it if it sleeps. */
		void (*nudge)(struct lane *l, uint64_t word);
	} * ops;
	enum lane_state state;
	uint64_t dead_since; /* ns; when a QP first found the lane dead; 0: none has */
	struct list qps;     /* QPs on this lane, by qp->lane.node */
	/* QPs that wait for room (verbs/lane.c), by qp->lane.wait. While the lane is
	 * open, the first is due. */
	struct list line;
	bool open;
	/* What a QP may write while others wait, and what is left of it for the first
	 * since *written was turn_at. */
	uint32_t share, left, turn_at;
	struct list unanswered; /* QPs that asked for an ACK, by qp->lane.ack */
	/* What each QP has executed, by the QP's index (wire/qpn.h), in
	 * shared memory: ours for the other process to read, and its own. Replaces
	 * ACKs. */
	_Atomic uint64_t *executed;
	const _Atomic uint64_t *theirs;
	/* How far this process has written, the other has read, and this process has
	 * read. Free-running, in the lane's own units. Other threads may write to the
	 * lane meanwhile: read them by lane_mark(). */
	const uint32_t *written, *read, *got;
	/* access to the other process's memory (direct/); never NULL */
	struct reach *reach;
	/* WRITEs and READs done in the other's memory, and packets of SENDs fetched from
	 * there */
	uint64_t direct, direct_bytes;
	/* of these, those done while posting; counts only QPs that have left */
	uint64_t at_once, at_once_bytes;
};

static inline uint32_t lane_mark(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* Does any QP wait for the lane to have room? */
static inline bool lane_is_awaited(const struct lane *l)
{
	return !l->open && !list_empty(&l->line);
}

#endif
