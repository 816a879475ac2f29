/* SPDX-License-Identifier: BSD-2-Clause */
/* truncated.c - the files behind regions become shorter and longer all the time, while
 * two processes use the regions at both ends of their requests.
 *
 * A request of memory that is not there fails, and its QP with it. Nobody is killed, and
 * another QP of the same two processes, on memory that stays, goes on without an error.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "pattern.h"

enum {
	LEN = 256 << 10,
	PAGE = 4096,
	ROUNDS_MAX = 5000,
	TURNS = 40,
	AT_ONCE = 4,
	HEALTHY = 3000
};
enum { OUT = 0, BACK = 64 << 10, OWN = 128 << 10, OPEN = 256 << 10 }; /* in rig.buf */

static struct {
	struct card good[2], bad[2];
	_Atomic uint32_t met[2], opened, over;
	_Atomic uint32_t denied, done;
	_Atomic uint32_t failed[2]; /* the last round in which that side's QP failed */
} * sh;

static int files[2];

/* This process. */
static struct {
	int me;
	uint32_t meetings, round;
	uint64_t rng;
	struct rig rig;
	struct ibv_qp *good, *bad;
	struct ibv_mr *mr;
	uint8_t *at;
} p;

static uint64_t rnd(uint64_t below)
{
	return mix(p.rng++) % below;
}

/* Both come here before either goes on. */
static void meet(void)
{
	sh->met[p.me] = ++p.meetings;
	crew_wait(&sh->met[!p.me], p.meetings);
}

static void open_all(void)
{
	opt.shared = true;
	rig_open(&p.rig);
	p.at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, files[p.me], 0);
	CHECK(p.at != MAP_FAILED);
	p.mr = ibv_reg_mr(p.rig.pd, p.at, LEN, RIG_ACCESS);
	CHECK(p.mr);
	opt.timeout = 18;
	p.good = rig_qp(&p.rig);
	sh->good[p.me] = crew_card(&p.rig, p.good);
	meet();
	crew_join(&p.rig, p.good, &sh->good[!p.me]);
	meet();
	sh->opened++;
	opt.timeout = 12; /* nobody answers for a QP that has failed */
	opt.retries = 3;
}

static void close_all(void)
{
	CHECK(!ibv_destroy_qp(p.good) && !ibv_dereg_mr(p.mr));
	CHECK(!munmap(p.at, LEN));
	rig_close(&p.rig);
}

/* On memory that stays: both ends write into the peer's, each where only it writes. */
static void healthy(void)
{
	const struct card *to = &sh->good[!p.me];
	uint64_t seed = rnd(UINT64_MAX);
	uint8_t *buf = p.rig.buf;

	pattern_fill(buf + OUT, HEALTHY, seed);
	crew_expect(&p.rig, p.good, to, IBV_WR_RDMA_WRITE, OUT, HEALTHY, OPEN);
	crew_expect(&p.rig, p.good, to, IBV_WR_RDMA_READ, BACK, HEALTHY, OPEN);
	CHECK(pattern_check(buf + BACK, HEALTHY, seed) == HEALTHY);
}

/* The memory at this end is the file's, or some that stays. */
static void post_bad(void)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	enum ibv_wr_opcode op = ops[rnd(8) / 3];
	bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD, own = rnd(2);
	uint32_t len = atomic ? 8 : 1 + (uint32_t)rnd(rnd(2) ? LEN / 2 : 5000);
	uint64_t to = sh->bad[!p.me].addr + 8 * rnd((LEN - len) / 8 + 1);
	struct ibv_sge sge = {
		(uintptr_t)p.at + 8 * rnd((LEN - len) / 8 + 1),
		len,
		p.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.opcode = op, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { to, sh->bad[!p.me].rkey },
	}, *bad;

	if (own && len <= LEN / 2) {
		sge.addr = (uintptr_t)p.rig.buf + OWN;
		sge.lkey = p.rig.mr->lkey;
	}
	if (atomic) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 0;
		wr.wr.atomic.rkey = sh->bad[!p.me].rkey;
	}
	CHECK(!ibv_post_send(p.bad, &wr, &bad));
}

