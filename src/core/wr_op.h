/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_op.h - what a send work request's opcode means. */
#ifndef CORE_WR_OP_H
#define CORE_WR_OP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum wr_trait {
	WR_DATA = 1 << 0,   /* has SGEs */
	WR_INLINE = 1 << 1, /* may carry them inline */
	WR_REMOTE = 1 << 2, /* names remote memory */
	WR_ATOMIC = 1 << 3, /* 8 bytes come back */
	WR_RESULT = 1 << 4, /* its completion counts bytes */
	WR_IMM = 1 << 5,    /* immediate, or an rkey to invalidate */
	WR_BIND = 1 << 6,
	WR_VALUE = 1 << 7, /* carries 8 bytes, copied when it is posted */
	WR_BUILT =
		1
		<< 8, /* ibv_wr_*() alone can say it: ibv_send_wr has no fields for it */
};

/* A QP of an iWARP device, beside the types of enum ibv_qp_type. */
enum { WR_TYPE_IWARP = 16 };

struct wr_op {
	const char *name; /* NULL: a hole in the table */
	unsigned types;	  /* 1 << type, or-ed */
	unsigned traits;  /* enum wr_trait, or-ed */
	uint64_t send_op; /* enum ibv_qp_create_send_ops_flags */
	enum ibv_wc_opcode wc;
};

/* NULL for an opcode that does not exist or is not supported. */
const struct wr_op *wr_op(unsigned opcode);

static inline bool wr_op_allowed(const struct wr_op *op, unsigned type)
{
	return op->types & 1u << type;
}

/* All that a QP of type can be asked for in send_ops_flags. */
uint64_t wr_send_ops(unsigned type);

#endif
