/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_opcode.h - the meaning of each BTH opcode, and the opcode of each operation. */
#ifndef WIRE_IB_OPCODE_H
#define WIRE_IB_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits 7-5 of the opcode. */
enum ib_service {
	IB_RC = 0,
	IB_UC = 1,
	IB_RD = 2,
	IB_UD = 3,
	IB_CNP = 4,
	IB_XRC = 5,
	IB_SERVICES = 8 /* with reserved ones */
};

/* Requests first, then responses. */
enum ib_kind {
	IB_SEND,
	IB_WRITE,
	IB_READ,
	IB_CMP_SWAP,
	IB_FETCH_ADD,
	IB_ATOMIC_WRITE,
	IB_FLUSH,
	IB_READ_RESP,
	IB_ATOMIC_RESP,
	IB_ACK,
	IB_CONGESTION, /* neither: the CNP of annex A17 */
	IB_KINDS
};

enum ib_place { IB_FIRST, IB_MIDDLE, IB_LAST, IB_ONLY, IB_PLACES };
enum ib_tail { IB_NONE, IB_IMM, IB_INV, IB_TAILS };

/* Extended headers, in their order on the wire. */
enum ib_ext {
	IB_DETH,
	IB_XRCETH,
	IB_FETH,
	IB_RETH,
	IB_AETH,
	IB_ATOMICETH,
	IB_ATOMICACKETH,
	IB_IMMDT,
	IB_IETH,
	IB_CNPRSVD,
	IB_EXTS
};

struct ib_op {
	const char *name;	   /* NULL: the opcode has no meaning */
	uint8_t kind, place, tail; /* enum ib_kind, ib_place, ib_tail */
	uint8_t services;	   /* 1 << enum ib_service, or-ed */
	uint16_t ext;		   /* 1 << enum ib_ext, or-ed */
};

/* The meaning of opcode; NULL if the specification gives it none. */
const struct ib_op *ib_op(uint8_t opcode);

/* The opcode of an operation, which must exist: asking for another is a bug. */
uint8_t ib_opcode(enum ib_service svc, enum ib_kind kind, enum ib_place place,
		  enum ib_tail tail);

/* The extended headers of opcode (1 << enum ib_ext, or-ed), with those that its service
 * puts in front. */
uint16_t ib_op_ext(uint8_t opcode);

/* The length of BTH and extended headers; 0 for an opcode without meaning. */
size_t ib_hdr_len(uint8_t opcode);

/* The length of each extended header in bytes. */
extern const uint8_t ib_ext_len[IB_EXTS];

/* For each service: the headers between the BTH and a request's own headers, 1 << enum
 * ib_ext, or-ed. */
extern const uint8_t ib_ext_front[IB_SERVICES];

static inline enum ib_service ib_service(uint8_t opcode)
{
	return (enum ib_service)(opcode >> 5);
}

static inline bool ib_is_request(const struct ib_op *op)
{
	return op->kind < IB_READ_RESP;
}

/* As ib_op_ext(), for an opcode whose meaning is op. */
static inline uint16_t ib_exts(const struct ib_op *op, uint8_t opcode)
{
	return ib_is_request(op) ? op->ext | ib_ext_front[ib_service(opcode)] : op->ext;
}

/* A packet's place in its message.  begun: a packet went before it; fits: it carries the
 * rest of the message. */
static inline enum ib_place ib_place(bool begun, bool fits)
{
	static const enum ib_place at[2][2] = {
		{ IB_FIRST, IB_ONLY },
		{ IB_MIDDLE, IB_LAST },
	};

	return at[begun][fits];
}

/* Is op the first packet of its message?  ib_ends(): the last? */
static inline bool ib_begins(const struct ib_op *op)
{
	return op->place == IB_FIRST || op->place == IB_ONLY;
}

static inline bool ib_ends(const struct ib_op *op)
{
	return op->place == IB_LAST || op->place == IB_ONLY;
}

/* May a request of op follow one of prev (NULL: none) on a connected QP? */
static inline bool ib_may_follow(const struct ib_op *prev, const struct ib_op *op)
{
	bool open = prev && !ib_ends(prev);

	return open ? !ib_begins(op) && op->kind == prev->kind : ib_begins(op);
}

#endif
