/* SPDX-License-Identifier: BSD-2-Clause */
/* known.c - two processes whose traffic is known, for commands that look at them.
 *
 * known [-q QPS] [-l LIST] [-r MS] [-n NAME] send|write|read BYTES COUNT
 *	each of the QPs does COUNT requests (0: without end), LIST in a list (1), of which
 *	the last is signaled
 *	-r	the other process posts its receives MS later
 *	-n	what the processes call themselves
 *
 * Prints the numbers of the process that posts, of the other, and of the first QP of
 * each; then "done" once all is completed. Both end with standard input.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bench/bench_verbs.h"

enum { QPS = 256, LIST = 32, DEPTH = 128, MEMORY = 1 << 20 };

struct end {
	_Atomic bool made, joined;
	uint32_t qpn[QPS], rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct end *ends; /* shared by the two processes */
static struct {
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr;
	void *at;
} my;
static int qps = 1, list = 1, receives_after;
static enum ibv_wr_opcode op;
static uint32_t bytes;

static void make(struct end *e)
{
	const unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ibv_pd *pd;

	my.ctx = open_device(NULL);
	must((pd = ibv_alloc_pd(my.ctx)), "PD");
	must((my.cq = ibv_create_cq(my.ctx, qps * DEPTH * 2, NULL, NULL, 0)), "CQ");
	my.at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	must(my.at != MAP_FAILED, "memory");
	my.mr = ibv_reg_mr(pd, my.at, MEMORY, (int)(IBV_ACCESS_LOCAL_WRITE | access));
	must(my.mr, "region");
	init.send_cq = init.recv_cq = my.cq;
	for (int i = 0; i < qps; i++) {
		must((my.qp[i] = ibv_create_qp(pd, &init)), "QP");
		to_init(my.qp[i], access);
		e->qpn[i] = my.qp[i]->qp_num;
	}
	must(!ibv_query_gid(my.ctx, 1, 0, &e->gid), "GID");
	e->rkey = my.mr->rkey;
	e->addr = (uintptr_t)my.at;
	atomic_store(&e->made, true);
}

static int index_of(uint32_t qpn)
{
	for (int i = 0; i < qps; i++)
		if (my.qp[i]->qp_num == qpn)
			return i;
	errx(1, "a completion of another QP");
}

static void receive(int i)
{
	struct ibv_sge sge = { (uintptr_t)my.at, MEMORY, my.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(my.qp[i], &wr, &bad), "receive");
}

static void receive_all(void)
{
	for (int i = 0; i < qps && op == IBV_WR_SEND; i++)
		for (int k = 0; k < DEPTH; k++)
			receive(i);
}

static void meet(int side)
{
	make(&ends[side]);
	until(&ends[!side].made);
	for (int i = 0; i < qps; i++) {
		const struct far_end far = { .qpn = ends[!side].qpn[i],
					     .gid = ends[!side].gid,
					     .reads = 16,
					     .timeout = 14 };

		to_rtr(my.qp[i], &far);
		to_rts(my.qp[i], &far);
	}
	if (side && !receives_after)
		receive_all();
	atomic_store(&ends[side].joined, true);
	until(&ends[!side].joined);
}

static void other(void)
{
	struct ibv_wc wc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	meet(1);
	usleep((useconds_t)receives_after * 1000);
	if (receives_after)
		receive_all();
	for (;;)
		if (ibv_poll_cq(my.cq, 1, &wc) > 0 && !wc.status)
			receive(index_of(wc.qp_num));
		else if (op != IBV_WR_SEND)
			pause();
		else if (receives_after)
			usleep(1000);
}

static void post(int i)
{
	struct ibv_sge sge = { (uintptr_t)my.at, bytes, my.mr->lkey };
	struct ibv_send_wr wr[LIST], *bad;

	for (int k = 0; k < list; k++) {
		wr[k] = (struct ibv_send_wr){ .opcode = op,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .next = k + 1 < list ? &wr[k + 1] : NULL };
		wr[k].wr.rdma.remote_addr = ends[1].addr;
		wr[k].wr.rdma.rkey = ends[1].rkey;
	}
	wr[list - 1].send_flags = IBV_SEND_SIGNALED;
	must(!ibv_post_send(my.qp[i], wr, &bad), "post");
}

static void complete(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(my.cq, 1, &wc)))
		;
	if (n < 0 || wc.status)
		errx(1, "status %d", n < 0 ? n : (int)wc.status);
}

static void run(long count)
{
	for (long done = 0; !count || done < count; done += list) {
		for (int i = 0; i < qps; i++)
			post(i);
		for (int i = 0; i < qps; i++)
			complete();
	}
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "q:l:r:n:")) != -1) {
		if (c == 'n') {
			prctl(PR_SET_NAME, optarg);
			continue;
		}
		*(c == 'q' ? &qps : c == 'l' ? &list : &receives_after) = atoi(optarg);
		if (c == '?')
			exit(2);
	}
	if (argc - optind != 3 || qps < 1 || qps > QPS || list < 1 || list > LIST)
		errx(2, "known [-q QPS] [-l LIST] [-r MS] send|write|read BYTES COUNT");
	op = !strcmp(argv[optind], "send")   ? IBV_WR_SEND
	     : !strcmp(argv[optind], "read") ? IBV_WR_RDMA_READ
					     : IBV_WR_RDMA_WRITE;
	bytes = (uint32_t)atoi(argv[optind + 1]);
}

int main(int argc, char **argv)
{
	char byte;
	pid_t pid;

	setlinebuf(stdout);
	parse(argc, argv);
	ends = mmap(NULL, 2 * sizeof(*ends), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(ends != MAP_FAILED, "mmap");
	pid = fork();
	if (!pid)
		other();
	meet(0);
	printf("%d %d 0x%06x 0x%06x\n", (int)getpid(), (int)pid, ends[0].qpn[0],
	       ends[1].qpn[0]);
	run(atol(argv[optind + 2]));
	puts("done");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
