/* SPDX-License-Identifier: BSD-2-Clause */
/* queues.c - queues that are too full, and not emptied. */
#include <errno.h>
#include <string.h>

#include "bugs.h"

/* Posts more than max_send_wr before it polls. */
static void sq_overflow(bool repaired)
{
	struct rig r;
	unsigned n = 0, reaped = 0;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (; n < 2 * RIG_DEPTH; n++) {
		if (repaired && n - reaped == RIG_DEPTH) {
			rig_wait(r.cq);
			reaped++;
		}
		if (rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)))
			break;
	}
	for (; reaped < n; reaped++)
		rig_wait(r.cq);
	rig_close(&r);
}

/* Signals no request: nothing ever frees a place. */
static void sq_unsignaled(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < 2 * RIG_DEPTH; i++) {
		bool last = repaired && i % RIG_DEPTH == RIG_DEPTH - 1;

		if (rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, last)))
			break;
		if (last)
			rig_wait(r.cq);
	}
	rig_close(&r);
}

/* The CQ has half as many entries as the send queue places. */
static void cq_overrun(bool repaired)
{
	const struct rig_how how = { .cqe = repaired ? 64 : 8, .depth = 16 };
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, &how);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < 16; i++)
		MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	rig_sleep(50);
	for (unsigned i = 0; i < 16 && ibv_poll_cq(r.cq, 1, &wc) > 0; i++)
		;
	while (ibv_poll_cq(r.cq, 1, &wc) > 0)
		;
	/* The requests after the overrun have no completions. */
	if (!repaired)
		MUST(!ibv_modify_qp(r.a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
				    IBV_QP_STATE));
	rig_close(&r);
}

static void cq_too_small(bool repaired)
{
	const struct rig_how how = { .cqe = repaired ? 32 : 8 };
	struct rig r;

	rig_open(&r, &how);
	rig_close(&r);
}

/* The same list again from its head, of which the first half was taken. */
static void bad_wr_ignored(bool repaired)
{
	struct ibv_send_wr wr[4], *bad = NULL;
	struct ibv_sge sge[4];
	struct rig r;
	unsigned done = 0;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < RIG_DEPTH - 2; i++)
		MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	for (unsigned i = 0; i < 4; i++) {
		wr[i] = *rig_wr(&r, IBV_WR_RDMA_WRITE, 64 * i, 64, true);
		sge[i] = *wr[i].sg_list;
		wr[i].sg_list = &sge[i];
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	MUST(ibv_post_send(r.a, wr, &bad) == ENOMEM && bad == &wr[2]);
	for (; done < RIG_DEPTH; done++)
		rig_wait(r.cq);
	MUST(!ibv_post_send(r.a, repaired ? bad : wr, &bad));
	for (unsigned i = 0; i < (repaired ? 2 : 4); i++)
		rig_wait(r.cq);
	rig_close(&r);
}

/* All receives have the same memory. */
static void posted_twice(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(!rig_recv(&r, r.b, 0, 64));
	MUST(!rig_recv(&r, r.b, repaired ? 64 : 32, 64));
	rig_close(&r);
}

/* More SGEs than max_send_sge; the same of inline data. */
static void post_sges(bool repaired)
{
	struct rig r;
	struct ibv_sge sge[3];
	struct ibv_send_wr *wr;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)r.buf + 64 * i, 64, r.mr->lkey };
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true);
	wr->sg_list = sge;
	wr->num_sge = repaired ? 2 : 3;
	if (!rig_post(r.a, wr))
		rig_wait(r.cq);
	rig_close(&r);
}

static void post_inline(bool repaired)
{
	struct rig r;
	struct ibv_send_wr *wr;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, repaired ? 16 : 100, true);
	wr->send_flags |= IBV_SEND_INLINE;
	if (!rig_post(r.a, wr))
		rig_wait(r.cq);
	rig_close(&r);
}

static void post_recvs(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < RIG_DEPTH + (repaired ? 0u : 1u); i++)
		(void)rig_recv(&r, r.b, 64 * i, 64);
	rig_close(&r);
}

const struct bug bugs_queues[] = {
	{ "sq-overflow", sq_overflow },	       { "sq-unsignaled", sq_unsignaled },
	{ "cq-overrun", cq_overrun },	       { "cq-too-small", cq_too_small },
	{ "bad-wr-ignored", bad_wr_ignored },  { "posted-twice", posted_twice },
	{ "post-limit/sges", post_sges },      { "post-limit/inline", post_inline },
	{ "post-limit/receives", post_recvs }, { 0 },
};
