/* SPDX-License-Identifier: BSD-2-Clause */
/* many.c - the cost of one more object among many.  Prints one figure.
 *
 * many regions N kib|us
 *	N memory regions of one process: the memory, or the time to register, that each
 *	of the last tenth takes.
 *
 * many processes N kib|us DEVICE GID_INDEX
 *	N processes, each with an RC QP to this one, to which it sends a message: the
 *	private memory of each, or the time until all messages are here, divided by N.
 *
 * many message N DEVICE GID_INDEX
 *	One SEND and one WRITE of N bytes to another process, which compares them: GB/s.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../stress/peer.h"
#include "bench_verbs.h"

enum { PAGE = 4096 };

static double now_us(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1e3;
}

/* Returns a field of /proc/self/smaps_rollup in KiB. */
static long memory_kib(const char *field)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256], format[64];
	long kib = 0, found = -1;

	must(f, "/proc/self/smaps_rollup");
	snprintf(format, sizeof(format), "%s: %%ld", field);
	while (found < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, format, &kib) == 1)
			found = kib;
	fclose(f);
	return found;
}

/* --- regions -------------------------------------------------------------- */

static void regions(unsigned n, bool kib)
{
	struct ibv_context *ctx = open_device(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mr **mr = calloc(n, sizeof(struct ibv_mr *));
	char *buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	double us = 0;
	long was = 0;

	must(pd && mr && buf != MAP_FAILED, "objects");
	memset(mr, 1, n * sizeof(struct ibv_mr *));
	for (unsigned i = 0; i < n; i++) {
		if (i == n - n / 10) {
			was = memory_kib("Rss");
			us = now_us();
		}
		mr[i] = ibv_reg_mr(pd, buf, PAGE,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		must(mr[i], "ibv_reg_mr");
	}
	us = now_us() - us;
	printf("%.3f\n", (kib ? (double)(memory_kib("Rss") - was) : us) / (n / 10));
	for (unsigned i = 0; i < n; i++)
		must(!ibv_dereg_mr(mr[i]), "ibv_dereg_mr");
}

/* --- ends ----------------------------------------------------------------- */

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t gid_index;
};

struct address {
	uint32_t qpn, rkey;
	uint64_t va;
};

static void open_end(struct end *e, const char *dev, const char *gid, void *buf,
		     size_t len)
{
	e->gid_index = (uint8_t)atoi(gid);
	e->ctx = open_device(dev);
	e->pd = ibv_alloc_pd(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 1024, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, buf, len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(e->pd && e->cq && e->mr, "objects");
	must(!ibv_query_gid(e->ctx, 1, e->gid_index, &e->gid), "GID");
}

static struct ibv_qp *make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	must(qp, "ibv_create_qp");
	return qp;
}

static void post_recv(struct ibv_qp *qp, struct end *e, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->mr->addr, (uint32_t)len, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void post(struct ibv_qp *qp, struct end *e, enum ibv_wr_opcode opcode, size_t len,
		 const struct address *to)
{
	struct ibv_sge sge = { (uintptr_t)e->mr->addr, (uint32_t)len, e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .wr.rdma = { to->va, to->rkey } },
			   *bad;

	must(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

static void completions(struct end *e, unsigned n)
{
	struct ibv_wc wc;

	while (n > 0) {
		int got = ibv_poll_cq(e->cq, 1, &wc);

		if (got > 0 && wc.status)
			errx(1, "%s", ibv_wc_status_str(wc.status));
		n -= (unsigned)got;
	}
}

/* Makes an RC QP with a receive of len bytes, and connects it to the process at the
 * other end of the socket. */
static struct ibv_qp *meet(struct end *e, int sock, size_t len, struct address *other)
{
	struct ibv_qp *qp = make_qp(e);
	const struct address mine = { qp->qp_num, e->mr->rkey, (uintptr_t)e->mr->addr };
	struct far_end far = {
		.gid = e->gid, .sgid_index = e->gid_index, .reads = 1, .timeout = 17
	};
	char go = 0;

	peer_swap(sock, &mine, other, sizeof(*other));
	far.qpn = other->qpn;
	to_init(qp, IBV_ACCESS_REMOTE_WRITE);
	to_rtr(qp, &far);
	post_recv(qp, e, len);
	to_rts(qp, &far);
	peer_swap(sock, &go, &go, 1);
	return qp;
}

/* --- processes ------------------------------------------------------------ */

/* Answers with the size of its private memory. */
static _Noreturn void one_process(int sock, const char *dev, const char *gid)
{
	static char buf[64];
	struct address hub;
	struct ibv_qp *qp;
	struct end e;
	long kib;
	char go = 0;

	open_end(&e, dev, gid, buf, sizeof(buf));
	qp = meet(&e, sock, sizeof(buf), &hub);
	post(qp, &e, IBV_WR_SEND, sizeof(buf), &hub);
	completions(&e, 1);
	peer_swap(sock, &go, &go, 1); /* all processes have sent */
	kib = memory_kib("Private_Dirty");
	peer_swap(sock, &kib, &kib, sizeof(kib));
	_exit(0);
}

static void processes(unsigned n, bool kib, const char *dev, const char *gid)
{
	static char buf[64];
	int *sock = calloc(n, sizeof(*sock));
	double us = now_us();
	long all = 0, one;
	struct address far;
	struct end e;
	char go = 0;

	must(sock, "memory");
	for (unsigned i = 0; i < n; i++) {
		int pair[2];

		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
		if (fork() == 0)
			one_process(pair[1], dev, gid);
		close(pair[1]);
		sock[i] = pair[0];
	}
	open_end(&e, dev, gid, buf, sizeof(buf));
	for (unsigned i = 0; i < n; i++)
		meet(&e, sock[i], sizeof(buf), &far);
	completions(&e, n);
	us = now_us() - us;
	for (unsigned i = 0; i < n; i++)
		peer_swap(sock[i], &go, &go, 1);
	for (unsigned i = 0; i < n; i++) {
		peer_swap(sock[i], &all, &one, sizeof(one));
		all += one;
	}
	while (wait(NULL) > 0)
		;
	printf("%.1f\n", (kib ? (double)all : us) / n);
}

/* --- one long message ------------------------------------------------------ */

static uint8_t byte_at(size_t i, uint8_t seed)
{
	return (uint8_t)(i * 37 + (i >> 12) + seed);
}

static void fill(uint8_t *buf, size_t n, uint8_t seed)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = byte_at(i, seed);
}

static void compare(const uint8_t *buf, size_t n, uint8_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (buf[i] != byte_at(i, seed))
			errx(1, "byte %zu is wrong", i);
}

static void message(size_t n, const char *dev, const char *gid)
{
	uint8_t *buf =
		mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool sends;
	struct address far;
	struct ibv_qp *qp;
	struct end e;
	double us;
	int pair[2];
	char go = 0;

	must(buf != MAP_FAILED, "memory");
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	sends = fork() != 0;
	fill(buf, n, sends);
	open_end(&e, dev, gid, buf, n);
	qp = meet(&e, pair[sends], n, &far);
	us = now_us();
	if (sends)
		post(qp, &e, IBV_WR_SEND, n, &far);
	completions(&e, 1);
	us = now_us() - us;
	if (!sends)
		compare(buf, n, true);
	else
		fill(buf, n, 7);
	peer_swap(pair[sends], &go, &go, 1);
	us -= now_us();
	if (sends) {
		post(qp, &e, IBV_WR_RDMA_WRITE, n, &far);
		completions(&e, 1);
	}
	us += now_us();
	peer_swap(pair[sends], &go, &go, 1);
	if (!sends) {
		compare(buf, n, 7);
		_exit(0);
	}
	wait(NULL);
	printf("%.3f\n", 2 * (double)n / us / 1e3);
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 0;

	if (!strcmp(what, "regions") && argc == 4 && n >= 10)
		regions(n, !strcmp(argv[3], "kib"));
	else if (!strcmp(what, "processes") && argc == 6 && n > 0)
		processes(n, !strcmp(argv[3], "kib"), argv[4], argv[5]);
	else if (!strcmp(what, "message") && argc == 5 && n > 0)
		message(n, argv[3], argv[4]);
	else
		errx(1, "usage: many regions N kib|us | processes N kib|us DEVICE GID |"
			" message N DEVICE GID");
	return 0;
}
