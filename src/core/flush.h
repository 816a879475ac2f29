/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.h - FLUSH (IBTA annex A19) as the headers of rdma-core from version 45 on name
 * it.  The older headers that urnic is built with have neither these numbers nor
 * ibv_qp_ex.wr_flush, which follows wr_atomic_write there.
 */
#ifndef CORE_FLUSH_H
#define CORE_FLUSH_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WR_FLUSH = 14,		    /* IBV_WR_FLUSH */
	WC_FLUSH = 8,		    /* IBV_WC_FLUSH */
	QP_EX_WITH_FLUSH = 1 << 11, /* IBV_QP_EX_WITH_FLUSH */

	/* IBV_ACCESS_FLUSH_GLOBAL and _PERSISTENT */
	ACCESS_FLUSH_GLOBAL = 1 << 8,
	ACCESS_FLUSH_PERSISTENT = 1 << 9,
	ACCESS_FLUSH = ACCESS_FLUSH_GLOBAL | ACCESS_FLUSH_PERSISTENT,

	/* Placement types (IBV_FLUSH_GLOBAL and _PERSISTENT) and selectivity levels
	 * (IBV_FLUSH_RANGE and _MR), as the FETH has them. */
	FLUSH_GLOBAL = 1 << 0,
	FLUSH_PERSISTENT = 1 << 1,
	FLUSH_KNOWN = FLUSH_GLOBAL | FLUSH_PERSISTENT,
	FLUSH_TYPES = 0xf,
	FLUSH_RANGE = 0,
	FLUSH_MR = 1,
	FLUSH_LEVELS = 3,
};

#define DEVICE_FLUSH_GLOBAL (1ull << 38) /* IB_UVERBS_DEVICE_FLUSH_GLOBAL */

typedef void wr_flush_fn(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			 size_t len, uint8_t type, uint8_t level);

/* The FETH: reserved(26) | SEL(2) | PLT(4). */
static inline uint32_t feth_bits(unsigned type, unsigned level)
{
	return (level & FLUSH_LEVELS) << 4 | (type & FLUSH_TYPES);
}

static inline unsigned feth_type(uint32_t feth)
{
	return feth & FLUSH_TYPES;
}

static inline unsigned feth_level(uint32_t feth)
{
	return feth >> 4 & FLUSH_LEVELS;
}

#endif
