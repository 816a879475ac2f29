/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_op.h - the table of opcodes of send work requests. */
#ifndef VERBS_WR_OP_H
#define VERBS_WR_OP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

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
};

/* The type of QPs of iWARP devices in this table, besides those of enum ibv_qp_type. */
enum { WR_TYPE_IWARP = 16 };

struct wr_op {
	const char *name; /* NULL: no such opcode */
	unsigned types;	  /* 1 << type, or-ed */
	unsigned traits;  /* enum wr_trait, or-ed */
	uint64_t send_op; /* enum ibv_qp_create_send_ops_flags */
	enum ibv_wc_opcode wc;
};

/* Returns NULL for an opcode that does not exist or is not supported. */
const struct wr_op *wr_op(unsigned opcode);

static inline bool wr_op_allowed(const struct wr_op *op, unsigned type)
{
	return op->types & 1u << type;
}

/* Returns all send_ops_flags that a QP of this type may be created with. */
uint64_t wr_send_ops(unsigned type);

#endif
