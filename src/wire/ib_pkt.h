/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_pkt.h - a packet as values: the fields of its headers, and where its payload lies.
 *
 * Only the fields that the opcode's headers have are read or set (ib_opcode.def).
 * Integers are in host byte order, modulo their width on the wire, except imm. */
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
	/* ImmDt: in network byte order, like ibv_send_wr.imm_data */
	uint32_t imm;
	/* IETH */
	uint32_t inv_rkey;
};

struct ib_pkt {
	/* Fields of headers that the opcode does not have are undefined */
	struct ib_fields f;
	const struct ib_op *op;
	uint16_t exts; /* 1 << enum ib_ext, or-ed */
	const uint8_t *payload;
	size_t payload_len; /* without the pad bytes */
};

static inline bool ib_has(const struct ib_pkt *pkt, enum ib_ext ext)
{
	return pkt->exts & 1u << ext;
}

/* Writes BTH and extended headers to at, which has room for IB_HDR_MAX bytes.  Returns
 * their length.  An opcode without meaning is a bug of the caller. */
size_t ib_build(void *at, const struct ib_fields *f);

/* Changes the PSN and AckReq of a BTH. */
void ib_set_psn(void *bth, const struct ib_fields *f);

/* Parses len bytes from the BTH up to, but without, the ICRC; the payload stays where it
 * is.  Returns 0, or -EPROTO with *pkt undefined: unknown opcode or version, or too short
 * for its headers and padding. */
int ib_parse(struct ib_pkt *pkt, const void *buf, size_t len);

#endif
