/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ib_opcode.h"

#include <assert.h>

#include "wire/ib_hdr.h"

enum { RC = 1 << IB_RC, UC = 1 << IB_UC, UD = 1 << IB_UD, XRC = 1 << IB_XRC };
enum {
	FETH = 1 << IB_FETH,
	RETH = 1 << IB_RETH,
	AETH = 1 << IB_AETH,
	ATOMICETH = 1 << IB_ATOMICETH,
	ATOMICACKETH = 1 << IB_ATOMICACKETH,
	IMMDT = 1 << IB_IMMDT,
	IETH = 1 << IB_IETH,
};

enum { CNP = 0x81 }; /* annex A17: the only opcode of its service */

static const struct ib_op op_of[32] = {
#define OP(code, name, kind, place, tail, ext, services)                                 \
	[code] = { #name, IB_##kind, IB_##place, IB_##tail, services, ext },
#include "wire/ib_opcode.def"
#undef OP
};

static const struct ib_op cnp = {
	"CNP", IB_CONGESTION, IB_ONLY, IB_NONE, 1 << IB_CNP, 1 << IB_CNPRSVD,
};

/* code + 1; 0: there is no such operation */
static const uint8_t code_of[IB_KINDS][IB_PLACES][IB_TAILS] = {
#define OP(code, name, kind, place, tail, ext, services)                                 \
	[IB_##kind][IB_##place][IB_##tail] = code + 1,
#include "wire/ib_opcode.def"
#undef OP
	[IB_CONGESTION][IB_ONLY][IB_NONE] = (CNP & 0x1f) + 1,
};

/* clang-format off */
const uint8_t ib_ext_len[IB_EXTS] = {
	[IB_DETH]         = sizeof(struct deth),
	[IB_XRCETH]       = sizeof(struct xrceth),
	[IB_FETH]         = sizeof(struct feth),
	[IB_RETH]         = sizeof(struct reth),
	[IB_AETH]         = sizeof(struct aeth),
	[IB_ATOMICETH]    = sizeof(struct atomiceth),
	[IB_ATOMICACKETH] = sizeof(struct atomicack),
	[IB_IMMDT]        = sizeof(struct immdt),
	[IB_IETH]         = sizeof(struct ieth),
	[IB_CNPRSVD]      = sizeof(struct cnprsvd),
};
/* clang-format on */

const struct ib_op *ib_op(uint8_t opcode)
{
	const struct ib_op *op = &op_of[opcode & 0x1f];

	if (opcode == CNP)
		return &cnp;
	return op->services & 1u << ib_service(opcode) ? op : NULL;
}

uint8_t ib_opcode(enum ib_service svc, enum ib_kind kind, enum ib_place place,
		  enum ib_tail tail)
{
	uint8_t code = code_of[kind][place][tail];

	assert(code != 0);
	return (uint8_t)(svc << 5 | (code - 1));
}

uint16_t ib_op_ext(uint8_t opcode)
{
	const struct ib_op *op = ib_op(opcode);

	return op ? ib_exts(op, opcode) : 0;
}

/* The XRCETH names the SRQ at the target. */
const uint8_t ib_ext_front[IB_SERVICES] = {
	[IB_UD] = 1 << IB_DETH,
	[IB_XRC] = 1 << IB_XRCETH,
};

size_t ib_hdr_len(uint8_t opcode)
{
	size_t len = sizeof(struct bth);

	if (!ib_op(opcode))
		return 0;
	for (unsigned has = ib_op_ext(opcode); has; has &= has - 1)
		len += ib_ext_len[__builtin_ctz(has)];
	return len;
}
