/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c - a program whose memory is used while it makes no verbs call.
 *
 * The server computes, sleeps, spins on a byte of memory, or is stopped in a
 * system call (--mode); the client WRITEs, READs and does atomics meanwhile.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"
#include "peer.h"
#include "rig.h"

enum {
	FLAG = 0,
	SUM = 8,
	SWAPPED = 16,
	DATA = 4096,
	LEN = 60000,
	ROUNDS = 50,
	BACK = 128 << 10
};

struct hello {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static struct rig r;
static struct ibv_qp *qp;
static struct hello mine, theirs;

static void expect(enum ibv_wr_opcode op, size_t at, size_t len, size_t to, uint64_t add)
{
	rig_post(&r, qp, op, at, len, theirs.addr + to, theirs.rkey, add);
	CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
}

static uint64_t word(size_t at)
{
	uint64_t v;

	memcpy(&v, r.buf + at, 8);
	return v;
}

static void use_target(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		pattern_fill(r.buf + DATA, LEN, i);
		expect(IBV_WR_RDMA_WRITE, DATA, LEN, DATA, 0);
		expect(IBV_WR_RDMA_READ, BACK, LEN, DATA, 0);
		CHECK(pattern_check(r.buf + BACK, LEN, i) == LEN);
		expect(IBV_WR_ATOMIC_FETCH_AND_ADD, BACK, 8, SUM, 3);
		CHECK(word(BACK) == 3 * i);
		expect(IBV_WR_ATOMIC_CMP_AND_SWP, BACK, 8, SWAPPED, i);
		CHECK(word(BACK) == i); /* the previous value was i */
	}
	r.buf[DATA] = 1;
	expect(IBV_WR_RDMA_WRITE, DATA, 1, FLAG, 0);
}

static void be_target(void)
{
	volatile uint8_t *flag = r.buf + FLAG;
	volatile uint64_t x = 1;
	double end = now_s() + 60;

	if (!strcmp(opt.mode, "sleep")) {
		while (!*flag && now_s() < end)
			sleep_ms(100);
	} else if (!strcmp(opt.mode, "spin")) {
		while (!*flag)
			;
	} else if (!strcmp(opt.mode, "compute")) {
		while (!*flag && now_s() < end)
			for (int i = 0; i < 10000000; i++)
				x = x * 6364136223846793005u + 1;
	} else {
		failed("a mode: sleep, spin or compute", __FILE__, __LINE__);
	}
	CHECK(*flag == 1);
	CHECK(word(SUM) == 3 * ROUNDS && word(SWAPPED) == ROUNDS);
	CHECK(pattern_check(r.buf + DATA, LEN, ROUNDS - 1) == LEN);
}

int target(void)
{
	int sock;
	char go = 'g';

	rig_open(&r);
	qp = rig_qp(&r);
	mine = (struct hello){ qp->qp_num, r.mr->rkey, (uintptr_t)r.buf, r.gid };
	sock = peer_meet(opt.host, opt.port);
	peer_swap(sock, &mine, &theirs, sizeof(mine));
	rig_join(&r, qp, theirs.qpn, 99, &theirs.gid);
	peer_swap(sock, &go, &go, 1);
	if (opt.host)
		use_target();
	else
		be_target();
	peer_swap(sock, &go, &go, 1);
	say("all right");
	return 0;
}
