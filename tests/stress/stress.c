/* SPDX-License-Identifier: BSD-2-Clause */
/* stress.c - random verbs traffic between two processes, all of it verified.
 *
 * Both sides do the same at once.  Each QP keeps up to SLOTS operations under
 * way, each in a slot of its own: a piece of local memory, a piece to read
 * back into, and a piece of the peer's arena.  An operation is
 *
 *   WRITE then READ    what was read must be what was written
 *   WRITE with imm     the peer checks the slot's arena when the imm arrives
 *   SEND, with imm     the peer checks the bytes against the seed they carry
 *   FETCH_ADD          of 1 on a word of the QP's own: the old value is known;
 *                      and on one shared by all QPs: the sum is checked at the end
 *   CMP_SWAP           on a word of the QP's own, half of them must fail
 *
 * Lengths go from 0 to --max, evenly in their logarithm; SGE lists have 1 to 4
 * entries cut at random.  The exit status is 0 only if all was right.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "pattern.h"
#include "peer.h"

enum { QPS_MAX = 64, SLOTS = 4, RECVS = 16, SGES = 4, HEAD = 16 };

static struct options {
	const char *dev, *port, *host;
	int gid, qps, mtu;
	double seconds;
	uint64_t seed, max, max_send, huge;
} opt = {
	.port = "18600",
	.gid = -1,
	.qps = 4,
	.mtu = 0,
	.seconds = 10,
	.seed = 1,
	.max = 16 << 20,
	.max_send = 256 << 10,
};

enum kind {
	OP_WRITE,
	OP_WRITE_IMM,
	OP_SEND,
	OP_SEND_IMM,
	OP_ADD,
	OP_ADD_ALL,
	OP_SWAP,
	OP_KINDS
};

struct slot {
	enum kind kind;
	bool busy;
	unsigned waits; /* completions still to come */
	uint64_t seed, len;
	uint8_t *out, *back;  /* local memory, `room` bytes each */
	uint64_t room, arena; /* size of each, and its place in an arena */
};

struct conn {
	struct ibv_qp *qp;
	struct slot slot[SLOTS];
	uint64_t adds, swap_value; /* expected values of its own words */
	uint8_t *recv;		   /* RECVS buffers of max_send */
};

/* exchanged at the start */
struct hello {
	uint32_t qpn[QPS_MAX], psn, rkey;
	uint64_t arena;
	union ibv_gid gid;
	int qps;
	uint64_t max, max_send;
};

/* The arena begins with words: the shared sum, then two for each QP. */
enum { WORD_SUM, WORD_QP, WORDS = 1 + 2 * QPS_MAX };

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr_arena, *mr_local;
	uint8_t *arena, *local;
	uint64_t arena_len, local_len;
	struct hello mine, theirs;
	struct conn conn[QPS_MAX];
	uint64_t rng, ops[OP_KINDS], bytes, received, sum_added;
	int sock;
	int errors;
} s;

