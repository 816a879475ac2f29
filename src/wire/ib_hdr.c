/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ib_hdr.h"

#include <errno.h>

int ib_parse(struct ib_pkt *pkt, const void *buf, size_t len)
{
	const struct bth *bth = buf;
	const uint8_t *at = buf, *end = at + len;
	const struct ib_op *op;

	if (len < sizeof(*bth) || (bth->flags & BTH_TVER) != 0)
		return -EPROTO;
	op = ib_op(bth->opcode);
	if (!op)
		return -EPROTO;

	*pkt = (struct ib_pkt){ .op = op, .bth = bth };
	at += sizeof(*bth);
	for (unsigned has = ib_exts(op, bth->opcode); has; has &= has - 1) {
		int i = __builtin_ctz(has);

		if ((size_t)(end - at) < ib_ext_len[i])
			return -EPROTO;
		pkt->ext[i] = at;
		at += ib_ext_len[i];
	}
	if ((size_t)(end - at) < bth_pad(bth))
		return -EPROTO;
	pkt->payload = at;
	pkt->payload_len = (size_t)(end - at) - bth_pad(bth);
	return 0;
}
