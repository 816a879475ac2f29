/* SPDX-License-Identifier: BSD-2-Clause */
/* wr_op.c - see wr_op.h. */
#include "verbs/wr_op.h"

#include <stddef.h>

static struct wr_op ops[] = {
#define OP(name, types, traits, wc, claim, ib_kind, ib_tail, rdmap)                      \
	[IBV_WR_##name] = {                                                              \
		#name, types, traits, IBV_QP_EX_WITH_##name, IBV_WC_##wc, claim,         \
	},
#include "verbs/wr_op.def"
};

const struct wr_op *wr_op(unsigned opcode)
{
	if (opcode >= sizeof(ops) / sizeof(ops[0]) || !ops[opcode].name)
		return NULL;
	return &ops[opcode];
}

void wr_op_remove(unsigned first, unsigned second)
{
	ops[first].types = ops[second].types = 0;
}

void wr_op_few_sges(unsigned opcode)
{
	ops[opcode].traits = (ops[opcode].traits & ~(unsigned)WR_DATA) | WR_FEW;
}

uint64_t wr_send_ops(unsigned type)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (wr_op_allowed(&ops[i], type))
			all |= ops[i].send_op;
	return all;
}

uint64_t wr_claims(unsigned type)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (wr_op_allowed(&ops[i], type))
			all |= ops[i].claim;
	return all;
}
