/* SPDX-License-Identifier: BSD-2-Clause */
/* extended.c - a QP writes to itself: requests built by ibv_wr_*, completions read by
 * ibv_start_poll() and ibv_next_poll().  It says what fails, and the how-many-th of its
 * kind it was:
 *
 *	wr_complete 3: Cannot allocate memory
 *	completion 7: remote access error, vendor error 34
 *
 * After a completion with an error there is a new QP.  Ends well after --time or
 * SIGTERM.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

enum { TWO = 2, LEN = 64 };

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static struct ibv_qp *make_qp(struct rig *r, struct ibv_cq_ex *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = RIG_ACCESS,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &attr);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	rig_join(r, qp, qp->qp_num, 7, &r->gid);
	return qp;
}

/* Posts two WRITEs; returns as ibv_wr_complete() does. */
static int post_two(struct rig *r, struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	for (int i = 0; i < TWO; i++) {
		ex->wr_id = (uint64_t)i;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(ex, r->mr->rkey, (uintptr_t)r->buf + 4096);
		ibv_wr_set_sge(ex, r->mr->lkey, (uintptr_t)r->buf, LEN);
	}
	return ibv_wr_complete(ex);
}

/* Says what a completion says, if it is an error.  Returns whether it is one. */
static bool look(struct ibv_cq_ex *cq, unsigned n)
{
	if (cq->status == IBV_WC_SUCCESS)
		return false;
	say("completion %u: %s, vendor error %u", n, ibv_wc_status_str(cq->status),
	    ibv_wc_read_vendor_err(cq));
	return true;
}

/* Takes two completions, the second behind the first where it is there.  Returns false
 * after an error. */
static bool take_two(struct ibv_cq_ex *cq, unsigned *n)
{
	const double end = now_s() + 40;
	bool bad = false;

	for (int got = 0; got < TWO;) {
		struct ibv_poll_cq_attr none = { 0 };
		int rc = ibv_start_poll(cq, &none);

		CHECK(now_s() < end);
		if (rc == ENOENT)
			continue;
		CHECK(!rc);
		do {
			got++;
			bad |= look(cq, ++*n);
		} while (got < TWO && !ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	return !bad;
}

int extended(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64 };
	const double end = now_s() + opt.seconds;
	unsigned posts = 0, completions = 0;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct rig r;

	signal(SIGTERM, on_term);
	rig_open(&r);
	cq = ibv_create_cq_ex(r.ctx, &attr);
	CHECK(cq);
	qp = make_qp(&r, cq);
	while (!stop && now_s() < end) {
		int rc = post_two(&r, qp);

		if (++posts == 1)
			say("works");
		if (rc) {
			say("wr_complete %u: %s", posts, strerror(rc));
		} else if (!take_two(cq, &completions)) {
			CHECK(!ibv_destroy_qp(qp));
			qp = make_qp(&r, cq);
		}
		sleep_ms(opt.pause ? opt.pause : 20);
	}
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	rig_close(&r);
	say("all right");
	return 0;
}
