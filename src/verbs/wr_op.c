/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_op.c - see wr_op.h. Operations per service: IBTA vol. 1, table 37 (transport
 * functions); binds and invalidations are local to a connected QP. */
#include "verbs/wr_op.h"

#include <stddef.h>

#include "verbs/flush.h"

#define RC (1u << IBV_QPT_RC)
#define UC (1u << IBV_QPT_UC)
#define UD (1u << IBV_QPT_UD)
#define RP (1u << IBV_QPT_RAW_PACKET)
#define XI (1u << IBV_QPT_XRC_SEND)
#define IW (1u << WR_TYPE_IWARP) /* RFC 5040, 7306: no SEND with immediate */

/* clang-format off */
static const struct wr_op ops[] = {
#define OP(name, types, traits, wc) \
	[IBV_WR_##name] = { #name, types, traits, IBV_QP_EX_WITH_##name, IBV_WC_##wc },
	/* opcode                QP types        traits                                     completes as */
	OP(RDMA_WRITE,           RC|UC|XI|IW,    WR_DATA|WR_INLINE|WR_REMOTE,               RDMA_WRITE)
	OP(RDMA_WRITE_WITH_IMM,  RC|UC|XI|IW,    WR_DATA|WR_INLINE|WR_REMOTE|WR_IMM,        RDMA_WRITE)
	OP(SEND,                 RC|UC|UD|XI|IW|RP,WR_DATA|WR_INLINE,                       SEND)
	OP(SEND_WITH_IMM,        RC|UC|UD|XI,    WR_DATA|WR_INLINE|WR_IMM,                  SEND)
	OP(SEND_WITH_INV,        RC|XI|IW,       WR_DATA|WR_INLINE|WR_IMM,                  SEND)
	OP(RDMA_READ,            RC|XI|IW,       WR_DATA|WR_REMOTE|WR_RESULT,               RDMA_READ)
	OP(ATOMIC_CMP_AND_SWP,   RC|XI|IW,       WR_DATA|WR_REMOTE|WR_ATOMIC|WR_RESULT,     COMP_SWAP)
	OP(ATOMIC_FETCH_AND_ADD, RC|XI|IW,       WR_DATA|WR_REMOTE|WR_ATOMIC|WR_RESULT,     FETCH_ADD)
	OP(ATOMIC_WRITE,         RC|XI,          WR_VALUE|WR_INLINE|WR_REMOTE,               ATOMIC_WRITE)
	[IBV_WR_FLUSH] = { "FLUSH", RC|XI, WR_REMOTE|WR_BUILT, IBV_QP_EX_WITH_FLUSH, IBV_WC_FLUSH },
	OP(LOCAL_INV,            RC|UC|XI|IW,    WR_IMM,                                    LOCAL_INV)
	OP(BIND_MW,              RC|UC|XI|IW,    WR_BIND,                                   BIND_MW)
#undef OP
};
/* clang-format on */

const struct wr_op *wr_op(unsigned opcode)
{
	if (opcode >= sizeof(ops) / sizeof(ops[0]) || !ops[opcode].name)
		return NULL;
	return &ops[opcode];
}

uint64_t wr_send_ops(unsigned type)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (wr_op_allowed(&ops[i], type))
			all |= ops[i].send_op;
	return all;
}