static uint64_t rnd(uint64_t below)
{
	s.rng++;
	return mix(s.rng) % below;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void wrong(const char *what, int q, uint64_t seed, uint64_t len, uint64_t at)
{
	fprintf(stderr, "WRONG %s: qp %d seed %#llx length %llu, first at %llu\n", what,
		q, (unsigned long long)seed, (unsigned long long)len,
		(unsigned long long)at);
	s.errors++;
}

/* --- setting up ---------------------------------------------------------- */

static void *memory(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap of %llu bytes", (unsigned long long)len);
	return p;
}

static uint64_t slot_room(int slot) /* one slot in SLOTS takes the largest messages */
{
	return slot == 0 || opt.max < (256 << 10) ? opt.max : 256 << 10;
}

static void lay_out(void)
{
	uint64_t arena = WORDS * 8, local = 64;

	for (int q = 0; q < opt.qps; q++) {
		for (int i = 0; i < SLOTS; i++) {
			struct slot *slot = &s.conn[q].slot[i];

			slot->room = slot_room(i);
			slot->arena = arena;
			arena += slot->room;
			slot->out = (uint8_t *)(uintptr_t)local;
			slot->back = slot->out + slot->room;
			local += 2 * slot->room + 64;
			local &= ~63ull;
		}
		s.conn[q].recv = (uint8_t *)(uintptr_t)local;
		local += RECVS * opt.max_send;
	}
	s.arena_len = arena + 64;
	s.local_len = local + 64;
	s.arena = memory(s.arena_len);
	s.local = memory(s.local_len);
	for (int q = 0; q < opt.qps; q++) {
		for (int i = 0; i < SLOTS; i++) {
			s.conn[q].slot[i].out += (uintptr_t)s.local;
			s.conn[q].slot[i].back += (uintptr_t)s.local;
		}
		s.conn[q].recv += (uintptr_t)s.local;
	}
}

static void open_device(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list || n == 0)
		errx(1, "no RDMA device");
	for (int i = 0; i < n && !s.ctx; i++)
		if (!opt.dev || !strcmp(ibv_get_device_name(list[i]), opt.dev))
			s.ctx = ibv_open_device(list[i]);
	if (!s.ctx)
		errx(1, "cannot open %s", opt.dev ? opt.dev : "the first device");
	ibv_free_device_list(list);
	if (opt.gid < 0)
		opt.gid = 1;
	if (ibv_query_gid(s.ctx, 1, opt.gid, &s.mine.gid))
		err(1, "GID %d", opt.gid);
}

static void make_objects(void)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	s.pd = ibv_alloc_pd(s.ctx);
	s.mr_arena = s.pd ? ibv_reg_mr(s.pd, s.arena, s.arena_len, all) : NULL;
	s.mr_local = s.pd ? ibv_reg_mr(s.pd, s.local, s.local_len, IBV_ACCESS_LOCAL_WRITE)
			  : NULL;
	if (!s.mr_arena || !s.mr_local)
		err(1, "memory regions");
	s.cq = ibv_create_cq(s.ctx, opt.qps * (RECVS + 4 * SLOTS), NULL, NULL, 0);
	if (!s.cq)
		err(1, "completion queue");
	for (int q = 0; q < opt.qps; q++) {
		struct ibv_qp_init_attr init = {
			.send_cq = s.cq,
			.recv_cq = s.cq,
			.qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 8 * SLOTS,
				 .max_recv_wr = RECVS,
				 .max_send_sge = SGES,
				 .max_recv_sge = 1 },
		};
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_INIT,
			.port_num = 1,
			.qp_access_flags = all,
		};

		s.conn[q].qp = ibv_create_qp(s.pd, &init);
		if (!s.conn[q].qp ||
		    ibv_modify_qp(s.conn[q].qp, &attr,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					  IBV_QP_ACCESS_FLAGS))
			err(1, "queue pair");
		s.mine.qpn[q] = s.conn[q].qp->qp_num;
	}
	s.mine.psn = (uint32_t)rnd(1 << 24);
	s.mine.rkey = s.mr_arena->rkey;
	s.mine.arena = (uintptr_t)s.arena;
	s.mine.qps = opt.qps;
	s.mine.max = opt.max;
	s.mine.max_send = opt.max_send;
}

static void post_recv(int q, int i)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)s.conn[q].recv + (uint64_t)i * opt.max_send,
		.length = (uint32_t)opt.max_send,
		.lkey = s.mr_local->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = 1u << 31 | (unsigned)q << 16 | (unsigned)i,
		.sg_list = &sge, .num_sge = 1,
	}, *bad;

	if (ibv_post_recv(s.conn[q].qp, &wr, &bad))
		err(1, "post_recv");
}

