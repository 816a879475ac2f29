/* SPDX-License-Identifier: BSD-2-Clause */
/* rec.h - what two processes of a host write into each other's rings.
 *
 * A record is one or two headers and its payload.  Integers are in the
 * machine's byte order.  Whoever reads one may be lied to.
 */
#ifndef LOCAL_REC_H
#define LOCAL_REC_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum { PIPE_VERSION = 3 };

enum rec_op {
	REC_PAD, /* nothing: the end of the ring */
	REC_SEND,
	REC_WRITE,
	REC_READ,
	REC_CMP_SWAP,
	REC_FETCH_ADD,
	REC_ACK, /* all before psn was executed */
	REC_NAK, /* ... but the request psn was not: code */
	REC_READ_RESP,
	REC_ATOMIC_RESP,
	REC_DGRAM, /* a datagram, as host/msg.h has it */
	REC_OPS
};

enum rec_flag {
	REC_FIRST = 1 << 0, /* the first record of its message */
	REC_LAST = 1 << 1,
	REC_IMM = 1 << 2,
	REC_INV = 1 << 3, /* imm is an rkey to invalidate */
	REC_SOLICITED = 1 << 4,
	REC_UC = 1 << 5,
	REC_EMPTY = 1 << 6, /* WRITE: its data was written directly */
	REC_ASKS = 1 << 7,  /* for an ACK at once; else it comes with
			     * others */
};

enum rec_nak {
	REC_NOT_READY, /* no such QP, its state, another PSN */
	REC_RNR,       /* imm: the QP's min_rnr_timer */
	REC_INVALID,
	REC_ACCESS,
	REC_OPERATION, /* NAK 0x61, 0x62, 0x63 */
	REC_NAKS
};

struct rec {
	uint32_t stamp; /* the ring's */
	uint32_t bytes; /* of the record: headers and payload */
	uint8_t op, flags, code, zero;
	uint32_t dst, src; /* QPNs */
	uint32_t psn;	   /* of its first packet on a wire */
	uint32_t imm;	   /* as it lies, or an rkey, or a timer */
	uint32_t path;	   /* see path_of(), peer.h */
	/* First records of WRITE, READ and atomics: */
	uint64_t va;
	uint32_t rkey, len;
	uint64_t compare, swap_add;
};

enum { REC_HEAD = 32, REC_HEAD_RMA = 64 };

static_assert(sizeof(struct rec) == REC_HEAD_RMA, "one slot");

static inline bool rec_is_request(const struct rec *r)
{
	return r->op >= REC_SEND && r->op <= REC_FETCH_ADD;
}

/* Where its payload begins. */
static inline uint32_t rec_head(const struct rec *r)
{
	bool rma = r->op == REC_READ || r->op == REC_CMP_SWAP || r->op == REC_FETCH_ADD ||
		   (r->op == REC_WRITE && r->flags & REC_FIRST);

	return rma ? REC_HEAD_RMA : REC_HEAD;
}

#endif
