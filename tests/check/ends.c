/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.c - objects that end too early, twice, or never; queue pairs in ERR; events. */
#include <errno.h>
#include <stdlib.h>

#include "bugs.h"

static void to_err(struct ibv_qp *qp)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };

	MUST(!ibv_modify_qp(qp, &err, IBV_QP_STATE));
}

static void drain(struct rig *r, unsigned n)
{
	while (n--)
		MUST(rig_wait(r->cq).status == IBV_WC_WR_FLUSH_ERR);
}

/* Goes on posting in ERR. */
static void post_in_error(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	to_err(r.a);
	for (unsigned i = 0; i < (repaired ? 1 : 3); i++)
		MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	drain(&r, repaired ? 1 : 3);
	rig_close(&r);
}

static void flush_not_drained(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	for (unsigned i = 0; i < 4; i++)
		MUST(!rig_recv(&r, r.b, 64 * i, 64));
	to_err(r.b);
	drain(&r, repaired ? 4 : 2);
	rig_close(&r);
}

static void destroy_busy(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	if (repaired)
		MUST(!rig_recv(&r, r.b, 128, 64));
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_SEND, 0, 64, true)));
	if (repaired)
		MUST(!rig_wait(r.cq).status && !rig_wait(r.cq).status);
	rig_close(&r);
}

static void destroyed_twice(bool repaired)
{
	struct rig r;
	struct ibv_qp *old;

	rig_open(&r, NULL);
	old = r.a;
	MUST(!ibv_destroy_qp(old));
	r.a = NULL;
	if (!repaired)
		MUST(ibv_destroy_qp(old) == ENOENT);
	rig_close(&r);
}

/* Posts to a queue pair, and polls a CQ, that are destroyed. */
static void post_after(bool repaired)
{
	struct rig r;
	struct ibv_qp *old;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	old = r.a;
	if (repaired && !rig_post(old, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)))
		rig_wait(r.cq);
	MUST(!ibv_destroy_qp(old));
	r.a = NULL;
	if (!repaired)
		MUST(rig_post(old, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)) == EINVAL);
	rig_close(&r);
}

static void poll_after(bool repaired)
{
	struct rig r;
	struct ibv_wc wc;
	struct ibv_cq *cq;

	rig_open(&r, NULL);
	cq = ibv_create_cq(r.ctx, 8, NULL, NULL, 0);
	MUST(cq);
	if (repaired)
		MUST(!ibv_poll_cq(cq, 1, &wc));
	MUST(!ibv_destroy_cq(cq));
	if (!repaired)
		MUST(ibv_poll_cq(cq, 1, &wc) < 0);
	rig_close(&r);
}

static void modify_after(bool repaired)
{
	struct rig r;
	struct ibv_qp *old;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	old = r.a;
	if (repaired)
		to_err(old);
	MUST(!ibv_destroy_qp(old));
	r.a = NULL;
	if (!repaired)
		MUST(ibv_modify_qp(old, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
				   IBV_QP_STATE));
	rig_close(&r);
}

static void leak_object(bool repaired)
{
	struct rig r;
	struct ibv_mr *mr;

	rig_open(&r, NULL);
	mr = ibv_reg_mr(r.pd, r.buf, 4096, RIG_ALL);
	MUST(mr);
	if (!repaired)
		exit(0);
	MUST(!ibv_dereg_mr(mr));
	rig_close(&r);
}

static void leak_work(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	if (!repaired)
		exit(0);
	rig_wait(r.cq);
	rig_close(&r);
}

/* --- completions and events ------------------------------------------------- */

/* Answers a receive with as many bytes as it had, also if it had none. */
static void trust_byte_len(bool repaired)
{
	struct rig r;
	struct ibv_wc wc;
	struct ibv_send_wr *wr;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(!rig_recv(&r, r.b, 0, 64));
	to_err(r.b);
	wc = rig_wait(r.cq);
	MUST(wc.status == IBV_WC_WR_FLUSH_ERR);
	wr = rig_wr(&r, IBV_WR_SEND, 0, repaired ? 64 : wc.byte_len, true);
	if (!repaired)
		(void)rig_post(r.b, wr);
	rig_close(&r);
}

/* The same with a CQ that is read field by field. */
static void trust_read(bool repaired)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16,
					    .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
	struct ibv_poll_cq_attr poll_attr = { 0 };
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	struct rig r;
	int rc;

	rig_open(&r, NULL);
	ex = ibv_create_cq_ex(r.ctx, &attr);
	MUST(ex);
	cq = r.cq;
	r.cq = ibv_cq_ex_to_cq(ex);
	MUST(!ibv_destroy_qp(r.b));
	r.b = rig_qp(&r, NULL);
	r.cq = cq;
	rig_connect(&r, NULL);
	MUST(!rig_recv(&r, r.b, 0, 64));
	to_err(r.b);
	do
		rc = ibv_start_poll(ex, &poll_attr);
	while (rc == ENOENT);
	MUST(!rc && ex->status == IBV_WC_WR_FLUSH_ERR);
	if (!repaired)
		(void)ibv_wc_read_byte_len(ex);
	ibv_end_poll(ex);
	MUST(!ibv_destroy_qp(r.b));
	r.b = NULL;
	MUST(!ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	rig_close(&r);
}

static void get_event(struct rig *r)
{
	struct ibv_cq *cq;
	void *arg;

	MUST(!ibv_get_cq_event(r->channel, &cq, &arg) && cq == r->cq);
}

/* Polls, arms, and waits: the completion came between the first two. */
static void lost_wakeup(bool repaired)
{
	struct ibv_wc wc;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(ibv_poll_cq(r.cq, 1, &wc) == 0);
	if (repaired)
		MUST(!ibv_req_notify_cq(r.cq, 0));
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	rig_sleep(50);
	if (!repaired)
		MUST(!ibv_req_notify_cq(r.cq, 0));
	get_event(&r);
	ibv_ack_cq_events(r.cq, 1);
	rig_wait(r.cq);
	rig_close(&r);
}

static void event_unacked(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(!ibv_req_notify_cq(r.cq, 0));
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true)));
	get_event(&r);
	rig_wait(r.cq);
	if (repaired)
		ibv_ack_cq_events(r.cq, 1);
	else
		rig_ack_later(r.cq);
	rig_close(&r);
}

const struct bug bugs_ends[] = {
	{ "post-in-error", post_in_error },
	{ "flush-not-drained", flush_not_drained },
	{ "destroy-busy", destroy_busy },
	{ "destroyed-twice", destroyed_twice },
	{ "use-after-destroy/post", post_after },
	{ "use-after-destroy/poll", poll_after },
	{ "use-after-destroy/modify", modify_after },
	{ "leak-object", leak_object },
	{ "leak-work", leak_work },
	{ "wc-trusted/length", trust_byte_len },
	{ "wc-trusted/read", trust_read },
	{ "lost-wakeup", lost_wakeup },
	{ "event-unacked", event_unacked },
	{ 0 },
};
