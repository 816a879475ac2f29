/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_hdr.h - IB transport headers as they lie in a packet.
 *
 * A field of whole bytes is accessed directly: get_be24(bth->psn).  Only fields that
 * share a byte have accessors here. */
#ifndef WIRE_IB_HDR_H
#define WIRE_IB_HDR_H

#include <assert.h>
#include <stdbool.h>

#include "wire/be.h"

/* clang-format off */
struct bth {
	uint8_t opcode;
	uint8_t flags;			/* SE | M | PadCnt(2) | TVer(4) */
	be16_t  pkey;
	uint8_t fbecn;			/* FECN | BECN | reserved(6) */
	be24_t  dest_qp;
	uint8_t ackreq;			/* A | reserved(7) */
	be24_t  psn;
};

struct deth       { be32_t qkey; uint8_t rsvd; be24_t src_qp; };
struct xrceth     { uint8_t rsvd; be24_t srqn; };
struct feth       { be32_t bits; };
struct reth       { be64_t va; be32_t rkey; be32_t len; };
struct aeth       { uint8_t syndrome; be24_t msn; };
struct atomiceth  { be64_t va; be32_t rkey; be64_t swap_add; be64_t compare; };
struct atomicack  { be64_t orig; };
struct immdt      { be32_t data; };
struct ieth       { be32_t rkey; };
struct cnprsvd    { uint8_t rsvd[16]; };
/* clang-format on */

static_assert(sizeof(struct bth) == 12, "BTH");
static_assert(sizeof(struct deth) == 8, "DETH");
static_assert(sizeof(struct reth) == 16, "RETH");
static_assert(sizeof(struct aeth) == 4, "AETH");
static_assert(sizeof(struct atomiceth) == 28, "AtomicETH");
static_assert(sizeof(struct cnprsvd) == 16, "CNP");

enum {
	BTH_SE = 0x80,
	BTH_MIG = 0x40,
	BTH_PAD = 0x30,
	BTH_TVER = 0x0f,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_A = 0x80,
};

static inline unsigned bth_pad(const struct bth *h)
{
	return h->flags >> 4 & 3;
}

static inline void bth_set_pad(struct bth *h, unsigned pad)
{
	h->flags = (uint8_t)((h->flags & (0xff ^ BTH_PAD)) | (pad & 3) << 4);
}

static inline bool bth_solicited(const struct bth *h)
{
	return h->flags & BTH_SE;
}

static inline bool bth_ack_requested(const struct bth *h)
{
	return h->ackreq & BTH_A;
}

#endif
