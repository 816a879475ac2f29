/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_cost.c - what a queue pair costs in memory: two processes connect N RC
 * QPs (128 send and 512 receive entries, one SGE each), send one message on
 * each, and print the growth of RSS and shared memory per QP in bytes.
 *
 * qp_cost DEVICE GID_INDEX N      (it forks its own peer)
 */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stress/peer.h"
#include "bench_verbs.h"

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp **qp;
	union ibv_gid gid;
	char buf[4096];
};

static long rss_kib(void)
{
	char line[256];
	long kib = 0, sum = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1 ||
		    sscanf(line, "RssShmem: %ld", &kib) == 1)
			sum += kib;
	if (f)
		fclose(f);
	return sum;
}

static void open_side(struct side *s, const char *dev, int gid, unsigned n)
{
	s->ctx = open_device(dev);
	s->pd = ibv_alloc_pd(s->ctx);
	s->cq = ibv_create_cq(s->ctx, (int)(2 * n), NULL, NULL, 0);
	s->mr = ibv_reg_mr(s->pd, s->buf, sizeof(s->buf), IBV_ACCESS_LOCAL_WRITE);
	if (!s->pd || !s->cq || !s->mr || ibv_query_gid(s->ctx, 1, gid, &s->gid))
		err(1, "objects");
}

static void make_qps(struct side *s, unsigned n, uint32_t *qpn)
{
	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp_init_attr init = {
			.send_cq = s->cq,
			.recv_cq = s->cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 128,
				 .max_recv_wr = 512,
				 .max_send_sge = 1,
				 .max_recv_sge = 1 },
		};

		s->qp[i] = ibv_create_qp(s->pd, &init);
		if (!s->qp[i])
			err(1, "queue pair %u", i);
		qpn[i] = s->qp[i]->qp_num;
	}
}

static void connect_qp(struct side *s, unsigned i, uint32_t qpn, int gid)
{
	const struct far_end far = { .qpn = qpn,
				     .gid = s->gid,
				     .sgid_index = (uint8_t)gid,
				     .reads = 1,
				     .timeout = 14 };
	struct ibv_sge sge = { (uintptr_t)s->buf, 64, s->mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;

	to_init(s->qp[i], 0);
	to_rtr(s->qp[i], &far);
	must(!ibv_post_recv(s->qp[i], &recv, &bad), "post_recv");
	to_rts(s->qp[i], &far);
}

static void exchange(struct side *s, unsigned n)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + 64, 64, s->mr->lkey };
	unsigned done = 0;

	for (unsigned i = 0; i < n; i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED },
				   *bad;

		if (ibv_post_send(s->qp[i], &wr, &bad))
			err(1, "post_send");
	}
	while (done < 2 * n) { /* n sends and n receives */
		struct ibv_wc wc[16];
		int got = ibv_poll_cq(s->cq, 16, wc);

		for (int k = 0; k < got; k++, done++)
			if (wc[k].status)
				errx(1, "%s", ibv_wc_status_str(wc[k].status));
	}
}

int main(int argc, char **argv)
{
	struct side s = { 0 };
	uint32_t *mine, *theirs;
	unsigned n;
	int pair[2], gid, parent;
	long before;
	char go = 0;

	if (argc != 4)
		errx(1, "usage: qp_cost DEVICE GID_INDEX N");
	gid = atoi(argv[2]);
	n = (unsigned)atoi(argv[3]);
	mine = calloc(n, sizeof(*mine));
	theirs = calloc(n, sizeof(*theirs));
	s.qp = calloc(n, sizeof(struct ibv_qp *));
	if (!mine || !theirs || !s.qp || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		err(1, "memory");
	memset(mine, 1, n * sizeof(*mine));
	memset(theirs, 1, n * sizeof(*theirs));
	parent = fork() != 0;
	open_side(&s, argv[1], gid, n);
	before = rss_kib();
	make_qps(&s, n, mine);
	peer_swap(pair[parent], mine, theirs, n * sizeof(*mine));
	for (unsigned i = 0; i < n; i++)
		connect_qp(&s, i, theirs[i], gid);
	peer_swap(pair[parent], &go, &go, 1);
	exchange(&s, n);
	peer_swap(pair[parent], &go, &go, 1);
	if (parent) {
		printf("%ld\n", (rss_kib() - before) * 1024 / (long)n);
		fflush(stdout);
		wait(NULL);
	}
	_exit(0);
}
