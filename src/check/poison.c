/* SPDX-License-Identifier: BSD-2-Clause */
/* poison.c - fields of completions with an error that mean nothing: wc-trusted.  They get
 * POISON, whose bit of IBV_WC_RECV is 0, and where a request has that length, the program
 * has trusted byte_len. */
#include "check/check.h"
#include "check/parts.h"

enum { POISON = 0x5a5a5a5a };

static void look_at(uint32_t qpn, const struct check_wr *w)
{
	for (unsigned i = 0; i < w->num_sge; i++)
		if (w->sge[i].length == POISON)
			check_report(
				CHECK_WC_TRUSTED, NULL, 0,
				"QP 0x%06x: a %s of wr_id 0x%llx has the length "
				"0x%x: byte_len of a completion with an error, which "
				"means nothing",
				qpn, check_opcode(w->opcode),
				(unsigned long long)w->wr_id, POISON);
}

static void unusual(struct check_qp *qp, struct check_srq *srq, struct check_wr *w)
{
	(void)srq;
	look_at(qp ? qp->qpn : 0, w);
}

static void fails(struct check_qp *qp, struct check_wr *w, struct ibv_wc *wc)
{
	(void)qp, (void)w;
	wc->opcode = (enum ibv_wc_opcode)POISON;
	wc->byte_len = wc->imm_data = wc->src_qp = POISON;
	wc->wc_flags = POISON;
	wc->pkey_index = wc->slid = (uint16_t)POISON;
	wc->sl = wc->dlid_path_bits = (uint8_t)POISON;
}

static void reads(struct check_cq *cq, const char *field)
{
	(void)cq;
	check_report(CHECK_WC_TRUSTED, NULL, 0,
		     "ibv_wc_read_%s() of a completion with an error: the field means "
		     "nothing",
		     field);
}

const struct check_part poison_part = {
	.name = "poison",
	.first = CHECK_WC_TRUSTED,
	.last = CHECK_WC_TRUSTED,
	.unusual = unusual,
	.fails = fails,
	.reads = reads,
};
