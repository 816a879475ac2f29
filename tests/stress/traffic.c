/* SPDX-License-Identifier: BSD-2-Clause */
/* traffic.c - the random operations: posted, completed, and their data checked at both
 * sides. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "pattern.h"
#include "peer.h"
#include "stress.h"

static const uint64_t ANSWER = 1ull << 63; /* in the wr_id of an answer */

/* --- posting ------------------------------------------------------------- */

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

/* --- completions, and what they bring ------------------------------------ */

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

/* Tells the peer by a bare SEND of imm 0x80000000 | slot that it may use the slot again.
 * The send queue has room for one answer of each slot, so the next one waits for the
 * completion of the last. */
static void answer(int q, int i)
{
	struct ibv_send_wr wr = {
		.wr_id = ANSWER | (uint64_t)q << 16 | (uint64_t)i,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(0x80000000u | (uint32_t)i),
	}, *bad;
	struct slot *t = &s.conn[q].slot[i];

	t->owes = t->answers;
	if (t->answers)
		return;
	t->answers = true;
	if (ibv_post_send(s.conn[q].qp, &wr, &bad))
		err(1, "answer");
}

static void answered(int q, int i)
{
	struct slot *t = &s.conn[q].slot[i];

	t->answers = false;
	if (t->owes)
		answer(q, i);
}

/* The peer's WRITE with imm is checked and answered. */
static void got_write(int q, uint32_t i)
{
	struct slot *t = &s.conn[q].slot[i % SLOTS];
	const uint8_t *arena = s.arena + t->arena, *tail = arena + t->room - HEAD;
	uint64_t seed, len, at;

	memcpy(&seed, tail, 8);
	memcpy(&len, tail + 8, 8);
	at = len <= t->room - HEAD ? pattern_check(arena, len, seed) : 0;
	if (at != len)
		wrong("WRITE with imm", q, seed, len, at);
	answer(q, (int)(i % SLOTS));
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
		else if (wc[k].wr_id & ANSWER)
			answered(q, i);
		else
			finished(q, i);
		if (wc[k].opcode & IBV_WC_RECV) {
			s.received++;
			post_recv(q, i);
		}
	}
	return n > 0;
}

/* --- for as long as it is to take ---------------------------------------- */

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static bool all_quiet(void)
{
	for (int q = 0; q < opt.qps; q++)
		for (int i = 0; i < SLOTS; i++)
			if (s.conn[q].slot[i].busy)
				return false;
	return true;
}

void traffic(void)
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
void answer_until_both_are_done(void)
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
void compare_sums(void)
{
	uint64_t mine = s.sum_added, theirs, sum;

	peer_swap(s.sock, &mine, &theirs, sizeof(mine));
	memcpy(&sum, s.arena, 8);
	if (sum != theirs)
		wrong("shared counter", 0, theirs, 8, sum);
}
