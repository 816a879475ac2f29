/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ib_build.h"

#include <assert.h>
#include <string.h>

#include "wire/ib_hdr.h"

/* The BTH is three words. */
static void put_bth(struct bth *h, const struct ib_fields *f)
{
	uint32_t flags =
		(f->se ? BTH_SE : 0u) | (f->migreq ? BTH_MIG : 0u) | (f->pad & 3u) << 4;
	uint32_t notes = (f->fecn ? BTH_FECN : 0u) | (f->becn ? BTH_BECN : 0u);
	be32_t words[3] = {
		be32((uint32_t)f->opcode << 24 | flags << 16 | f->pkey),
		be32(notes << 24 | (f->dest_qp & 0xffffff)),
		be32((f->ackreq ? (uint32_t)BTH_A << 24 : 0) | (f->psn & 0xffffff)),
	};

	static_assert(sizeof(*h) == sizeof(words), "BTH");
	memcpy(h, words, sizeof(words));
}

static void put_ext(enum ib_ext ext, void *at, const struct ib_fields *f)
{
	switch (ext) {
	case IB_DETH:
		*(struct deth *)at =
			(struct deth){ .qkey = be32(f->qkey), .src_qp = be24(f->src_qp) };
		return;
	case IB_XRCETH:
		*(struct xrceth *)at = (struct xrceth){ .srqn = be24(f->srqn) };
		return;
	case IB_FETH:
		*(struct feth *)at = (struct feth){ be32(f->flush) };
		return;
	case IB_RETH:
		*(struct reth *)at =
			(struct reth){ be64(f->va), be32(f->rkey), be32(f->dma_len) };
		return;
	case IB_AETH:
		*(struct aeth *)at = (struct aeth){ f->syndrome, be24(f->msn) };
		return;
	case IB_ATOMICETH:
		*(struct atomiceth *)at =
			(struct atomiceth){ be64(f->va), be32(f->rkey), be64(f->swap_add),
					    be64(f->compare) };
		return;
	case IB_ATOMICACKETH:
		*(struct atomicack *)at = (struct atomicack){ be64(f->orig) };
		return;
	case IB_IMMDT:
		memcpy(at, &f->imm, sizeof(f->imm));
		return;
	case IB_IETH:
		*(struct ieth *)at = (struct ieth){ be32(f->inv_rkey) };
		return;
	case IB_CNPRSVD:
		memset(at, 0, sizeof(struct cnprsvd));
		return;
	case IB_EXTS:
		break;
	}
}

size_t ib_build(void *at, const struct ib_fields *f)
{
	const struct ib_op *op = ib_op(f->opcode);
	uint8_t *to = at;

	assert(op);
	put_bth(at, f);
	to += sizeof(struct bth);
	for (unsigned has = ib_exts(op, f->opcode); has; has &= has - 1) {
		enum ib_ext ext = (enum ib_ext)__builtin_ctz(has);

		put_ext(ext, to, f);
		to += ib_ext_len[ext];
	}
	return (size_t)(to - (uint8_t *)at);
}

void ib_fields(const struct ib_pkt *pkt, struct ib_fields *f)
{
	const struct bth *bth = pkt->bth;

	*f = (struct ib_fields){
		.opcode = bth->opcode,
		.pad = (uint8_t)bth_pad(bth),
		.se = bth_solicited(bth),
		.migreq = bth->flags & BTH_MIG,
		.ackreq = bth_ack_requested(bth),
		.fecn = bth->fbecn & BTH_FECN,
		.becn = bth->fbecn & BTH_BECN,
		.pkey = get_be16(bth->pkey),
		.dest_qp = get_be24(bth->dest_qp),
		.psn = get_be24(bth->psn),
	};
	if (pkt->deth) {
		f->qkey = get_be32(pkt->deth->qkey);
		f->src_qp = get_be24(pkt->deth->src_qp);
	}
	if (pkt->xrceth)
		f->srqn = get_be24(pkt->xrceth->srqn);
	if (pkt->feth)
		f->flush = get_be32(pkt->feth->bits);
	if (pkt->reth) {
		f->va = get_be64(pkt->reth->va);
		f->rkey = get_be32(pkt->reth->rkey);
		f->dma_len = get_be32(pkt->reth->len);
	}
	if (pkt->aeth) {
		f->syndrome = pkt->aeth->syndrome;
		f->msn = get_be24(pkt->aeth->msn);
	}
	if (pkt->atomiceth) {
		f->va = get_be64(pkt->atomiceth->va);
		f->rkey = get_be32(pkt->atomiceth->rkey);
		f->swap_add = get_be64(pkt->atomiceth->swap_add);
		f->compare = get_be64(pkt->atomiceth->compare);
	}
	if (pkt->atomicack)
		f->orig = get_be64(pkt->atomicack->orig);
	if (pkt->immdt)
		memcpy(&f->imm, pkt->immdt, sizeof(f->imm));
	if (pkt->ieth)
		f->inv_rkey = get_be32(pkt->ieth->rkey);
}
