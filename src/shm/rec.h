/* SPDX-License-Identifier: BSD-2-Clause */
/* rec.h - the format of what two processes of a host write into each other's rings.
 *
 * A record is one or two headers and its payload.  Integers are in the machine's byte
 * order.  The writer may be hostile. */
#ifndef SHM_REC_H
#define SHM_REC_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum { PIPE_VERSION = 11 };

enum rec_kind {
	REC_PAD,     /* empty: fills the end of the ring */
	REC_DGRAM,   /* a datagram of UD (dgram.c) */
	REC_SEGMENT, /* of a request, or a QP's last word (shm/) */
	REC_END,     /* how its QP was set up: struct check_end (shm/end.c) */
	REC_KINDS
};

enum rec_flag {
	REC_WIDE = 1 << 0, /* the record has the second header */
	REC_SE = 1 << 1,
	REC_ACKREQ = 1 << 2,
	/* The record says when its request was posted (sys/checks.h), in `compare'; a
	 * compare-and-swap in 8 bytes of payload. */
	REC_TIMED = 1 << 3,
};

struct rec {
	uint32_t stamp; /* as the ring defines it */
	uint32_t bytes; /* length of the record: headers and payload */
	uint8_t kind, flags;
	uint8_t opcode, life; /* of a segment: shm/shm_qp.h */
	uint32_t dst, src;    /* QPNs */
	uint32_t psn;
	uint32_t data;	/* ImmDt in network byte order, IETH's rkey, FETH, or a place */
	uint32_t route; /* shm/peer.h */
	/* As in RETH and AtomicETH: */
	uint64_t va;
	uint32_t rkey, len;
	uint64_t compare, swap_add;
};

enum { REC_HEAD = 32, REC_HEAD_WIDE = 64, TIME_BYTES = 8 };

static_assert(sizeof(struct rec) == REC_HEAD_WIDE, "one slot");

/* The offset of the payload. */
static inline uint32_t rec_head(const struct rec *r)
{
	return r->flags & REC_WIDE ? REC_HEAD_WIDE : REC_HEAD;
}

#endif
