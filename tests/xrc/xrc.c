/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc - one of several processes that share an XRC domain: it does what the lines of its
 * standard input say, and answers each by one line, "ok ..." or "no ERRNO".
 *
 *   xrc DEVICE GID_INDEX
 *
 * Its memory is one region; offsets are into that.  Numbers of SRQs and QPs in a line are
 * this process's, in the order in which they were made; those of others are named by
 * their numbers on the wire.
 */
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MEM = 4 << 20, MANY = 64, DEPTH = 64, SINK = 128 };
static const uint32_t LAST = 1u << 31; /* set in the sender of a flood's last message */

static struct ibv_context *ctx, *before; /* the current context, and the one before it */
static const char *device;
static struct ibv_xrcd *xrcd;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *scq;
static uint8_t *mem;
static int gid_index;
static struct {
	struct ibv_srq *srq;
	struct ibv_cq *cq;
} srqs[MANY];
static struct ibv_qp *qps[MANY];
static unsigned nsrqs, nqps;

static void ok(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void ok(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fputs("ok ", stdout);
	vprintf(format, ap);
	putchar('\n');
	va_end(ap);
}

static void no(int error)
{
	printf("no %s\n", strerrorname_np(error));
}

static void answer(int error)
{
	if (error)
		no(error);
	else
		ok(".");
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- objects --------------------------------------------------------------------- */

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		err(1, "cannot open %s", name);
	pd = ibv_alloc_pd(ctx);
	mem = aligned_alloc(4096, MEM);
	mr = ibv_reg_mr(pd, mem, MEM,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	scq = ibv_create_cq(ctx, 1000, NULL, NULL, 0);
	if (!mr || !scq)
		err(1, "no memory region or CQ");
}

/* From now on everything is done with another context. */
static void open_again(void)
{
	before = ctx;
	ctx = NULL;
	open_device(device);
	ok(".");
}

static void domain(const char *file, const char *how)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.oflags = (strchr(how, 'c') ? O_CREAT : 0) |
			  (strchr(how, 'x') ? O_EXCL : 0),
	};
	int rc;

	a.fd = open(file, O_RDONLY);
	if (a.fd < 0) {
		no(errno);
		return;
	}
	xrcd = ibv_open_xrcd(ctx, &a);
	rc = errno;
	close(a.fd);
	answer(xrcd ? 0 : rc);
}

static void make_srq(unsigned cqe)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = { .max_wr = SINK, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
	};
	uint32_t num;

	a.cq = ibv_create_cq(ctx, (int)cqe, NULL, NULL, 0);
	srqs[nsrqs].cq = a.cq;
	srqs[nsrqs].srq = ibv_create_srq_ex(ctx, &a);
	if (!srqs[nsrqs].srq || ibv_get_srq_num(srqs[nsrqs].srq, &num)) {
		no(errno);
		return;
	}
	ok("%u %u %u %" PRIu64, nsrqs++, num, mr->rkey, (uint64_t)(uintptr_t)mem);
}

static void took(struct ibv_qp *qp)
{
	if (!qp) {
		no(errno);
		return;
	}
	qps[nqps] = qp;
	ok("%u %u", nqps++, qp->qp_num);
}

static void make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = type,
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD
						      : IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.xrcd = xrcd,
		.send_cq = scq,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
	};

	took(ibv_create_qp_ex(ctx, &a));
}

static void open_qp(uint32_t num)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = num,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_context = &qps,
	};

	took(ibv_open_qp(ctx, &a));
}

