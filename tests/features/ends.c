/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.c - two connected QPs, and A's requests to B's memory. */
#include "../pairs/pairs.h"
#include "feature.h"

enum { ADDEND = 7, BACK_AT = 4096 };

struct ibv_qp *end_qp(struct side *s, struct ibv_pd *pd, struct ibv_cq *rcq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->scq,
		.recv_cq = rcq,
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 4, 4, 64 },
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.send_ops_flags = ops,
	};

	if (ops)
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	return is_iwarp() ? iwarp_qp(&init) : ibv_create_qp_ex(s->ctx, &init);
}

unsigned more_rights;

static struct ibv_qp *plain(struct side *s)
{
	return end_qp(s, s->pd, s->rcq, 0);
}

static void connect_by(struct side *s)
{
	struct ibv_qp_attr a = qp_attr(s, &s->theirs);

	a.timeout = UNHURRIED;
	a.qp_access_flags |= more_rights;
	for (int to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		qp_to(s->qp, &a, (enum ibv_qp_state)to);
}

void up_with(struct ibv_qp *(*make)(struct side *s))
{
	if (is_iwarp()) {
		iwarp_connect(make);
		sync_sides();
		return;
	}
	for (int b = 0; b < 2; b++) {
		if (!plays(b))
			continue;
		CHECK((side(b)->qp = make(side(b))));
		side(b)->mine.qpn = side(b)->qp->qp_num;
	}
	sync_sides();
	each(connect_by);
	sync_sides();
}

void up(void)
{
	up_with(plain);
}

static void drop(struct side *s)
{
	struct ibv_wc wc;

	if (!is_iwarp())
		CHECK(!ibv_destroy_qp(s->qp));
	s->qp = NULL;
	while (poll_one(s->scq, &wc, 0) || poll_one(s->rcq, &wc, 0))
		;
}

void down(void)
{
	sync_sides();
	if (is_iwarp())
		iwarp_drop();
	each(drop);
}

void again(void)
{
	down();
	up();
}

/* --- requests ------------------------------------------------------------ */

enum ibv_wc_status one(struct side *s, enum ibv_wr_opcode op, struct ibv_sge sge,
		       uint64_t addr, uint32_t rkey)
{
	struct ibv_send_wr wr = wr_of(op, &sge, 1);
	struct ibv_wc wc;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = ADDEND;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!post_send(s->qp, &wr));
	CHECK(poll_one(s->scq, &wc, 10000) && wc.wr_id == 1);
	return wc.status;
}

static uint8_t byte(unsigned i)
{
	return (uint8_t)(i * 37 + 11);
}

void exchange(struct side *s, uint64_t addr, uint32_t rkey)
{
	uint64_t *word = (uint64_t *)(s->buf + BACK_AT);

	for (unsigned i = 0; i < 64; i++)
		s->buf[i] = byte(i);
	memset(s->buf + 64, 0, 8);
	CHECK(one(s, IBV_WR_RDMA_WRITE, local(s, 0, 72), addr, rkey) == IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 2; i++) {
		CHECK(one(s, IBV_WR_ATOMIC_FETCH_AND_ADD, local(s, BACK_AT, 8), addr + 64,
			  rkey) == IBV_WC_SUCCESS);
		CHECK(*word == (uint64_t)ADDEND * i);
	}
	memset(word, 0, 64);
	CHECK(read_64(s, addr, rkey) == IBV_WC_SUCCESS);
	written_is_right(word);
}

enum ibv_wc_status read_64(struct side *s, uint64_t addr, uint32_t rkey)
{
	return one(s, IBV_WR_RDMA_READ, local(s, BACK_AT, 64), addr, rkey);
}

void written_is_right(const void *at)
{
	for (unsigned i = 0; i < 64; i++)
		CHECK(((const uint8_t *)at)[i] == byte(i));
}
