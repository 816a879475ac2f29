/* SPDX-License-Identifier: BSD-2-Clause */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "pattern.h"

void failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "FAILED %s:%d: %s (errno %m)\n", file, line, what);
	exit(3);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void sleep_ms(unsigned ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&ts, &ts))
		;
}

/* Asks the kernel: the library that `urnic run' preloads makes up such files. */
static bool is_missing(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
}

/* The conditions of the tests: 64 KiB of lockable memory, no capability but those that
 * whoever runs them asks for, no RDMA device of the kernel. */
static void be_unprivileged(void)
{
	struct rlimit lim;
	unsigned long long caps = ~0ull;
	char line[128];
	FILE *f = fopen("/proc/thread-self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "CapEff: %llx", &caps);
	fclose(f);
	CHECK(caps == 0 || getenv("URNIC_TEST_CAPS"));
	CHECK(!getrlimit(RLIMIT_MEMLOCK, &lim) && lim.rlim_max <= 65536);
	CHECK(is_missing("/dev/infiniband") && is_missing("/sys/class/infiniband"));
}

static void open_device(struct rig *r)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	CHECK(list && n > 0);
	for (int i = 0; i < n && !r->ctx; i++)
		if (!opt.dev || !strcmp(ibv_get_device_name(list[i]), opt.dev))
			r->ctx = ibv_open_device(list[i]);
	CHECK(r->ctx);
	ibv_free_device_list(list);
}

/* The descriptors of shared memory: another process needs one to map the memory. */
static struct {
	uint8_t *at;
	int fd;
} files[8];

static void keep(uint8_t *at, int fd)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!files[i].at) {
			files[i].at = at;
			files[i].fd = fd;
			return;
		}
	failed("too many regions", __FILE__, __LINE__);
}

uint8_t *rig_memory(size_t bytes)
{
	int fd = opt.shared ? memfd_create("region", MFD_CLOEXEC) : -1;
	uint8_t *at;

	CHECK(!opt.shared || (fd >= 0 && !ftruncate(fd, (off_t)bytes)));
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		  opt.shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	CHECK(at != MAP_FAILED);
	if (opt.shared)
		keep(at, fd);
	return at;
}

void rig_memory_free(uint8_t *at, size_t bytes)
{
	CHECK(!munmap(at, bytes));
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].at == at) {
			files[i].at = NULL;
			CHECK(!close(files[i].fd));
			return;
		}
}

void rig_open(struct rig *r)
{
	if (!opt.privileged)
		be_unprivileged();
	memset(r, 0, sizeof(*r));
	open_device(r);
	CHECK(!ibv_query_gid(r->ctx, 1, opt.gid, &r->gid));
	r->pd = ibv_alloc_pd(r->ctx);
	r->channel = ibv_create_comp_channel(r->ctx);
	r->buf = rig_memory(RIG_BUF);
	CHECK(r->pd && r->channel);
	r->cq = ibv_create_cq(r->ctx, 4 * RIG_DEPTH, NULL, r->channel, 0);
	r->mr = ibv_reg_mr(r->pd, r->buf, RIG_BUF, RIG_ACCESS);
	CHECK(r->cq && r->mr);
}

void rig_close(struct rig *r)
{
	CHECK(!ibv_dereg_mr(r->mr));
	CHECK(!ibv_destroy_cq(r->cq));
	CHECK(!ibv_destroy_comp_channel(r->channel));
	CHECK(!ibv_dealloc_pd(r->pd));
	CHECK(!ibv_close_device(r->ctx));
	rig_memory_free(r->buf, RIG_BUF);
}

struct ibv_qp *rig_qp(struct rig *r)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = RIG_DEPTH,
			 .max_recv_wr = RIG_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = RIG_ACCESS,
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	return qp;
}

