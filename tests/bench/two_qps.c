/* SPDX-License-Identifier: BSD-2-Clause */
/* two_qps.c - what SENDs, or WRITEs, between two QPs of one process take, both ends
 * together, in nanoseconds of the process's time on a processor (the median of 20
 * rounds).  Two processes cannot be counted so, since they wait for each other.
 *
 * two_qps [-1w] [-l LIST] BYTES COUNT
 *	without -l: a ping-pong of COUNT rounds: two SENDs, two receives
 *	-l	COUNT SENDs to one side, so many in a list, the last signaled
 *	-w	with -l: WRITEs
 *	-1	with -l: posted one by one
 *
 * URNIC_LOCAL=off sends them by UDP.  Instructions: callgrind --toggle-collect=measured,
 * 20 times COUNT of them.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench_verbs.h"

enum { DEPTH = 128, LIST = 64, ROUNDS = 20, MEMORY = 1 << 20 };

static struct ibv_context *ctx;
static struct ibv_mr *mr;
static struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
} side[2];
static uint32_t bytes;
static bool writes, singly;

static void make(struct side *s)
{
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC,
				       .cap = { DEPTH, DEPTH, 1, 1, 64 } };

	must((s->cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0)), "CQ");
	qp.send_cq = qp.recv_cq = s->cq;
	must((s->qp = ibv_create_qp(mr->pd, &qp)), "QP");
	to_init(s->qp, IBV_ACCESS_REMOTE_WRITE);
}

static void join(struct side *s, uint32_t dest)
{
	struct far_end far = { .qpn = dest, .timeout = 14 };

	must(!ibv_query_gid(ctx, 1, 0, &far.gid), "GID");
	to_rtr(s->qp, &far);
	to_rts(s->qp, &far);
}

static void recv_one(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, bytes, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	must(!ibv_post_recv(s->qp, &wr, &bad), "post_recv");
}

static void send_list(struct side *s, int list)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr + MEMORY / 2, bytes, mr->lkey };
	struct ibv_send_wr wr[LIST], *bad;

	for (int i = 0; i < list; i++)
		wr[i] = (struct ibv_send_wr){
			.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = (i + 1 == list ? IBV_SEND_SIGNALED : 0u) |
				      (bytes <= 64 ? IBV_SEND_INLINE : 0u),
			.next = i + 1 < list ? &wr[i + 1] : NULL,
			.wr.rdma = { (uintptr_t)mr->addr, mr->rkey },
		};
	for (int i = 0; singly && i + 1 < list; i++) {
		wr[i].next = NULL;
		must(!ibv_post_send(s->qp, &wr[i], &bad), "post_send");
	}
	must(!ibv_post_send(s->qp, singly ? &wr[list - 1] : wr, &bad), "post_send");
}

/* Waits for n completions with this opcode. */
static void wait_for(struct side *s, enum ibv_wc_opcode opcode, int n)
{
	static int early[2];
	int *other = &early[opcode != IBV_WC_SEND];

	n -= *other;
	*other = 0;
	while (n > 0) {
		struct ibv_wc wc[16];
		int got = ibv_poll_cq(s->cq, 16, wc);

		for (int i = 0; i < got; i++) {
			if (wc[i].status)
				errx(1, "%s", ibv_wc_status_str(wc[i].status));
			if (wc[i].opcode == opcode ||
			    (opcode == IBV_WC_SEND && wc[i].opcode == IBV_WC_RDMA_WRITE))
				n--;
			else
				early[wc[i].opcode != IBV_WC_SEND]++;
		}
	}
}

static void ping_pong(int count)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < 2; k++) {
			recv_one(&side[!k]);
			send_list(&side[k], 1);
			wait_for(&side[!k], IBV_WC_RECV, 1);
			wait_for(&side[k], IBV_WC_SEND, 1);
		}
}

static void stream(int count, int list)
{
	for (int i = 0; i < count; i += list) {
		for (int k = 0; k < list && !writes; k++)
			recv_one(&side[1]);
		send_list(&side[0], list);
		if (!writes)
			wait_for(&side[1], IBV_WC_RECV, list);
		wait_for(&side[0], IBV_WC_SEND, 1);
	}
}

/* A function of its own, whose entry and exit tell callgrind when to count. */
__attribute__((noinline)) static void measured(int count, int list)
{
	if (list)
		stream(count, list);
	else
		ping_pong(count);
}

int main(int argc, char **argv)
{
	double took[ROUNDS];
	int list = 0, count, c;
	void *at;

	while ((c = getopt(argc, argv, "1wl:")) != -1)
		if (c == 'w')
			writes = true;
		else if (c == '1')
			singly = true;
		else
			list = c == 'l' ? atoi(optarg) : -1;
	if (argc - optind != 2 || list < 0 || list > LIST ||
	    ((writes || singly) && !list))
		errx(2, "usage: two_qps [-1w] [-l LIST] BYTES COUNT");
	bytes = (uint32_t)atoi(argv[optind]);
	count = atoi(argv[optind + 1]);
	ctx = open_device(NULL);
	must(!posix_memalign(&at, 4096, MEMORY), "memory");
	memset(at, 0, MEMORY);
	mr = ibv_reg_mr(ibv_alloc_pd(ctx), at, MEMORY,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(mr && bytes <= MEMORY / 2, "region");
	for (int i = 0; i < 2; i++)
		make(&side[i]);
	for (int i = 0; i < 2; i++)
		join(&side[i], side[!i].qp->qp_num);
	for (int i = 0; i < ROUNDS; i++) {
		double began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

		measured(count, list);
		took[i] = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began) / count;
	}
	printf("%.0f\n", median(took, ROUNDS));
	return 0;
}
