/* SPDX-License-Identifier: BSD-2-Clause */
/* rec.h - the format of what two processes of a host write into each other's rings.
 *
 * A record is one or two headers and its payload.  Integers are in the machine's byte
 * order.  The writer may be hostile. */
#ifndef LOCAL_REC_H
#define LOCAL_REC_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum { PIPE_VERSION = 7 };

enum rec_kind {
	REC_PAD,     /* empty: fills the end of the ring */
	REC_PACKET,  /* a packet of RC or UC: header values and payload */
	REC_DGRAM,   /* a datagram of UD (dgram.c) */
	REC_SEGMENT, /* of a request, or a QP's last word (shm/) */
	REC_KINDS
};

enum rec_flag {
	REC_WIDE = 1 << 0, /* the record has the second header */
	REC_SE = 1 << 1,
	REC_ACKREQ = 1 << 2,
	REC_WRITTEN = 1 << 3, /* a WRITE whose data was written directly */
	/* A SEND by reference: no payload follows, but the second header says where in
	 * the writer's memory it lies, and how long it is (wire/ib_pkt.h). */
	REC_BY_REF = 1 << 4,
	REC_BY_VALUE = 1 << 5, /* a NAK of such a SEND */
	REC_AGAIN = 1 << 6,    /* a NAK after which the receive is posted (ib/rnr.c) */
};

struct rec {
	uint32_t stamp; /* as the ring defines it */
	uint32_t bytes; /* length of the record: headers and payload */
	uint8_t kind, flags;
	uint8_t opcode, syndrome; /* of the BTH and the AETH */
	uint32_t dst, src;	  /* QPNs */
	uint32_t psn;
	uint32_t data; /* ImmDt in network byte order, IETH's rkey, FETH, or AETH's MSN */
	uint32_t route; /* net/lane.h */
	/* RETH, AtomicETH, AtomicAckETH: */
	uint64_t va; /* or the value of AtomicAckETH */
	uint32_t rkey, len;
	uint64_t compare, swap_add;
};

enum { REC_HEAD = 32, REC_HEAD_WIDE = 64 };

static_assert(sizeof(struct rec) == REC_HEAD_WIDE, "one slot");

/* The offset of the payload. */
static inline uint32_t rec_head(const struct rec *r)
{
	return r->flags & REC_WIDE ? REC_HEAD_WIDE : REC_HEAD;
}

#endif