static void say_address(void)
{
	struct ibv_port_attr p;
	union ibv_gid gid;

	if (ibv_query_port(ctx, 1, &p) || ibv_query_gid(ctx, 1, gid_index, &gid)) {
		no(errno);
		return;
	}
	printf("ok %u ", p.lid);
	for (int i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	putchar('\n');
}

/* rnr_retry and timeout are the initiator's; psn both ways. */
static void connect_qp(struct ibv_qp *qp, uint32_t dest, unsigned lid, const char *gid,
		       unsigned timeout, unsigned retry, unsigned rnr_retry)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	int rc = ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				       IBV_QP_ACCESS_FLAGS);

	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = dest;
	a.rq_psn = 0xfffff0;
	a.max_dest_rd_atomic = 8;
	a.min_rnr_timer = 10;
	a.ah_attr.dlid = (uint16_t)lid;
	a.ah_attr.port_num = 1;
	a.ah_attr.is_global = lid == 0;
	a.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	a.ah_attr.grh.hop_limit = 64;
	for (int i = 0; i < 16; i++)
		sscanf(gid + 2 * i, "%2hhx", &a.ah_attr.grh.dgid.raw[i]);
	if (!rc)
		rc = ibv_modify_qp(qp, &a,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   (qp->qp_type == IBV_QPT_XRC_RECV
						    ? IBV_QP_MAX_DEST_RD_ATOMIC |
							      IBV_QP_MIN_RNR_TIMER
						    : 0));
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = 0xfffff0;
	a.timeout = (uint8_t)timeout;
	a.retry_cnt = (uint8_t)retry;
	a.rnr_retry = (uint8_t)rnr_retry;
	a.max_rd_atomic = 8;
	if (!rc)
		rc = ibv_modify_qp(qp, &a,
				   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					   (qp->qp_type == IBV_QPT_XRC_SEND
						    ? IBV_QP_RETRY_CNT |
							      IBV_QP_RNR_RETRY |
							      IBV_QP_MAX_QP_RD_ATOMIC
						    : 0));
	answer(rc);
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	answer(ibv_modify_qp(qp, &a, IBV_QP_STATE));
}

static void query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int rc = ibv_query_qp(qp, &a, IBV_QP_STATE, &init);

	if (rc)
		no(rc);
	else
		ok("%d %u %d", (int)a.qp_state, a.dest_qp_num, (int)init.qp_type);
}

/* Waits for the next asynchronous event about a QP, and prints its type and the QP. */
static void event(int ms)
{
	struct pollfd p = { ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event e;
	unsigned i = 0;

	if (poll(&p, 1, ms) != 1 || ibv_get_async_event(ctx, &e)) {
		ok("none");
		return;
	}
	while (i < nqps && qps[i] != e.element.qp)
		i++;
	ok("%d %u", (int)e.event_type, i);
	ibv_ack_async_event(&e);
}

/* --- requests ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum ibv_wr_opcode op;
} ops[] = {
	{ "send", IBV_WR_SEND },
	{ "sendimm", IBV_WR_SEND_WITH_IMM },
	{ "write", IBV_WR_RDMA_WRITE },
	{ "writeimm", IBV_WR_RDMA_WRITE_WITH_IMM },
	{ "read", IBV_WR_RDMA_READ },
	{ "add", IBV_WR_ATOMIC_FETCH_AND_ADD },
	{ "swap", IBV_WR_ATOMIC_CMP_AND_SWP },
};

static int post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, uint32_t srqn,
		size_t at, uint32_t len, uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)mem + at, len, mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = id,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(77),
		.qp_type.xrc.remote_srqn = srqn,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 9;
	} else {
		wr.wr.rdma.remote_addr = raddr;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

static int receive(unsigned i, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)mem + at, len, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_srq_recv(srqs[i].srq, &wr, &bad);
}

static int take(struct ibv_cq *cq, uint64_t ms, struct ibv_wc *wc)
{
	uint64_t until = now_ms() + ms;
	int n;

	do
		n = ibv_poll_cq(cq, 1, wc);
	while (n == 0 && now_ms() < until);
	return n;
}

static void say_completion(struct ibv_cq *cq, uint64_t ms)
{
	struct ibv_wc wc;

	if (take(cq, ms, &wc) != 1)
		ok("none");
	else
		ok("%d %" PRIu64 " %u %u %u", (int)wc.status, wc.wr_id, wc.byte_len,
		   wc.qp_num, wc.status == IBV_WC_SUCCESS ? wc.opcode : 0);
}

/* --- many messages -------------------------------------------------------------------
 */

static uint8_t byte_of(uint32_t who, uint32_t seq, uint32_t i)
{
	return (uint8_t)(who * 31 + seq * 7 + i + (i >> 8));
}

static void fill(uint8_t *at, uint32_t len, uint32_t who, uint32_t seq)
{
	for (uint32_t i = 8; i < len; i++)
		at[i] = byte_of(who, seq, i);
	memcpy(at, &who, 4);
	memcpy(at + 4, &seq, 4);
}

static bool a_line_waits(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&in, 1, 0) == 1;
}

