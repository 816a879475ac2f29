/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - regions of another process that go away, while it is used.
 *
 *	unmapped	--mode=gone|none|readonly|shrunk: the second half of a
 *			region is unmapped, protected, or its file is truncated
 *	deregistered	--count times; nothing is written once that is done, and
 *			nothing read
 *			--mode=dropped: its owner was root, and is so no more
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crew.h"
#include "pattern.h"

enum { LEN = 256 << 10, HALF = LEN / 2 };

static struct {
	struct card owner, user;
	_Atomic uint32_t owner_round, user_round, joined, used, gone, seen, over;
} * sh;

static struct rig r;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

/* --- a region's memory --------------------------------------------------- */

static uint8_t *memory_make(int *fd)
{
	uint8_t *at;

	*fd = memfd_create("region", MFD_CLOEXEC);
	CHECK(*fd >= 0 && !ftruncate(*fd, LEN));
	at = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		  is("shrunk") || opt.shared ? MAP_SHARED : MAP_PRIVATE, *fd, 0);
	CHECK(at != MAP_FAILED);
	memset(at, 1, LEN);
	return at;
}

static void memory_take(uint8_t *at, int fd)
{
	if (is("gone"))
		CHECK(!munmap(at + HALF, HALF));
	else if (is("none"))
		CHECK(!mprotect(at + HALF, HALF, PROT_NONE));
	else if (is("readonly"))
		CHECK(!mprotect(at + HALF, HALF, PROT_READ));
	else if (is("shrunk"))
		CHECK(!ftruncate(fd, HALF));
	else
		failed("no such mode", __FILE__, __LINE__);
}

/* One that is there still. */
static void own_region_works(struct ibv_qp *qp, const struct card *user)
{
	crew_expect(&r, qp, user, IBV_WR_RDMA_WRITE, 0, 1000, 4096);
}

static void unmapped_owner(void *arg)
{
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	uint8_t *at;
	int fd;

	(void)arg;
	rig_open(&r);
	at = memory_make(&fd);
	mr = ibv_reg_mr(r.pd, at, LEN, RIG_ACCESS);
	CHECK(mr);
	for (uint32_t round = 1; round <= 2; round++) {
		qp[round - 1] = rig_qp(&r);
		sh->owner = (struct card){
			qp[round - 1]->qp_num,
			mr->rkey,
			(uintptr_t)at,
			r.gid,
		};
		sh->owner_round = round;
		crew_wait(&sh->user_round, round);
		crew_join(&r, qp[round - 1], &sh->user);
		own_region_works(qp[round - 1], &sh->user);
		sh->joined = round;
		crew_wait(&sh->used, round);
		if (round == 1)
			memory_take(at, fd);
		sh->gone = round;
		crew_wait(&sh->seen, round);
	}
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	CHECK(!ibv_dereg_mr(mr));
	rig_close(&r);
}

static struct ibv_qp *meet_owner(uint32_t round)
{
	struct ibv_qp *qp = rig_qp(&r);

	sh->user = crew_card(&r, qp);
	sh->user_round = round;
	crew_wait(&sh->owner_round, round);
	crew_join(&r, qp, &sh->owner);
	crew_wait(&sh->joined, round);
	return qp;
}

/* Each half by itself, then both in one request: in its midst. */
static void use_what_is_left(enum ibv_wr_opcode op, uint32_t round)
{
	bool reads = op == IBV_WR_RDMA_READ && is("readonly");
	struct ibv_qp *qp = meet_owner(round);
	enum ibv_wc_status s;

	for (int i = 0; i < (opt.shared ? 50 : 1); i++) { /* it is mapped by then */
		crew_expect(&r, qp, &sh->owner, op, HALF, HALF, round == 1 ? HALF : 0);
		if (opt.shared)
			sleep_ms(1);
	}
	sh->used = round;
	crew_wait(&sh->gone, round);
	crew_expect(&r, qp, &sh->owner, op, HALF, HALF, 0);
	rig_post(&r, qp, op, HALF, LEN, sh->owner.addr, sh->owner.rkey, 0);
	s = rig_wait(&r).status;
	say("opcode %d: %s", op, ibv_wc_status_str(s));
	CHECK(reads ? s == IBV_WC_SUCCESS
		    : s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_REM_OP_ERR);
	CHECK(!ibv_destroy_qp(qp));
	sh->seen = round;
}

