/* SPDX-License-Identifier: BSD-2-Clause */
/* one_sided.c - the time of a WRITE, READ or fetch-add to another process of the host:
 *from the post until polling finds the completion, in nanoseconds of this process's CPU
 *time (the median of 20 rounds), which other work on the machine disturbs least.  The
 *other process does nothing meanwhile.
 *
 * one_sided [-s] [-l LIST] OP BYTES COUNT
 *	-s	memory that is shared already (a memfd); else private
 *	-l	so many in one list, of which the last is signaled
 *	OP	write, read, add
 *
 * Instructions: callgrind --toggle-collect=measured, which does not follow the other
 * process: 20 times COUNT operations.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_verbs.h"

enum { MEMORY = 4 << 20, LIST = 64, DEPTH = 128, ROUNDS = 20, WARM = 20 };

struct end {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
	_Atomic bool made, joined;
};

static struct {
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *at;
} my;

static struct end *ends;
static bool shared;

static uint8_t *memory(void)
{
	int fd = shared ? memfd_create("one_sided", MFD_CLOEXEC) : -1;
	uint8_t *at;

	must(!shared || !ftruncate(fd, MEMORY), "ftruncate");
	at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
		  shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	must(at != MAP_FAILED, "mmap");
	memset(at, 0, MEMORY);
	return at;
}

static void make(struct end *e)
{
	const unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC,
				       .cap = { DEPTH, 1, 1, 1, 0 } };
	struct ibv_pd *pd;

	my.ctx = open_device(NULL);
	must((pd = ibv_alloc_pd(my.ctx)), "PD");
	must((my.cq = ibv_create_cq(my.ctx, DEPTH, NULL, NULL, 0)), "CQ");
	my.at = memory();
	my.mr = ibv_reg_mr(pd, my.at, MEMORY, (int)(IBV_ACCESS_LOCAL_WRITE | access));
	must(my.mr, "region");
	qp.send_cq = qp.recv_cq = my.cq;
	must((my.qp = ibv_create_qp(pd, &qp)), "QP");
	to_init(my.qp, access);
	must(!ibv_query_gid(my.ctx, 1, 0, &e->gid), "GID");
	e->qpn = my.qp->qp_num;
	e->rkey = my.mr->rkey;
	e->addr = (uintptr_t)my.at;
	atomic_store(&e->made, true);
}

static void join(const struct end *to)
{
	const struct far_end far = {
		.qpn = to->qpn, .gid = to->gid, .reads = 16, .timeout = 14
	};

	to_rtr(my.qp, &far);
	to_rts(my.qp, &far);
}

static void meet(int side)
{
	make(&ends[side]);
	until(&ends[!side].made);
	join(&ends[!side]);
	atomic_store(&ends[side].joined, true);
	until(&ends[!side].joined);
}

static void other(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	meet(1);
	for (;;)
		pause();
}

static struct ibv_send_wr wr[LIST];
static struct ibv_sge sge;

static void prepare(enum ibv_wr_opcode op, uint32_t bytes, int list)
{
	sge = (struct ibv_sge){ (uintptr_t)my.at, bytes, my.mr->lkey };
	for (int i = 0; i < list; i++) {
		wr[i] = (struct ibv_send_wr){ .opcode = op,
					      .sg_list = &sge,
					      .num_sge = 1,
					      .next = i + 1 < list ? &wr[i + 1] : NULL };
		if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr[i].wr.atomic.remote_addr = ends[1].addr;
			wr[i].wr.atomic.rkey = ends[1].rkey;
			wr[i].wr.atomic.compare_add = 1;
		} else {
			wr[i].wr.rdma.remote_addr = ends[1].addr;
			wr[i].wr.rdma.rkey = ends[1].rkey;
		}
	}
	wr[list - 1].send_flags = IBV_SEND_SIGNALED;
}

static void run(int count, int list)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	for (int i = 0; i < count; i += list) {
		must(!ibv_post_send(my.qp, wr, &bad), "post");
		while (!(n = ibv_poll_cq(my.cq, 1, &wc)))
			;
		if (n < 0 || wc.status)
			errx(1, "status %d", n < 0 ? n : (int)wc.status);
	}
}

/* A function of its own, whose entry and exit tell callgrind when to count. */
__attribute__((noinline)) static void measured(int count, int list)
{
	run(count, list);
}

/* Uses the region until the other process has been asked to map it, and has done so. */
static void warm_up(int list)
{
	for (int i = 0; i < 20; i++) {
		run(WARM * list, list);
		usleep(50000);
	}
}

int main(int argc, char **argv)
{
	enum ibv_wr_opcode op = IBV_WR_RDMA_WRITE;
	double ns[ROUNDS], start;
	int list = 1, c, count;
	uint32_t bytes;
	pid_t pid;

	while ((c = getopt(argc, argv, "sl:")) != -1) {
		shared |= c == 's';
		if (c == 'l')
			list = atoi(optarg);
	}
	if (argc - optind != 3 || list < 1 || list > LIST)
		errx(2, "one_sided [-s] [-l LIST] write|read|add BYTES COUNT");
	if (!strcmp(argv[optind], "read"))
		op = IBV_WR_RDMA_READ;
	if (!strcmp(argv[optind], "add"))
		op = IBV_WR_ATOMIC_FETCH_AND_ADD;
	bytes = (uint32_t)atoi(argv[optind + 1]);
	count = atoi(argv[optind + 2]);
	ends = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);
	must(ends != MAP_FAILED, "mmap");
	pid = fork();
	if (!pid)
		other();
	meet(0);
	prepare(op, bytes, list);
	warm_up(list);
	for (int i = 0; i < ROUNDS; i++) {
		start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		measured(count, list);
		ns[i] = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / (double)count;
	}
	printf("%.1f\n", median(ns, ROUNDS));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
