/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_build.h - from field values to header bytes, and back.
 *
 * Only the fields that the opcode's headers have are read or set; ib_opcode.def
 * says which those are.  Integers are in host order, modulo their width on the
 * wire, but for imm.
 */
#ifndef WIRE_IB_BUILD_H
#define WIRE_IB_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ib_pkt;

enum { IB_HDR_MAX = 44 }; /* XRC CmpSwap: BTH, XRCETH, AtomicETH */

struct ib_fields {
	/* BTH */
	uint8_t opcode;
	uint8_t pad; /* 0-3 bytes after the payload */
	bool se, migreq, ackreq, fecn, becn;
	uint16_t pkey;
	uint32_t dest_qp, psn; /* 24 bits */
	/* DETH, XRCETH */
	uint32_t qkey, src_qp;
	uint32_t srqn;
	/* FETH */
	uint32_t flush;
	/* RETH, AtomicETH */
	uint64_t va;
	uint32_t rkey, dma_len;
	uint64_t swap_add, compare;
	/* AETH, AtomicAckETH */
	uint8_t syndrome; /* wire/aeth.h */
	uint32_t msn;	  /* 24 bits */
	uint64_t orig;
	/* ImmDt: as it lies, like ibv_send_wr.imm_data */
	uint32_t imm;
	/* IETH */
	uint32_t inv_rkey;
};

/* Write BTH and extended headers; at has room for IB_HDR_MAX bytes.  Returns
 * their length.  An opcode without meaning is a bug of the caller. */
size_t ib_build(void *at, const struct ib_fields *f);

/* What ib_build() would have to be given for a parsed packet's headers. */
void ib_fields(const struct ib_pkt *pkt, struct ib_fields *f);

#endif