int unmapped(void)
{
	pid_t pid;

	CHECK(opt.mode);
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(unmapped_owner, NULL);
	rig_open(&r);
	use_what_is_left(IBV_WR_RDMA_WRITE, 1);
	use_what_is_left(IBV_WR_RDMA_READ, 2);
	crew_reap(pid);
	rig_close(&r);
	say("all right");
	return 0;
}

/* --- deregistration ------------------------------------------------------ */

enum { WATCH_MS = 2, ANOTHER_USER = 5 };

/* In every other round its owner's memory is read: what was there before. */
static bool reads_in(uint32_t round)
{
	return round % 2 == 0;
}

static uint64_t before(uint32_t round)
{
	return 1000000 + round;
}

static void deregistering_owner(void *arg)
{
	uint8_t *at;
	int fd;

	(void)arg;
	opt.mode = "gone";
	rig_open(&r);
	at = memory_make(&fd);
	for (uint32_t round = 1; round <= lopt.count; round++) {
		struct ibv_mr *mr = ibv_reg_mr(r.pd, at, LEN, RIG_ACCESS);
		struct ibv_qp *qp = rig_qp(&r);

		CHECK(mr);
		sh->owner = (struct card){
			qp->qp_num,
			mr->rkey,
			(uintptr_t)at,
			r.gid,
		};
		pattern_fill(at, LEN, before(round));
		sh->owner_round = round;
		crew_wait(&sh->user_round, round);
		crew_join(&r, qp, &sh->user);
		if (round == 1 && opt.privileged)
			crew_become(ANOTHER_USER);
		sh->joined = round;
		crew_wait(&sh->used, round);
		if (opt.shared) /* it is mapped after a while */
			sleep_ms(2 + (unsigned)(mix(round) % 3));
		for (uint64_t i = mix(round) % 300; i; i--)
			(void)now_s();
		CHECK(!ibv_dereg_mr(mr));
		pattern_fill(at, LEN, round);
		sleep_ms(WATCH_MS);
		CHECK(pattern_check(at, LEN, round) == LEN);
		sh->gone = round;
		crew_wait(&sh->seen, round);
		CHECK(pattern_check(at, LEN, round) == LEN);
		CHECK(!ibv_destroy_qp(qp));
	}
	rig_close(&r);
}

static void work_until_it_fails(struct ibv_qp *qp, uint32_t round)
{
	enum ibv_wr_opcode op = reads_in(round) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct ibv_wc wc;

	for (int n = 0;; n++) {
		if (n == 3)
			sh->used = round;
		rig_post(&r, qp, op, 0, LEN, sh->owner.addr, sh->owner.rkey, 0);
		wc = rig_wait(&r);
		if (wc.status == IBV_WC_SUCCESS) {
			CHECK(!reads_in(round) ||
			      pattern_check(r.buf, LEN, before(round)) == LEN);
			continue;
		}
		CHECK(n >= 3 && wc.status == IBV_WC_REM_ACCESS_ERR);
		return;
	}
}

int deregistered(void)
{
	pid_t pid;

	opt.privileged = opt.mode && is("dropped");
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(deregistering_owner, NULL);
	rig_open(&r);
	for (uint32_t round = 1; round <= lopt.count; round++) {
		struct ibv_qp *qp = meet_owner(round);

		memset(r.buf, 0xee, LEN);
		work_until_it_fails(qp, round);
		crew_wait(&sh->gone, round);
		CHECK(!ibv_destroy_qp(qp));
		sh->seen = round;
	}
	crew_reap(pid);
	rig_close(&r);
	say("%u times, all right", lopt.count);
	return 0;
}
