/* SPDX-License-Identifier: BSD-2-Clause */
/* reported.c - what drivers report each in their own way: depths of queues, as
 * "cqe 100 127" (asked for, granted), and vendor_err, as "LOC_PROT_ERR 81 81" (by
 * ibv_poll_cq(), by ibv_wc_read_vendor_err()). */
#include <errno.h>
#include <stdio.h>

#include "like.h"

static const struct ibv_qp_cap usual = {
	.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 16, .max_recv_sge = 1
};

/* --- depths -------------------------------------------------------------------- */

static uint32_t granted_cqe(uint32_t n)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, (int)n, NULL, NULL, 0);

	if (!cq)
		die("create_cq");
	return (uint32_t)cq->cqe;
}

static uint32_t resized_cqe(uint32_t n)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 2, NULL, NULL, 0);

	if (!cq || ibv_resize_cq(cq, (int)n))
		die("resize_cq");
	return (uint32_t)cq->cqe;
}

static uint32_t granted_recv_wr(uint32_t n)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = usual, .send_cq = cq, .recv_cq = cq
	};
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	init.cap.max_recv_wr = n;
	qp = ibv_create_qp(pd, &init);
	if (!qp)
		die("create_qp");
	if (ibv_query_qp(qp, &attr, IBV_QP_CAP, &init) ||
	    attr.cap.max_recv_wr != init.cap.max_recv_wr)
		die("query_qp");
	return init.cap.max_recv_wr;
}

static uint32_t granted_srq_wr(uint32_t n)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = n, .max_sge = 1 } };

	return ibv_create_srq(pd, &init) ? init.attr.max_wr : 0;
}

void depths(void)
{
	static const uint32_t n[] = { 1, 2, 5, 64, 100, 127 };

	for (unsigned i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		printf("cqe %u %u\n", n[i], granted_cqe(n[i]));
		printf("cqe %u %u\n", n[i], resized_cqe(n[i]));
		printf("max_recv_wr %u %u\n", n[i], granted_recv_wr(n[i]));
		printf("max_srq_wr %u %u\n", n[i], granted_srq_wr(n[i]));
	}
}

/* --- vendor_err ---------------------------------------------------------------- */

/* An end whose CQ can be read field by field, too. */
static struct end make(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = usual,
					 .sq_sig_all = 1 };
	struct end e = end_make(usual);

	if (!cq)
		die("create_cq_ex");
	ibv_destroy_qp(e.qp);
	e.cq = init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	e.qp = ibv_create_qp(pd, &init);
	if (!e.qp)
		die("create_qp");
	return e;
}

static uint32_t read_one(struct end *e, enum ibv_wc_status *status)
{
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)e->cq;
	struct ibv_poll_cq_attr attr = { 0 };
	uint32_t vendor;

	while (ibv_start_poll(cq, &attr))
		;
	*status = cq->status;
	vendor = ibv_wc_read_vendor_err(cq);
	ibv_end_poll(cq);
	return vendor;
}

/* Posts a request that fails and one that is flushed; says what each way of polling
 * returns. */
static void fail(const char *name, enum ibv_wr_opcode op, uint32_t lkey, uint32_t rkey)
{
	uint32_t first[2], flushed[2];
	enum ibv_wc_status status[2] = { 0 };

	for (int ex = 0; ex < 2; ex++) {
		struct end a = make(), b = make();
		struct ibv_sge sge = { (uintptr_t)a.buf, 64, a.mr->lkey ^ lkey };
		struct ibv_mr other = *b.mr;
		struct end to = b;
		struct ibv_wc wc;

		other.rkey ^= rkey;
		to.mr = &other;
		a.rnr_retry = 0;
		end_connect(&a, &b);
		if (end_post(&a, op, &to, &sge, 1, 0) ||
		    end_post(&a, op, &to, &sge, 1, 0))
			die("post_send");
		if (ex) {
			first[ex] = read_one(&a, status);
			flushed[ex] = read_one(&a, status + 1);
			continue;
		}
		wc = end_wait(&a);
		first[ex] = wc.vendor_err;
		wc = end_wait(&a);
		flushed[ex] = wc.vendor_err;
	}
	printf("%s %u %u %u\n", name, status[0], first[0], first[1]);
	printf("WR_FLUSH_ERR %u %u %u\n", status[1], flushed[0], flushed[1]);
}

void vendors(void)
{
	fail("LOC_PROT_ERR", IBV_WR_SEND, 0x100, 0);
	fail("REM_ACCESS_ERR", IBV_WR_RDMA_WRITE, 0, 0x100);
	fail("RNR_RETRY_EXC_ERR", IBV_WR_SEND, 0, 0);
}