struct ibv_qp *rig_ud(struct rig *r, uint32_t recvs, uint32_t qkey)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = RIG_DEPTH,
			 .max_recv_wr = recvs,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = qkey,
	};
	struct ibv_qp *qp = ibv_create_qp(r->pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

int rig_rtr(struct ibv_qp *qp, uint32_t dest_qpn, uint32_t psn, const union ibv_gid *dest)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *dest,
				      .sgid_index = (uint8_t)opt.gid,
				      .hop_limit = 64 } },
	};

	return ibv_modify_qp(qp, &rtr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void rig_join(struct rig *r, struct ibv_qp *qp, uint32_t dest_qpn, uint32_t psn,
	      const union ibv_gid *dest)
{
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)opt.timeout,
		.retry_cnt = (uint8_t)opt.retries,
		.rnr_retry = 7,
		.sq_psn = psn,
		.max_rd_atomic = 4,
	};
	int rc = rig_rtr(qp, dest_qpn, psn, dest);

	(void)r;
	if (rc) {
		say("RTR: %s", strerror(rc));
		exit(4);
	}
	CHECK(!ibv_modify_qp(qp, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC));
}

void rig_post(struct rig *r, struct ibv_qp *qp, enum ibv_wr_opcode op, size_t at,
	      size_t len, uint64_t remote, uint32_t rkey, uint64_t add)
{
	struct ibv_sge sge = {
		(uintptr_t)r->buf + at,
		(uint32_t)len,
		r->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = at, .opcode = op, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = add;
		wr.wr.atomic.swap = add + 1;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void await_event(struct rig *r)
{
	struct pollfd p = { .fd = r->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *arg;

	if (poll(&p, 1, 40000) < 1)
		return;
	CHECK(!ibv_get_cq_event(r->channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
}

struct ibv_wc rig_wait(struct rig *r)
{
	double end = now_s() + 40;
	struct ibv_wc wc;
	int n;

	while (now_s() < end) {
		n = ibv_poll_cq(r->cq, 1, &wc);
		if (!n && opt.events) {
			CHECK(!ibv_req_notify_cq(r->cq, 0));
			n = ibv_poll_cq(r->cq, 1, &wc);
			if (!n)
				await_event(r);
		}
		CHECK(n >= 0);
		if (n)
			return wc;
	}
	failed("no completion for 40 s", __FILE__, __LINE__);
}

void loop_open(struct loop *l)
{
	rig_open(&l->rig);
	l->a = rig_qp(&l->rig);
	l->b = rig_qp(&l->rig);
	rig_join(&l->rig, l->a, l->b->qp_num, 7, &l->rig.gid);
	rig_join(&l->rig, l->b, l->a->qp_num, 7, &l->rig.gid);
}

void loop_close(struct loop *l)
{
	CHECK(!ibv_destroy_qp(l->a) && !ibv_destroy_qp(l->b));
	rig_close(&l->rig);
}

void loop_traffic(struct loop *l, uint64_t seed)
{
	enum { OUT = 64, IN = 64 << 10, BACK = 128 << 10, LEN = 20000 };
	struct rig *r = &l->rig;
	uint64_t there = (uintptr_t)r->buf, old, sum;

	memcpy(&sum, r->buf, 8);
	pattern_fill(r->buf + OUT, LEN, seed);
	rig_post(r, l->a, IBV_WR_RDMA_WRITE, OUT, LEN, there + IN, r->mr->rkey, 0);
	CHECK(rig_wait(r).status == IBV_WC_SUCCESS);
	CHECK(pattern_check(r->buf + IN, LEN, seed) == LEN);
	rig_post(r, l->b, IBV_WR_RDMA_READ, BACK, LEN, there + IN, r->mr->rkey, 0);
	CHECK(rig_wait(r).status == IBV_WC_SUCCESS);
	CHECK(pattern_check(r->buf + BACK, LEN, seed) == LEN);
	rig_post(r, l->a, IBV_WR_ATOMIC_FETCH_AND_ADD, BACK, 8, there, r->mr->rkey, 1);
	CHECK(rig_wait(r).status == IBV_WC_SUCCESS);
	memcpy(&old, r->buf + BACK, 8);
	CHECK(old == sum);
	memcpy(&old, r->buf, 8);
	CHECK(old == sum + 1);
}
