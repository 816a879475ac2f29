/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.c - makes objects and posts again and again, every --pause ms or 20, and says
 * which call fails, the how-many-th of its kind it was, and with which errno:
 *
 *	reg_mr 3: Cannot allocate memory
 *
 * A failure changes nothing else.  Ends well after --time or SIGTERM.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void told(const char *call, unsigned n, int error)
{
	if (error)
		say("%s %u: %s", call, n, strerror(error));
}

static void make_all(struct rig *r, struct ibv_qp *qp, unsigned n)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_recv_wr wr = { .wr_id = n }, *bad = NULL;
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_pd *pd = ibv_alloc_pd(r->ctx);
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *made;
	int rc;

	told("alloc_pd", n, pd ? 0 : errno);
	mr = ibv_reg_mr(r->pd, r->buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	told("reg_mr", n, mr ? 0 : errno);
	cq = ibv_create_cq(r->ctx, 4, NULL, NULL, 0);
	told("create_cq", n, cq ? 0 : errno);
	made = ibv_create_qp(r->pd, &attr);
	told("create_qp", n, made ? 0 : errno);
	rc = ibv_post_recv(qp, &wr, &bad);
	CHECK(!rc == !bad);
	told("post_recv", n, rc);
	CHECK(!pd || !ibv_dealloc_pd(pd));
	CHECK(!mr || !ibv_dereg_mr(mr));
	CHECK(!cq || !ibv_destroy_cq(cq));
	CHECK(!made || !ibv_destroy_qp(made));
	CHECK(!ibv_modify_qp(qp, &reset, IBV_QP_STATE));
	CHECK(!ibv_modify_qp(qp, &init,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
}

int calls(void)
{
	const double end = now_s() + opt.seconds;
	struct ibv_qp *qp;
	struct rig r;

	signal(SIGTERM, on_term);
	rig_open(&r);
	qp = rig_qp(&r);
	for (unsigned n = 1; !stop && now_s() < end; n++) {
		make_all(&r, qp, n);
		if (n == 1)
			say("works");
		sleep_ms(opt.pause ? opt.pause : 20);
	}
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
	say("all right");
	return 0;
}