static void join(int q, enum ibv_mtu mtu)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = s.theirs.qpn[q],
		.rq_psn = s.theirs.psn, .max_dest_rd_atomic = 16, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = {
			.dgid = s.theirs.gid, .sgid_index = (uint8_t)opt.gid, .hop_limit = 64 } },
	}, rts = {
		/* 2 s of silence: the peer shares its processors with others */
		.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7,
		.sq_psn = s.mine.psn, .max_rd_atomic = 16,
	};

	if (ibv_modify_qp(s.conn[q].qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		err(1, "RTR");
	for (int i = 0; i < RECVS; i++)
		post_recv(q, i);
	if (ibv_modify_qp(s.conn[q].qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "RTS");
}

static void join_all(void)
{
	struct ibv_port_attr port;
	char go = 'g';

	if (ibv_query_port(s.ctx, 1, &port))
		err(1, "port");
	peer_swap(s.sock, &s.mine, &s.theirs, sizeof(s.mine));
	if (s.mine.qps != s.theirs.qps || s.mine.max != s.theirs.max ||
	    s.mine.max_send != s.theirs.max_send)
		errx(1, "give both sides the same --qps, --max and --max-send");
	for (int q = 0; q < opt.qps; q++)
		join(q, opt.mtu ? (enum ibv_mtu)opt.mtu : port.active_mtu);
	peer_swap(s.sock, &go, &go, 1);
}

/* --- operations ---------------------------------------------------------- */

static unsigned cut(struct ibv_sge *sge, const uint8_t *at, uint64_t len)
{
	unsigned n = 0, want = 1 + (unsigned)rnd(SGES);

	while (n + 1 < want && len > 1) {
		uint64_t piece = rnd(len);

		sge[n++] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)piece,
					     s.mr_local->lkey };
		at += piece;
		len -= piece;
	}
	sge[n++] = (struct ibv_sge){ (uintptr_t)at, (uint32_t)len, s.mr_local->lkey };
	return n;
}

static void post(int q, int i, struct ibv_send_wr *wr, uint8_t *at, uint64_t len,
		 int flags)
{
	struct ibv_sge sge[SGES];
	struct ibv_send_wr *bad;

	wr->wr_id = (unsigned)q << 16 | (unsigned)i;
	wr->sg_list = sge;
	wr->num_sge = (int)cut(sge, at, len);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		sge[0] = (struct ibv_sge){ (uintptr_t)at, 8, s.mr_local->lkey };
		wr->num_sge = 1;
	}
	wr->send_flags = (unsigned)flags;
	if (ibv_post_send(s.conn[q].qp, wr, &bad))
		err(1, "post_send");
}

static uint64_t random_len(uint64_t max)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(max | 1);
	uint64_t len = rnd(2ull << rnd(bits + 1)) >> 1;

	return len < max ? len : max;
}

static void post_send_op(int q, int i, struct slot *t)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	t->len = HEAD + random_len(opt.max_send - HEAD);
	if (t->len > t->room)
		t->len = t->room;
	memcpy(t->out, &t->seed, 8);
	memcpy(t->out + 8, &t->len, 8);
	pattern_fill(t->out + HEAD, t->len - HEAD, t->seed);
	if (t->kind == OP_SEND_IMM) {
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htonl((uint32_t)t->seed);
	}
	post(q, i, &wr, t->out, t->len,
	     IBV_SEND_SIGNALED | (rnd(2) ? IBV_SEND_SOLICITED : 0));
	t->waits = 1;
}

/* WRITE with imm: the peer learns seed and length from the arena's last 16
 * bytes of the slot, written first by a plain WRITE. */
static void post_write_op(int q, int i, struct slot *t)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	uint64_t room = t->room - HEAD;

	t->len = random_len(room);
	wr.wr.rdma.rkey = s.theirs.rkey;
	if (t->kind == OP_WRITE_IMM) {
		memcpy(t->out + room, &t->seed, 8);
		memcpy(t->out + room + 8, &t->len, 8);
		wr.wr.rdma.remote_addr = s.theirs.arena + t->arena + room;
		post(q, i, &wr, t->out + room, HEAD, 0);
	}
	wr.wr.rdma.remote_addr = s.theirs.arena + t->arena;
	pattern_fill(t->out, t->len, t->seed);
	if (t->kind == OP_WRITE_IMM) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl((uint32_t)i);
		post(q, i, &wr, t->out, t->len, IBV_SEND_SIGNALED);
		t->waits = 2; /* its completion, and the peer's word */
		return;
	}
	post(q, i, &wr, t->out, t->len, 0);
	wr.opcode = IBV_WR_RDMA_READ;
	post(q, i, &wr, t->back, t->len, IBV_SEND_SIGNALED);
	t->waits = 1;
}

