/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_op.h - the table of opcodes of send work requests (wr_op.def). */
#ifndef VERBS_WR_OP_H
#define VERBS_WR_OP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/flush.h"

enum wr_trait {
	WR_DATA = 1 << 0,   /* has SGEs */
	WR_INLINE = 1 << 1, /* may be sent inline */
	WR_REMOTE = 1 << 2, /* names remote memory */
	WR_ATOMIC = 1 << 3, /* returns 8 bytes */
	WR_RESULT = 1 << 4, /* its completion has a byte_len */
	WR_IMM = 1 << 5,    /* has immediate data, or an rkey to invalidate */
	WR_BIND = 1 << 6,
	WR_VALUE = 1 << 7, /* has 8 bytes, copied when it is posted */
	/* ibv_wr_*() alone posts it: struct ibv_send_wr has no fields for it. */
	WR_BUILT = 1 << 8,
	WR_EMPTY = 1 << 9,    /* answered as a READ of 0 bytes is (annex A19) */
	WR_LOCAL = 1 << 10,   /* no packet is sent for it */
	WR_FEW = 1 << 12,     /* in place of WR_DATA: caps.max_sge_rd SGEs at most */
	WR_AT_ONCE = 1 << 11, /* the poster may do it in mapped memory (direct/post.h) */
};

/* The type of QPs of iWARP devices in this table, besides those of enum ibv_qp_type. */
enum { WR_TYPE_IWARP = 16 };

struct wr_op {
	const char *name; /* NULL: no such opcode */
	unsigned types;	  /* 1 << type, or-ed */
	unsigned traits;  /* enum wr_trait, or-ed */
	uint64_t send_op; /* enum ibv_qp_create_send_ops_flags */
	enum ibv_wc_opcode wc;
	uint64_t claim; /* the device's capability; 0: none is needed */
};

/* Sets of opcodes by a trait: 1 << enum ibv_wr_opcode, or-ed. */
enum {
	WR_ATOMICS = 0
#define OP(name, types, traits, ...) | ((traits)&WR_ATOMIC ? 1 << IBV_WR_##name : 0)
#include "verbs/wr_op.def"
	,
	WR_EMPTIES = 0
#define OP(name, types, traits, ...) | ((traits)&WR_EMPTY ? 1 << IBV_WR_##name : 0)
#include "verbs/wr_op.def"
	,
	/* a response comes, and not just an ACK */
	WR_ANSWERED = WR_EMPTIES
#define OP(name, types, traits, ...) | ((traits)&WR_RESULT ? 1 << IBV_WR_##name : 0)
#include "verbs/wr_op.def"
	,
	WR_LOCALS = 0
#define OP(name, types, traits, ...) | ((traits)&WR_LOCAL ? 1 << IBV_WR_##name : 0)
#include "verbs/wr_op.def"
	,
	WR_AT_ONCES = 0
#define OP(name, types, traits, ...) | ((traits)&WR_AT_ONCE ? 1 << IBV_WR_##name : 0)
#include "verbs/wr_op.def"
	,
};

/* For verbs/like.h, before there is a device: no QP has these opcodes; the opcode's
 * WR_DATA becomes WR_FEW. */
void wr_op_remove(unsigned first, unsigned second);
void wr_op_few_sges(unsigned opcode);

/* Returns NULL for an opcode that does not exist or is not supported. */
const struct wr_op *wr_op(unsigned opcode);

static inline bool wr_op_allowed(const struct wr_op *op, unsigned type)
{
	return op->types & 1u << type;
}

/* Returns all send_ops_flags that a QP of this type may be created with. */
uint64_t wr_send_ops(unsigned type);

/* Returns the capabilities that the operations of this type claim. */
uint64_t wr_claims(unsigned type);

#endif
