/* SPDX-License-Identifier: BSD-2-Clause */
/* newer.h - the public headers of verbs and rdma_cm, and what urnic uses of releases of
 * rdma-core later than 39, the oldest that it is built with. meson.build looks which
 * names the headers have (HAVE_...); the numbers of the others are here. */
#ifndef SYS_NEWER_H
#define SYS_NEWER_H

#include <assert.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HAVE_IBV_WR_ATOMIC_WRITE
#define IBV_WR_ATOMIC_WRITE	    ((enum ibv_wr_opcode)15)
#define IBV_WC_ATOMIC_WRITE	    ((enum ibv_wc_opcode)9)
#define IBV_QP_EX_WITH_ATOMIC_WRITE (1 << 12)
#endif

#ifndef HAVE_IBV_WR_FLUSH /* 45 */
#define IBV_WR_FLUSH		    ((enum ibv_wr_opcode)14)
#define IBV_WC_FLUSH		    ((enum ibv_wc_opcode)8)
#define IBV_QP_EX_WITH_FLUSH	    (1 << 11)
#define IBV_ACCESS_FLUSH_GLOBAL	    (1 << 8)
#define IBV_ACCESS_FLUSH_PERSISTENT (1 << 9)
enum ibv_placement_type { IBV_FLUSH_GLOBAL = 1, IBV_FLUSH_PERSISTENT = 2 };
enum ibv_selectivity_level { IBV_FLUSH_RANGE, IBV_FLUSH_MR };
#endif

/* An ibv_qp_ex as the newest release has it, whatever the headers have. */
struct newer_qp_ex {
	char older[offsetof(struct ibv_qp_ex, wr_abort) + sizeof(void (*)(void))];
	void (*wr_atomic_write)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr,
				const void *value);
	void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len,
			 uint8_t type, uint8_t level);
};

/* Ours are the headers' where they have them. */
static_assert(IBV_WR_ATOMIC_WRITE == 15 && IBV_WC_ATOMIC_WRITE == 9 &&
		      IBV_QP_EX_WITH_ATOMIC_WRITE == 1 << 12,
	      "atomic write");
static_assert(IBV_WR_FLUSH == 14 && IBV_WC_FLUSH == 8 &&
		      IBV_QP_EX_WITH_FLUSH == 1 << 11 &&
		      IBV_ACCESS_FLUSH_GLOBAL == 1 << 8 &&
		      IBV_ACCESS_FLUSH_PERSISTENT == 1 << 9 && IBV_FLUSH_GLOBAL == 1 &&
		      IBV_FLUSH_PERSISTENT == 2 && !IBV_FLUSH_RANGE && IBV_FLUSH_MR == 1,
	      "FLUSH");
#ifdef HAVE_IBV_WR_ATOMIC_WRITE
static_assert(offsetof(struct newer_qp_ex, wr_atomic_write) ==
		      offsetof(struct ibv_qp_ex, wr_atomic_write),
	      "wr_atomic_write");
#endif
#ifdef HAVE_IBV_WR_FLUSH
static_assert(offsetof(struct newer_qp_ex, wr_flush) ==
		      offsetof(struct ibv_qp_ex, wr_flush),
	      "wr_flush");
#endif

#endif