static void post_atomic_op(int q, int i, struct slot *t)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD };
	uint64_t word = WORD_SUM;

	wr.wr.atomic.rkey = s.theirs.rkey;
	wr.wr.atomic.compare_add = 1;
	if (t->kind == OP_ADD)
		word = WORD_QP + 2 * (uint64_t)q;
	if (t->kind == OP_SWAP) {
		word = WORD_QP + 2 * (uint64_t)q + 1;
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic.compare_add = s.conn[q].swap_value + (t->seed & 1);
		wr.wr.atomic.swap = t->seed;
	}
	wr.wr.atomic.remote_addr = s.theirs.arena + 8 * word;
	t->len = s.conn[q].swap_value; /* expected old value */
	if (t->kind == OP_ADD)
		t->len = s.conn[q].adds++;
	if (t->kind == OP_SWAP && !(t->seed & 1))
		s.conn[q].swap_value = t->seed;
	if (t->kind == OP_ADD_ALL)
		s.sum_added++;
	post(q, i, &wr, t->back, 8, IBV_SEND_SIGNALED);
	t->waits = 1;
}

static void start(int q, int i)
{
	struct slot *t = &s.conn[q].slot[i];

	t->kind = (enum kind)rnd(OP_KINDS);
	t->seed = mix(s.rng);
	t->busy = true;
	switch (t->kind) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		post_write_op(q, i, t);
		break;
	case OP_SEND:
	case OP_SEND_IMM:
		post_send_op(q, i, t);
		break;
	case OP_ADD:
	case OP_ADD_ALL:
	case OP_SWAP:
		post_atomic_op(q, i, t);
		break;
	case OP_KINDS:
		break;
	}
	s.ops[t->kind]++;
	s.bytes += t->kind < OP_ADD ? t->len : 8;
}

static void one_wait_less(struct slot *t)
{
	if (--t->waits == 0)
		t->busy = false;
}

static void finished(int q, int i)
{
	struct slot *t = &s.conn[q].slot[i];
	uint64_t old;

	if (t->kind == OP_WRITE) {
		uint64_t at = pattern_check(t->back, t->len, t->seed);

		if (at != t->len)
			wrong("READ after WRITE", q, t->seed, t->len, at);
	}
	if (t->kind == OP_ADD || t->kind == OP_SWAP) {
		memcpy(&old, t->back, 8);
		if (old != t->len)
			wrong(t->kind == OP_ADD ? "FETCH_ADD" : "CMP_SWAP", q, t->len, 8,
			      old);
	}
	one_wait_less(t);
}

/* The peer's WRITE with imm is checked and answered with a bare SEND of imm
 * 0x80000000 | slot, so that it may use the slot again. */
static void got_write(int q, uint32_t i)
{
	struct ibv_send_wr wr = {
		.wr_id = UINT64_MAX, .opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl(0x80000000u | i),
	}, *bad;
	struct slot *t = &s.conn[q].slot[i % SLOTS];
	const uint8_t *arena = s.arena + t->arena, *tail = arena + t->room - HEAD;
	uint64_t seed, len, at;

	memcpy(&seed, tail, 8);
	memcpy(&len, tail + 8, 8);
	at = len <= t->room - HEAD ? pattern_check(arena, len, seed) : 0;
	if (at != len)
		wrong("WRITE with imm", q, seed, len, at);
	if (ibv_post_send(s.conn[q].qp, &wr, &bad))
		err(1, "answer");
}

