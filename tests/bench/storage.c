/* SPDX-License-Identifier: BSD-2-Clause */
/* storage.c - what a storage target does: for each request that comes as a SEND
 * of 64 bytes it WRITEs a block to the host and SENDs 16 bytes behind it.  With
 * `tcp` the same bytes go through a connection of 127.0.0.1.
 *
 *	storage verbs|tcp BLOCK DEPTH SECONDS [DEVICE]
 *
 * prints how many requests a second were answered.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_verbs.h"

enum { REQUEST = 64, REPLY = 16, GID = 1, SLOT = 64, DEPTH_MAX = 256 };

#define CHECK(x) ((x) ? (void)0 : failed(#x, __LINE__))

static size_t block;
static unsigned depth;
static double seconds;
static const char *device;

static _Noreturn void failed(const char *what, int line)
{
	fprintf(stderr, "storage.c:%d: %s\n", line, what);
	exit(1);
}

static double now(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1e9;
}

/* --- verbs --------------------------------------------------------------- */

struct card {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf; /* blocks, receives, and messages to send */
	struct card theirs;
};

static uint8_t *block_at(const struct end *e, unsigned slot)
{
	return e->buf + slot * block;
}

static uint8_t *recv_at(const struct end *e, unsigned slot)
{
	return e->buf + depth * block + slot * SLOT;
}

static uint8_t *send_at(const struct end *e, unsigned slot)
{
	return e->buf + depth * block + (depth + slot) * SLOT;
}

static void make(struct end *e)
{
	size_t bytes = depth * (block + 2 * SLOT);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4 * depth,
			 .max_recv_wr = 2 * depth,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	e->ctx = open_device(device);
	CHECK((e->pd = ibv_alloc_pd(e->ctx)));
	CHECK((e->cq = ibv_create_cq(e->ctx, (int)(8 * depth), NULL, NULL, 0)));
	e->buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(e->buf != MAP_FAILED);
	CHECK((e->mr = ibv_reg_mr(e->pd, e->buf, bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	init.send_cq = init.recv_cq = e->cq;
	CHECK((e->qp = ibv_create_qp(e->pd, &init)));
	to_init(e->qp, IBV_ACCESS_REMOTE_WRITE);
}

static void join(struct end *e, int fd)
{
	struct card mine = { .addr = (uintptr_t)e->buf,
			     .qpn = e->qp->qp_num,
			     .rkey = e->mr->rkey };
	struct far_end far = { .sgid_index = GID, .reads = 1, .timeout = 18 };

	CHECK(!ibv_query_gid(e->ctx, 1, GID, &mine.gid));
	CHECK(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(fd, &e->theirs, sizeof(e->theirs)) == sizeof(e->theirs));
	far.qpn = e->theirs.qpn;
	far.gid = e->theirs.gid;
	to_rtr(e->qp, &far);
	to_rts(e->qp, &far);
}

static void post_recv(struct end *e, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)recv_at(e, slot), SLOT, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->qp, &wr, &bad));
}

static void begin(struct end *e, int fd)
{
	char ready = 1;

	make(e);
	for (unsigned i = 0; i < depth; i++)
		post_recv(e, i);
	join(e, fd);
	CHECK(write(fd, &ready, 1) == 1 && read(fd, &ready, 1) == 1);
}

static void ask(struct end *e, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)send_at(e, slot), REQUEST, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = DEPTH_MAX,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	memcpy(send_at(e, slot), &slot, sizeof(slot));
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
}

static void answer(struct end *e, uint32_t slot)
{
	struct ibv_sge data = { (uintptr_t)block_at(e, slot), (uint32_t)block,
				e->mr->lkey };
	struct ibv_sge sge = { (uintptr_t)send_at(e, slot), REPLY, e->mr->lkey };
	struct ibv_send_wr reply = { .wr_id = DEPTH_MAX,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_send_wr write = { .next = &reply,
				     .sg_list = &data,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .wr.rdma = { e->theirs.addr + slot * block,
						  e->theirs.rkey } };

	memset(block_at(e, slot), (int)slot, 8);
	memcpy(send_at(e, slot), &slot, sizeof(slot));
	CHECK(!ibv_post_send(e->qp, &write, &bad));
}

static void verbs_target(int fd)
{
	struct end e = { 0 };
	struct ibv_wc wc[16];

	begin(&e, fd);
	for (;;) {
		int n = ibv_poll_cq(e.cq, 16, wc);

		for (int i = 0; i < n; i++) {
			uint32_t slot;

			if (wc[i].status != IBV_WC_SUCCESS)
				return; /* the host has ended */
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&slot, recv_at(&e, (unsigned)wc[i].wr_id), sizeof(slot));
			post_recv(&e, (unsigned)wc[i].wr_id);
			answer(&e, slot);
		}
	}
}

