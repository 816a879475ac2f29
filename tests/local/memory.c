/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - regions of another process that go away, while it is used.
 *
 *	unmapped	--mode=gone|none|readonly|shrunk: the second half of a
 *			region is unmapped, protected, or its file is truncated;
 *			--mode=blocked|handled: truncated, and the user's thread
 *			blocks all signals, or has a handler that ends it
 *	deregistered	--count times; nothing is written once that is done, and
 *			nothing read
 *			--mode=dropped: its owner was root, and is so no more
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crew.h"
#include "pattern.h"

enum { LEN = 256 << 10, SHARED_LEN = 64 << 10 };

static struct {
	struct card owner, user;
	_Atomic uint32_t owner_round, user_round, joined, used, gone, seen, over;
} * sh;

static struct rig r;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

static bool shrinks(void)
{
	return is("shrunk") || is("blocked") || is("handled");
}

/* A long request reaches memory that is mapped here until the owner has taken it
 * away. */
static uint32_t length(void)
{
	return opt.shared ? SHARED_LEN : LEN;
}

static uint32_t half(void)
{
	return length() / 2;
}

/* --- a region's memory --------------------------------------------------- */

static uint8_t *memory_make(int *fd)
{
	uint8_t *at;

	*fd = memfd_create("region", MFD_CLOEXEC);
	CHECK(*fd >= 0 && !ftruncate(*fd, length()));
	at = mmap(NULL, length(), PROT_READ | PROT_WRITE,
		  shrinks() || opt.shared ? MAP_SHARED : MAP_PRIVATE, *fd, 0);
	CHECK(at != MAP_FAILED);
	memset(at, 1, length());
	return at;
}

static void memory_take(uint8_t *at, int fd)
{
	if (is("gone"))
		CHECK(!munmap(at + half(), half()));
	else if (is("none"))
		CHECK(!mprotect(at + half(), half(), PROT_NONE));
	else if (is("readonly"))
		CHECK(!mprotect(at + half(), half(), PROT_READ));
	else if (shrinks())
		CHECK(!ftruncate(fd, half()));
	else
		failed("no such mode", __FILE__, __LINE__);
}

/* A region that is still registered. */
static void own_region_works(struct ibv_qp *qp, const struct card *user)
{
	crew_expect(&r, qp, user, IBV_WR_RDMA_WRITE, 0, 1000, 4096);
}

static void ends_it(int sig)
{
	_exit(100 + sig);
}

/* Called when the region is in use: exposes the calling thread to a signal that it
 * blocks or handles. */
static void expose(void)
{
	sigset_t all;

	if (is("blocked")) {
		sigfillset(&all);
		CHECK(!pthread_sigmask(SIG_BLOCK, &all, NULL));
	} else if (is("handled")) {
		CHECK(signal(SIGBUS, ends_it) != SIG_ERR);
		CHECK(signal(SIGSEGV, ends_it) != SIG_ERR);
	}
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
	mr = ibv_reg_mr(r.pd, at, length(), RIG_ACCESS);
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

/* Uses each half by itself, then both in one request, which fails in its middle. */
static void use_what_is_left(enum ibv_wr_opcode op, uint32_t round)
{
	bool reads = op == IBV_WR_RDMA_READ && is("readonly");
	struct ibv_qp *qp = meet_owner(round);
	enum ibv_wc_status s;

	/* By then the memory is mapped here. */
	for (int i = 0; i < (opt.shared ? 50 : 1); i++) {
		crew_expect(&r, qp, &sh->owner, op, half(), half(),
			    round == 1 ? half() : 0);
		if (opt.shared)
			sleep_ms(1);
	}
	expose();
	for (int i = 0; i < (opt.shared ? 300 : 0);
	     i++) /* by then the thread's state is known */
		crew_expect(&r, qp, &sh->owner, op, half(), 8, 0);
	sh->used = round;
	crew_wait(&sh->gone, round);
	crew_expect(&r, qp, &sh->owner, op, half(), half(), 0);
	rig_post(&r, qp, op, half(), length(), sh->owner.addr, sh->owner.rkey, 0);
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

/* In every other round the owner's memory is read; it has its old contents. */
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
		struct ibv_mr *mr = ibv_reg_mr(r.pd, at, length(), RIG_ACCESS);
		struct ibv_qp *qp = rig_qp(&r);

		CHECK(mr);
		sh->owner = (struct card){
			qp->qp_num,
			mr->rkey,
			(uintptr_t)at,
			r.gid,
		};
		pattern_fill(at, length(), before(round));
		sh->owner_round = round;
		crew_wait(&sh->user_round, round);
		crew_join(&r, qp, &sh->user);
		if (round == 1 && opt.privileged)
			crew_become(ANOTHER_USER);
		sh->joined = round;
		crew_wait(&sh->used, round);
		if (opt.shared) /* the peer maps the region after a while */
			sleep_ms(2 + (unsigned)(mix(round) % 3));
		for (uint64_t i = mix(round) % 300; i; i--)
			(void)now_s();
		CHECK(!ibv_dereg_mr(mr));
		pattern_fill(at, length(), round);
		sleep_ms(WATCH_MS);
		CHECK(pattern_check(at, length(), round) == length());
		sh->gone = round;
		crew_wait(&sh->seen, round);
		CHECK(pattern_check(at, length(), round) == length());
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
		rig_post(&r, qp, op, 0, length(), sh->owner.addr, sh->owner.rkey, 0);
		wc = rig_wait(&r);
		if (wc.status == IBV_WC_SUCCESS) {
			CHECK(!reads_in(round) ||
			      pattern_check(r.buf, length(), before(round)) == length());
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

		memset(r.buf, 0xee, length());
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