static void got_send(int q, int i, const struct ibv_wc *wc)
{
	const uint8_t *buf = s.conn[q].recv + (uint64_t)i * opt.max_send;
	uint64_t seed, len, at;

	if (wc->byte_len == 0 && wc->wc_flags & IBV_WC_WITH_IMM) {
		one_wait_less(&s.conn[q].slot[ntohl(wc->imm_data) % SLOTS]);
		return;
	}
	memcpy(&seed, buf, 8);
	memcpy(&len, buf + 8, 8);
	at = len == wc->byte_len ? pattern_check(buf + HEAD, len - HEAD, seed) : 0;
	if (at != len - HEAD)
		wrong("SEND", q, seed, len, at);
	if (wc->wc_flags & IBV_WC_WITH_IMM && ntohl(wc->imm_data) != (uint32_t)seed)
		wrong("immediate", q, seed, len, ntohl(wc->imm_data));
}

static bool drain_cq(void)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(s.cq, 32, wc);

	if (n < 0)
		err(1, "poll");
	for (int k = 0; k < n; k++) {
		int q = (int)(wc[k].wr_id >> 16 & 0x7fff),
		    i = (int)(wc[k].wr_id & 0xffff);

		if (wc[k].status != IBV_WC_SUCCESS)
			errx(1, "%s (vendor %u) on qp %d",
			     ibv_wc_status_str(wc[k].status), wc[k].vendor_err, q);
		if (wc[k].opcode == IBV_WC_RECV_RDMA_WITH_IMM)
			got_write(q, ntohl(wc[k].imm_data));
		else if (wc[k].opcode == IBV_WC_RECV)
			got_send(q, i, &wc[k]);
		else if (wc[k].wr_id != UINT64_MAX)
			finished(q, i);
		if (wc[k].opcode & IBV_WC_RECV) {
			s.received++;
			post_recv(q, i);
		}
	}
	return n > 0;
}

static bool all_quiet(void)
{
	for (int q = 0; q < opt.qps; q++)
		for (int i = 0; i < SLOTS; i++)
			if (s.conn[q].slot[i].busy)
				return false;
	return true;
}

static void traffic(void)
{
	double end = now_s() + opt.seconds, give_up = end + 60, report = now_s() + 10;

	while (now_s() < end && !s.errors) {
		for (int q = 0; q < opt.qps; q++)
			for (int i = 0; i < SLOTS; i++)
				if (!s.conn[q].slot[i].busy)
					start(q, i);
		drain_cq();
		if (now_s() > report) {
			printf("%llu MiB so far\n", (unsigned long long)(s.bytes >> 20));
			fflush(stdout);
			report += 10;
		}
	}
	while (!all_quiet() && !s.errors) {
		drain_cq();
		if (now_s() > give_up)
			errx(1, "operations hang");
	}
}

