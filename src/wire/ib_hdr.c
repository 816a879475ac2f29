/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ib_hdr.h"

#include <errno.h>

int ib_parse(struct ib_pkt *pkt, const void *buf, size_t len)
{
	const struct bth *bth = buf;
	const uint8_t *at = buf, *end = at + len, *ext[IB_EXTS] = { NULL };
	const struct ib_op *op;

	if (len < sizeof(*bth) || (bth->flags & BTH_TVER) != 0)
		return -EPROTO;
	op = ib_op(bth->opcode);
	if (!op)
		return -EPROTO;

	at += sizeof(*bth);
	for (unsigned has = ib_op_ext(bth->opcode); has; has &= has - 1) {
		int i = __builtin_ctz(has);

		if ((size_t)(end - at) < ib_ext_len[i])
			return -EPROTO;
		ext[i] = at;
		at += ib_ext_len[i];
	}
	if ((size_t)(end - at) < bth_pad(bth))
		return -EPROTO;

	*pkt = (struct ib_pkt){
		.op = op,
		.bth = bth,
		.deth = (const void *)ext[IB_DETH],
		.xrceth = (const void *)ext[IB_XRCETH],
		.feth = (const void *)ext[IB_FETH],
		.reth = (const void *)ext[IB_RETH],
		.aeth = (const void *)ext[IB_AETH],
		.atomiceth = (const void *)ext[IB_ATOMICETH],
		.atomicack = (const void *)ext[IB_ATOMICACKETH],
		.immdt = (const void *)ext[IB_IMMDT],
		.ieth = (const void *)ext[IB_IETH],
		.cnprsvd = (const void *)ext[IB_CNPRSVD],
		.payload = at,
		.payload_len = (size_t)(end - at) - bth_pad(bth),
	};
	return 0;
}
