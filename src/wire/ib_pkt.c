/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ib_pkt.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "wire/ib_hdr.h"

static be32_t psn_word(const struct ib_fields *f)
{
	return be32((f->ackreq ? (uint32_t)BTH_A << 24 : 0) | (f->psn & 0xffffff));
}

void ib_set_psn(void *bth, const struct ib_fields *f)
{
	be32_t word = psn_word(f);

	memcpy((uint8_t *)bth + offsetof(struct bth, ackreq), &word, sizeof(word));
}

/* Writes the BTH as three words. */
static void put_bth(struct bth *h, const struct ib_fields *f)
{
	uint32_t flags =
		(f->se ? BTH_SE : 0u) | (f->migreq ? BTH_MIG : 0u) | (f->pad & 3u) << 4;
	uint32_t notes = (f->fecn ? BTH_FECN : 0u) | (f->becn ? BTH_BECN : 0u);
	be32_t words[3] = {
		be32((uint32_t)f->opcode << 24 | flags << 16 | f->pkey),
		be32(notes << 24 | (f->dest_qp & 0xffffff)),
		psn_word(f),
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

static void get_bth(const struct bth *h, struct ib_fields *f)
{
	f->opcode = h->opcode;
	f->pad = (uint8_t)bth_pad(h);
	f->se = bth_solicited(h);
	f->migreq = h->flags & BTH_MIG;
	f->ackreq = bth_ack_requested(h);
	f->fecn = h->fbecn & BTH_FECN;
	f->becn = h->fbecn & BTH_BECN;
	f->pkey = get_be16(h->pkey);
	f->dest_qp = get_be24(h->dest_qp);
	f->psn = get_be24(h->psn);
}

static void get_reth(const struct reth *h, struct ib_fields *f)
{
	f->va = get_be64(h->va);
	f->rkey = get_be32(h->rkey);
	f->dma_len = get_be32(h->len);
}

static void get_atomiceth(const struct atomiceth *h, struct ib_fields *f)
{
	f->va = get_be64(h->va);
	f->rkey = get_be32(h->rkey);
	f->swap_add = get_be64(h->swap_add);
	f->compare = get_be64(h->compare);
}

static void get_ext(enum ib_ext ext, const void *at, struct ib_fields *f)
{
	const struct deth *deth = at;
	const struct aeth *aeth = at;

	switch (ext) {
	case IB_DETH:
		f->qkey = get_be32(deth->qkey);
		f->src_qp = get_be24(deth->src_qp);
		return;
	case IB_XRCETH:
		f->srqn = get_be24(((const struct xrceth *)at)->srqn);
		return;
	case IB_FETH:
		f->flush = get_be32(((const struct feth *)at)->bits);
		return;
	case IB_RETH:
		get_reth(at, f);
		return;
	case IB_AETH:
		f->syndrome = aeth->syndrome;
		f->msn = get_be24(aeth->msn);
		return;
	case IB_ATOMICETH:
		get_atomiceth(at, f);
		return;
	case IB_ATOMICACKETH:
		f->orig = get_be64(((const struct atomicack *)at)->orig);
		return;
	case IB_IMMDT:
		memcpy(&f->imm, at, sizeof(f->imm));
		return;
	case IB_IETH:
		f->inv_rkey = get_be32(((const struct ieth *)at)->rkey);
		return;
	case IB_CNPRSVD:
	case IB_EXTS:
		break;
	}
}

/* The BTH is read only once, since the sender may still write to the packet's memory. */
int ib_parse(struct ib_pkt *pkt, const void *buf, size_t len)
{
	const uint8_t *at = buf, *end = at + len;
	struct bth bth;

	if (len < sizeof(bth))
		return -EPROTO;
	memcpy(&bth, buf, sizeof(bth));
	atomic_signal_fence(memory_order_seq_cst); /* do not read it again */
	if (bth.flags & BTH_TVER)
		return -EPROTO;
	pkt->op = ib_op(bth.opcode);
	if (!pkt->op)
		return -EPROTO;

	get_bth(&bth, &pkt->f);
	pkt->exts = ib_exts(pkt->op, bth.opcode);
	at += sizeof(bth);
	for (unsigned has = pkt->exts; has; has &= has - 1) {
		enum ib_ext ext = (enum ib_ext)__builtin_ctz(has);

		if ((size_t)(end - at) < ib_ext_len[ext])
			return -EPROTO;
		get_ext(ext, at, &pkt->f);
		at += ib_ext_len[ext];
	}
	if ((size_t)(end - at) < pkt->f.pad)
		return -EPROTO;
	pkt->payload = at;
	pkt->payload_len = (size_t)(end - at) - pkt->f.pad;
	return 0;
}
