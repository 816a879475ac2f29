/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - the QPs and SRQs of XRC: a good SRQ, and one that a request may not name. */
#include "pairs.h"

#include <fcntl.h>

enum { NOBODYS = 0xfffffe };

static struct ibv_xrcd *own, *other;
static struct ibv_srq *wrong;

static struct ibv_xrcd *domain(struct side *s)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(s->ctx, &init);

	CHECK(xrcd);
	return xrcd;
}

static struct ibv_srq *srq_of(struct side *s, struct ibv_xrcd *xrcd, uint32_t *number)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = s->pd,
	};
	struct ibv_srq *srq;

	if (xrcd) {
		init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		init.srq_type = IBV_SRQT_XRC;
		init.xrcd = xrcd;
		init.cq = s->rcq;
	}
	CHECK((srq = ibv_create_srq_ex(s->ctx, &init)));
	*number = NOBODYS;
	CHECK(!ibv_get_srq_num(srq, number) || !xrcd);
	return srq;
}

struct ibv_srq *xrc_open(struct side *s, enum xrc xrc)
{
	own = domain(s);
	s->mine.srqn[1] = NOBODYS;
	if (xrc == XRC_DOMAIN)
		other = domain(s);
	if (xrc == XRC_DOMAIN || xrc == XRC_PLAIN)
		wrong = srq_of(s, other, &s->mine.srqn[1]);
	return srq_of(s, own, &s->mine.srqn[0]);
}

struct ibv_qp *xrc_qp(struct side *s)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = s->pd,
		.send_cq = s->scq,
		.cap = { .max_send_wr = 16, .max_send_sge = 4 },
	};

	if (s->is_b) {
		init = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
						     .comp_mask = IBV_QP_INIT_ATTR_XRCD,
						     .xrcd = own };
	}
	return ibv_create_qp_ex(s->ctx, &init);
}

void xrc_drop(void)
{
	if (wrong)
		CHECK(!ibv_destroy_srq(wrong));
	if (other)
		CHECK(!ibv_close_xrcd(other));
	if (own)
		CHECK(!ibv_close_xrcd(own));
}