/* The peer needs this side's answers until it is done, too. */
static void answer_until_both_are_done(void)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	char done = 'd';
	ssize_t n;

	if (send(s.sock, &done, 1, MSG_NOSIGNAL) != 1)
		err(1, "control connection");
	while ((n = recv(s.sock, &done, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
		drain_cq();
		nanosleep(&pause, NULL);
	}
	if (n != 1)
		errx(1, "the peer has gone");
}

/* From here on the peer may end at any time. */
static void compare_sums(void)
{
	uint64_t mine = s.sum_added, theirs, sum;

	peer_swap(s.sock, &mine, &theirs, sizeof(mine));
	memcpy(&sum, s.arena, 8);
	if (sum != theirs)
		wrong("shared counter", 0, theirs, 8, sum);
}

/* --- one message of almost 2 GiB ----------------------------------------- */

static void huge(void)
{
	const uint64_t len = opt.huge;
	uint8_t *out = memory(len), *in = memory(len);
	const int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *mo = ibv_reg_mr(s.pd, out, len, all),
		      *mi = ibv_reg_mr(s.pd, in, len, all);
	struct {
		uint64_t addr;
		uint32_t rkey, pad;
	} mine, theirs;
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	char go = 'h';

	if (!mo || !mi)
		err(1, "huge regions");
	mine.addr = (uintptr_t)in;
	mine.rkey = mi->rkey;
	mine.pad = 0;
	peer_swap(s.sock, &mine, &theirs, sizeof(mine));
	for (int k = 0; k < 2; k++) {
		struct ibv_sge sge = { (uintptr_t)out, (uint32_t)len, mo->lkey };
		struct ibv_send_wr wr = {
			.wr_id = 0, .opcode = ops[k], .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { theirs.addr, theirs.rkey },
		}, *bad;
		struct ibv_wc wc;
		int n;

		if (k == 0)
			pattern_fill(out, len, 42);
		else
			memset(out, 0, len);
		if (ibv_post_send(s.conn[0].qp, &wr, &bad))
			err(1, "huge post_send");
		while ((n = ibv_poll_cq(s.cq, 1, &wc)) == 0)
			;
		if (n < 0 || wc.status)
			errx(1, "huge: %s",
			     n < 0 ? "poll" : ibv_wc_status_str(wc.status));
		peer_swap(s.sock, &go, &go, 1);
		if (pattern_check(k ? out : in, len, 42) != len)
			wrong(k ? "huge READ" : "huge WRITE", 0, 42, len, 0);
	}
	ibv_dereg_mr(mo);
	ibv_dereg_mr(mi);
	munmap(out, len);
	munmap(in, len);
	s.bytes += 2 * len;
}

/* --- the command --------------------------------------------------------- */

/* clang-format off */
static const struct argp_option options[] = {
	{ "device",   'd', "NAME", 0, "device (default: the first)", 0 },
	{ "gid",      'g', "INDEX", 0, "GID index (default 1)", 0 },
	{ "port",     'p', "PORT", 0, "TCP port of the control connection (18600)", 0 },
	{ "qps",      'q', "N", 0, "queue pairs (4)", 0 },
	{ "time",     't', "SECONDS", 0, "how long (10)", 0 },
	{ "seed",     's', "N", 0, "of the random choices (1)", 0 },
	{ "max",      'm', "BYTES", 0, "longest WRITE and READ (16 MiB)", 0 },
	{ "max-send", 'M', "BYTES", 0, "longest SEND (256 KiB)", 0 },
	{ "mtu",      'u', "1..5", 0, "path MTU as enum ibv_mtu (the port's)", 0 },
	{ "huge",     'H', "BYTES", 0, "first a WRITE and a READ of so many bytes", 0 },
	{ 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'd':
		opt.dev = arg;
		break;
	case 'g':
		opt.gid = atoi(arg);
		break;
	case 'p':
		opt.port = arg;
		break;
	case 'q':
		opt.qps = atoi(arg);
		break;
	case 't':
		opt.seconds = atof(arg);
		break;
	case 's':
		opt.seed = strtoull(arg, NULL, 0);
		break;
	case 'm':
		opt.max = strtoull(arg, NULL, 0);
		break;
	case 'M':
		opt.max_send = strtoull(arg, NULL, 0);
		break;
	case 'u':
		opt.mtu = atoi(arg);
		break;
	case 'H':
		opt.huge = strtoull(arg, NULL, 0);
		break;
	case ARGP_KEY_ARG:
		opt.host = arg;
		break;
	case ARGP_KEY_END:
		if (opt.qps < 1 || opt.qps > QPS_MAX || opt.max < 64 || opt.max_send < 64)
			argp_error(state, "--qps is 1 to %d, lengths at least 64",
				   QPS_MAX);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[SERVER]",
		.doc = "Random verbs traffic between two processes, all of it verified.",
	};
	/* clang-format off */
	static const char *const names[OP_KINDS] = {
		"write+read", "write_imm", "send", "send_imm", "fetch_add",
		"shared fetch_add", "cmp_swap",
	};
	/* clang-format on */

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	s.rng = mix(opt.seed * 2 + !opt.host);
	lay_out();
	open_device();
	make_objects();
	s.sock = peer_meet(opt.host, opt.port);
	join_all();
	if (opt.huge)
		huge();
	traffic();
	if (!s.errors) {
		answer_until_both_are_done();
		compare_sums();
	}
	for (int k = 0; k < OP_KINDS; k++)
		printf("%s %llu  ", names[k], (unsigned long long)s.ops[k]);
	printf("\n%llu MiB sent, %llu received, %d wrong\n",
	       (unsigned long long)(s.bytes >> 20), (unsigned long long)s.received,
	       s.errors);
	return s.errors != 0;
}
