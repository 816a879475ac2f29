/* SPDX-License-Identifier: BSD-2-Clause */
#include "like.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ibv_context *ctx;
struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index = 1;

void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(": %s\n", strerror(errno));
	exit(1);
}

struct end end_make(struct ibv_qp_cap cap)
{
	struct end e = {
		.mtu = IBV_MTU_1024, .min_rnr_timer = 1, .rnr_retry = 7, .depth = 1
	};
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = cap,
					 .sq_sig_all = 1 };
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	e.buf = aligned_alloc(4096, BYTES);
	e.cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	if (!e.buf || !e.cq)
		die("create_cq");
	memset(e.buf, 0, BYTES);
	e.mr = ibv_reg_mr(pd, e.buf, BYTES, access);
	if (!e.mr)
		die("reg_mr");
	init.send_cq = init.recv_cq = e.cq;
	e.qp = ibv_create_qp(pd, &init);
	if (!e.qp)
		die("create_qp");
	return e;
}

void end_destroy(struct end *e)
{
	ibv_destroy_qp(e->qp);
	ibv_destroy_cq(e->cq);
	ibv_dereg_mr(e->mr);
	free(e->buf);
}

int end_init(struct end *e)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC };

	return ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				     IBV_QP_ACCESS_FLAGS);
}

int end_rtr(struct end *e, const struct end *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = e->mtu,
				 .dest_qp_num = peer->qp->qp_num,
				 .max_dest_rd_atomic = e->depth,
				 .min_rnr_timer = e->min_rnr_timer,
				 .ah_attr = { .is_global = 1,
					      .port_num = 1,
					      .grh = { .dgid = gid,
						       .sgid_index = (uint8_t)gid_index,
						       .hop_limit = 64 } } };

	return ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int end_rts(struct end *e)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = 18,
				 .retry_cnt = 7,
				 .rnr_retry = e->rnr_retry,
				 .max_rd_atomic = e->depth };

	return ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

void end_connect(struct end *a, struct end *b)
{
	int rc = end_init(a);

	rc = rc ? rc : end_init(b);
	rc = rc ? rc : end_rtr(a, b);
	rc = rc ? rc : end_rtr(b, a);
	rc = rc ? rc : end_rts(a);
	rc = rc ? rc : end_rts(b);
	errno = rc;
	if (rc)
		die("modify_qp");
}

int end_post(struct end *e, enum ibv_wr_opcode op, const struct end *to,
	     struct ibv_sge *sge, int n, unsigned flags)
{
	struct ibv_send_wr wr = { .opcode = op,
				  .sg_list = sge,
				  .num_sge = n,
				  .send_flags = IBV_SEND_SIGNALED | flags },
			   *bad;

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->buf;
		wr.wr.atomic.rkey = to->mr->rkey;
	} else if (op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)to->buf;
		wr.wr.rdma.rkey = to->mr->rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

int end_receive(struct end *e, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, length, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(e->qp, &wr, &bad);
}

struct ibv_wc end_wait(struct end *e)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(e->cq, 1, &wc);
	while (n == 0);
	if (n < 0)
		die("poll_cq");
	return wc;
}

static void open_device(const char *name)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (int i = 0; list && i < n && !ctx; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("no device %s", name ? name : "");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	if (!pd || ibv_query_gid(ctx, 1, gid_index, &gid))
		die("pd or GID");
}

int main(int argc, char **argv)
{
	const char *name = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int c; (c = getopt(argc, argv, "d:g:")) != -1;) {
		if (c == 'd')
			name = optarg;
		else if (c == 'g')
			gid_index = atoi(optarg);
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	open_device(name);
	if (!strcmp(argv[optind], "limits"))
		limits();
	else if (!strcmp(argv[optind], "features"))
		features();
	else if (!strcmp(argv[optind], "depths"))
		depths();
	else if (!strcmp(argv[optind], "vendors"))
		vendors();
	else
		return hidden(argv[optind]);
	return 0;
}