/* Sends n numbered messages of len bytes, to each of the SRQs in turn; 0: until the next
 * line comes. The last message says that it is. */
static void flood(struct ibv_qp *qp, uint32_t who, uint32_t n, uint32_t len, char *list)
{
	uint32_t srqn[MANY], seq[MANY] = { 0 }, of = 0, out = 0, done = 0;
	bool endless = n == 0;
	struct ibv_wc wc;

	if (endless)
		n = UINT32_MAX;

	for (char *s = strtok(list, ","); s; s = strtok(NULL, ","))
		srqn[of++] = (uint32_t)atoll(s);
	while (done < n) {
		for (; out < n && out - done < DEPTH; out++) {
			size_t at = (size_t)(out % DEPTH) * len;

			if (endless && out % DEPTH == 0 && a_line_waits())
				n = out + 1;
			fill(mem + at, len, out + 1 == n ? who | LAST : who,
			     seq[out % of]++);
			if (post(qp, IBV_WR_SEND, out, srqn[out % of], at, len, 0, 0))
				errx(1, "flood: post");
		}
		if (take(scq, 30000, &wc) != 1) {
			ok("late %u", done);
			return;
		}
		if (wc.status || wc.wr_id != done) {
			ok("bad %d %u", (int)wc.status, done);
			return;
		}
		done++;
	}
	ok("%u", done);
}

static unsigned stock(unsigned i, uint32_t len)
{
	for (unsigned k = 0; k < SINK; k++)
		if (receive(i, k, (size_t)k * len, len))
			return k;
	return SINK;
}

/* Receives n messages, 0: until a last one; those of each sender must be complete and in
 * order. */
static void sink(unsigned i, uint32_t n, uint32_t len)
{
	uint32_t next[MANY] = { 0 };
	uint32_t got = 0, who = 0;
	struct ibv_wc wc;

	while (n ? got < n : !(who & LAST)) {
		uint32_t seq;
		uint8_t *at;

		if (take(srqs[i].cq, 30000, &wc) != 1 || wc.status ||
		    wc.byte_len != len) {
			ok("bad %u of %u, status %d", got, n, (int)wc.status);
			return;
		}
		at = mem + wc.wr_id * len;
		memcpy(&who, at, 4);
		memcpy(&seq, at + 4, 4);
		for (uint32_t k = 8; k < len; k++)
			if (at[k] != byte_of(who, seq, k)) {
				ok("data of %u %u at %u", who, seq, k);
				return;
			}
		if ((who & ~LAST) >= MANY || seq != next[who & ~LAST]++) {
			ok("order of %u: %u", who, seq);
			return;
		}
		receive(i, wc.wr_id, wc.wr_id * len, len);
		got++;
	}
	ok("%u", got);
}

static void sum(size_t at, size_t len)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ mem[at + i]) * 1099511628211u;
	ok("%" PRIx64, h);
}

/* --- lines -----------------------------------------------------------------------------
 */