static double verbs_host(int fd)
{
	struct end e = { 0 };
	struct ibv_wc wc[16];
	unsigned long done = 0;
	double start, end;

	begin(&e, fd);
	start = now();
	for (unsigned i = 0; i < depth; i++)
		ask(&e, i);
	while ((end = now()) - start < seconds) {
		int n = ibv_poll_cq(e.cq, 16, wc);

		for (int i = 0; i < n; i++) {
			uint32_t slot;

			CHECK(wc[i].status == IBV_WC_SUCCESS);
			if (wc[i].opcode != IBV_WC_RECV)
				continue;
			memcpy(&slot, recv_at(&e, (unsigned)wc[i].wr_id), sizeof(slot));
			CHECK(slot < depth && block_at(&e, slot)[7] == (uint8_t)slot);
			block_at(&e, slot)[7] = 0xff;
			done++;
			post_recv(&e, (unsigned)wc[i].wr_id);
			ask(&e, slot);
		}
	}
	return (double)done / (end - start);
}

/* --- TCP ----------------------------------------------------------------- */

static bool get(int fd, void *to, size_t n)
{
	return recv(fd, to, n, MSG_WAITALL) == (ssize_t)n;
}

static void put(int fd, struct iovec *v, int n)
{
	while (n > 0) {
		ssize_t did = writev(fd, v, n);

		if (did <= 0)
			exit(0); /* the host has ended */
		for (; n > 0 && (size_t)did >= v->iov_len; v++, n--)
			did -= (ssize_t)v->iov_len;
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + did;
			v->iov_len -= (size_t)did;
		}
	}
}

static void tcp_target(int fd)
{
	uint8_t request[REQUEST], *data = calloc(1, block);

	while (data && get(fd, request, sizeof(request))) {
		struct iovec v[] = { { request, REPLY }, { data, block } };

		put(fd, v, 2);
	}
}

static double tcp_host(int fd)
{
	uint8_t request[REQUEST] = { 0 }, reply[REPLY], *data = calloc(1, block);
	unsigned long done = 0;
	double start = now(), end;

	for (unsigned i = 0; i < depth; i++)
		CHECK(write(fd, request, sizeof(request)) == REQUEST);
	while ((end = now()) - start < seconds) {
		CHECK(data && get(fd, reply, sizeof(reply)) && get(fd, data, block));
		done++;
		CHECK(write(fd, request, sizeof(request)) == REQUEST);
	}
	return (double)done / (end - start);
}

static void tcp_pair(int v[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	socklen_t len = sizeof(a);

	CHECK(!bind(l, (struct sockaddr *)&a, sizeof(a)) && !listen(l, 1));
	CHECK(!getsockname(l, (struct sockaddr *)&a, &len));
	v[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(v[0], (struct sockaddr *)&a, sizeof(a)));
	v[1] = accept(l, NULL, NULL);
	CHECK(v[1] >= 0);
	for (int i = 0; i < 2; i++)
		setsockopt(v[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	close(l);
}

int main(int argc, char **argv)
{
	bool verbs;
	double rate;
	pid_t pid;
	int v[2];

	CHECK(argc >= 5);
	verbs = !strcmp(argv[1], "verbs");
	block = strtoul(argv[2], NULL, 0);
	depth = (unsigned)strtoul(argv[3], NULL, 0);
	seconds = strtod(argv[4], NULL);
	device = argc > 5 ? argv[5] : NULL;
	CHECK(block >= 8 && depth > 0 && depth <= DEPTH_MAX);
	if (verbs)
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	else
		tcp_pair(v);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(v[0]);
		if (verbs)
			verbs_target(v[1]);
		else
			tcp_target(v[1]);
		_exit(0);
	}
	close(v[1]);
	rate = verbs ? verbs_host(v[0]) : tcp_host(v[0]);
	printf("%.0f\n", rate);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
