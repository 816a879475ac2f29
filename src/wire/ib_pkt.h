/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_pkt.h - a packet as values: its headers' fields and where its payload lies.
 *
 * Only the fields that the opcode's headers have are read or set; ib_opcode.def
 * says which those are.  Integers are in host order, modulo their width on the
 * wire, but for imm.
 */
#ifndef WIRE_IB_PKT_H
#define WIRE_IB_PKT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ib_opcode.h"

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
	/* On a lane alone (link/lane.h): a WRITE whose data is in its place already. */
	bool written;
};

struct ib_pkt {
	struct ib_fields f; /* those of headers that the opcode has not are undefined */
	const struct ib_op *op;
	uint16_t exts; /* 1 << enum ib_ext, or-ed */
	const uint8_t *payload;
	size_t payload_len; /* without the pad bytes */
};

static inline bool ib_has(const struct ib_pkt *pkt, enum ib_ext ext)
{
	return pkt->exts & 1u << ext;
}

/* Write BTH and extended headers; at has room for IB_HDR_MAX bytes.  Returns
 * their length.  An opcode without meaning is a bug of the caller. */
size_t ib_build(void *at, const struct ib_fields *f);

/* Take apart len bytes from the BTH up to, not including, the ICRC; the payload stays
 * where it is.  Returns 0, or -EPROTO, and *pkt says nothing then: unknown opcode or
 * version, or too short for its own headers and padding. */
int ib_parse(struct ib_pkt *pkt, const void *buf, size_t len);

#endif