static void do_send(unsigned q, const char *name, uint64_t v[])
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(name, ops[i].name)) {
			answer(post(qps[q], ops[i].op, v[0], (uint32_t)v[1], v[2],
				    (uint32_t)v[3], v[4], (uint32_t)v[5]));
			return;
		}
	no(EINVAL);
}

static void obey(char *line)
{
	char cmd[32] = "", a[256] = "", b[256] = "";
	uint64_t v[6] = { 0 };
	unsigned n = 0, x[6] = { 0 };

	sscanf(line, "%31s", cmd);
	sscanf(line, "%*s %u %u %u %u %u %u", &x[0], &x[1], &x[2], &x[3], &x[4], &x[5]);
	if (!strcmp(cmd, "domain") && sscanf(line, "%*s %255s %255s", a, b) == 2)
		domain(a, b);
	else if (!strcmp(cmd, "context"))
		open_again();
	else if (!strcmp(cmd, "uncontext"))
		answer(ibv_close_device(before));
	else if (!strcmp(cmd, "undomain"))
		answer(ibv_close_xrcd(xrcd));
	else if (!strcmp(cmd, "srq"))
		make_srq(x[0]);
	else if (!strcmp(cmd, "unsrq"))
		answer(ibv_destroy_srq(srqs[x[0]].srq));
	else if (!strcmp(cmd, "target"))
		make_qp(IBV_QPT_XRC_RECV);
	else if (!strcmp(cmd, "initiator"))
		make_qp(IBV_QPT_XRC_SEND);
	else if (!strcmp(cmd, "open"))
		open_qp(x[0]);
	else if (!strcmp(cmd, "unqp"))
		answer(ibv_destroy_qp(qps[x[0]]));
	else if (!strcmp(cmd, "address"))
		say_address();
	else if (!strcmp(cmd, "connect") &&
		 sscanf(line, "%*s %u %u %u %255s %u %u %u", &n, &x[1], &x[2], a, &x[3],
			&x[4], &x[5]) == 7)
		connect_qp(qps[n], x[1], x[2], a, x[3], x[4], x[5]);
	else if (!strcmp(cmd, "state"))
		to_state(qps[x[0]], (enum ibv_qp_state)x[1]);
	else if (!strcmp(cmd, "query"))
		query(qps[x[0]]);
	else if (!strcmp(cmd, "event"))
		event((int)x[0]);
	else if (!strcmp(cmd, "recv"))
		answer(receive(x[0], x[1], x[2], x[3]));
	else if (!strcmp(cmd, "post") &&
		 sscanf(line,
			"%*s %u %255s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			" %" SCNu64 " %" SCNu64,
			&n, a, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5]) == 8)
		do_send(n, a, v);
	else if (!strcmp(cmd, "sent"))
		say_completion(scq, x[0]);
	else if (!strcmp(cmd, "got"))
		say_completion(srqs[x[0]].cq, x[1]);
	else if (!strcmp(cmd, "flood") &&
		 sscanf(line, "%*s %u %u %u %u %255s", &n, &x[0], &x[1], &x[2], a) == 5)
		flood(qps[n], x[0], x[1], x[2], a);
	else if (!strcmp(cmd, "stock"))
		ok("%u", stock(x[0], x[1]));
	else if (!strcmp(cmd, "sink"))
		sink(x[0], x[1], x[2]);
	else if (!strcmp(cmd, "fill")) {
		fill(mem + x[0], x[1], x[2], 0);
		ok(".");
	} else if (!strcmp(cmd, "sum"))
		sum(x[0], x[1]);
	else if (strcmp(cmd, "enough") != 0) /* it ended a flood by being there */
		ok("what? %s", line);
}

int main(int argc, char **argv)
{
	char line[1024];

	if (argc != 3)
		errx(2, "usage: xrc DEVICE GID_INDEX");
	setvbuf(stdout, NULL, _IOLBF, 0);
	gid_index = atoi(argv[2]);
	device = argv[1];
	open_device(device);
	ok("ready");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}