static void check_status(enum ibv_wc_status s)
{
	if (s == IBV_WC_SUCCESS)
		sh->done++;
	else if (s == IBV_WC_LOC_PROT_ERR || s == IBV_WC_REM_ACCESS_ERR ||
		 s == IBV_WC_REM_OP_ERR)
		sh->denied++;
	/* The latter if the peer's QP has failed. */
	else if (s != IBV_WC_WR_FLUSH_ERR && s != IBV_WC_RETRY_EXC_ERR) {
		say("%s", ibv_wc_status_str(s));
		failed("no error of memory", __FILE__, __LINE__);
	}
}

/* Posts some requests and takes their completions; returns false after an error. */
static bool use_what_may_be_gone(void)
{
	bool well = true;

	for (int i = 0; i < AT_ONCE; i++)
		post_bad();
	for (int i = 0; i < AT_ONCE; i++) {
		enum ibv_wc_status s = rig_wait(&p.rig).status;

		check_status(s);
		well &= s == IBV_WC_SUCCESS;
	}
	return well;
}

static void one_round(void)
{
	bool well = true;

	p.round++;
	p.bad = rig_qp(&p.rig);
	sh->bad[p.me] = (struct card){
		p.bad->qp_num,
		p.mr->rkey,
		(uintptr_t)p.at,
		p.rig.gid,
	};
	meet();
	crew_join(&p.rig, p.bad, &sh->bad[!p.me]);
	meet();
	for (int i = 0; i < TURNS && well && sh->failed[!p.me] < p.round; i++) {
		healthy();
		well = use_what_may_be_gone();
	}
	if (!well)
		sh->failed[p.me] = p.round;
	meet();
	CHECK(!ibv_destroy_qp(p.bad));
}

static void side(void *arg)
{
	p.me = arg != NULL;
	p.rng = mix(lopt.seed) + (uint64_t)p.me * 1000000007;
	open_all();
	/* Until something was gone when it was needed. Both read the same here: requests
	 * are made between two meetings. */
	for (unsigned i = 0; i < lopt.count || (!sh->denied && i < ROUNDS_MAX); i++)
		one_round();
	sh->over++;
	meet();
	close_all();
}

/* Truncates a file to any number of pages, and makes it whole again. */
static void truncate_and_restore(void)
{
	int fd = files[rnd(2)];

	CHECK(!ftruncate(fd, (off_t)rnd(LEN / PAGE) * PAGE));
	for (uint64_t naps = rnd(8); naps > 0; naps--)
		crew_nap();
	CHECK(!ftruncate(fd, LEN));
	for (uint64_t naps = rnd(100); naps > 0; naps--)
		crew_nap();
}

static bool is_over(pid_t pid)
{
	siginfo_t info = { 0 };

	CHECK(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT));
	return info.si_pid != 0;
}

int truncated(void)
{
	pid_t pid[2];

	sh = crew_share(sizeof(*sh));
	for (int i = 0; i < 2; i++) {
		files[i] = memfd_create("region", MFD_CLOEXEC);
		CHECK(files[i] >= 0 && !ftruncate(files[i], LEN));
	}
	for (int i = 0; i < 2; i++)
		pid[i] = crew_fork(side, i ? sh : NULL);
	p.rng = mix(lopt.seed + 17);
	while (sh->over < 2 && !is_over(pid[0]) && !is_over(pid[1])) {
		if (sh->opened == 2) /* what is gone already cannot be registered */
			truncate_and_restore();
		else
			crew_nap();
	}
	for (int i = 0; i < 2; i++)
		crew_reap(pid[i]);
	say("%u requests done, %u denied", sh->done, sh->denied);
	CHECK(sh->done > 0 && sh->denied > 0);
	say("all right");
	return 0;
}
