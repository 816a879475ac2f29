/* SPDX-License-Identifier: BSD-2-Clause */
/* stopped.c - the target is stopped (SIGSTOP).
 *
 *	--mode=direct	its memory can be reached all the same
 *	--mode=pipe	it cannot: what needs the peer waits, or fails
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "crew.h"
#include "pattern.h"

enum { RMA, SHORT, LONG, BURST, QPS };
enum {
	ROUNDS = 200,
	OUT = 0,
	BACK = 64 << 10,
	IN = 128 << 10,
	LEN = 60000,
	WORDS = 4096,
	SHORT_T = 14,
	SHORT_RETRIES = 2,
	LONG_T = 19
};

static struct {
	struct card target[QPS], us[QPS];
	_Atomic uint32_t target_is_there, we_are_there, ready, done;
} * sh;

static struct rig r;
static struct ibv_qp *qp[QPS];

static void join_all(const struct card *theirs)
{
	for (int i = 0; i < QPS; i++) {
		opt.timeout = i == SHORT ? SHORT_T : LONG_T;
		opt.retries = i == SHORT ? SHORT_RETRIES : 7;
		crew_join(&r, qp[i], &theirs[i]);
	}
}

static void make_all(struct card *mine)
{
	rig_open(&r);
	for (int i = 0; i < QPS; i++) {
		qp[i] = rig_qp(&r);
		mine[i] = crew_card(&r, qp[i]);
	}
}

static void close_all(void)
{
	for (int i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	rig_close(&r);
}

/* The target calls no verbs until all is over. */
static void be_target(void *arg)
{
	(void)arg;
	make_all(sh->target);
	sh->target_is_there = 1;
	crew_wait(&sh->we_are_there, 1);
	join_all(sh->us);
	for (int i = 0; i < QPS; i++)
		for (int k = 0; k < RIG_DEPTH; k++)
			crew_recv(&r, qp[i], BACK, LEN);
	sh->ready = 1;
	crew_wait(&sh->done, 1);
	CHECK(pattern_check(r.buf + IN, LEN, ROUNDS - 1) == LEN);
	close_all();
}

static void stop(pid_t pid)
{
	int status;

	CHECK(!kill(pid, SIGSTOP));
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

static void write_and_read(uint64_t seed)
{
	size_t len = seed == ROUNDS - 1 ? LEN : 1 + mix(seed) % LEN;

	pattern_fill(r.buf + OUT, len, seed);
	crew_expect(&r, qp[RMA], &sh->target[RMA], IBV_WR_RDMA_WRITE, OUT, len, IN);
	memset(r.buf + BACK, 0, len);
	crew_expect(&r, qp[RMA], &sh->target[RMA], IBV_WR_RDMA_READ, BACK, len, IN);
	CHECK(pattern_check(r.buf + BACK, len, seed) == len);
}

static void expect_retry_exc(enum ibv_wr_opcode op)
{
	double least = (SHORT_RETRIES + 1) * 4.096e-6 * (1 << SHORT_T);
	double start = now_s(), took;

	rig_post(&r, qp[SHORT], op, OUT, 100, sh->target[SHORT].addr + WORDS,
		 sh->target[SHORT].rkey, 1);
	CHECK(rig_wait(&r).status == IBV_WC_RETRY_EXC_ERR);
	took = now_s() - start;
	say("failed after %.3f s", took);
	CHECK(took > least * 0.99 && took < 4 * least + 5);
}

/* All requests wait, and complete when the target goes on. */
static void resume_in_time(pid_t pid)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_SEND,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct ibv_wc wc;

	rig_post(&r, qp[LONG], IBV_WR_SEND, OUT, LEN, 0, 0, 0);
	for (int i = 0; i < RIG_DEPTH - 1; i++)
		rig_post(&r, qp[BURST], op[i % 4],
			 op[i % 4] == IBV_WR_ATOMIC_FETCH_AND_ADD ? BACK + LEN + 8 : OUT,
			 op[i % 4] == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 3000,
			 sh->target[BURST].addr + WORDS, sh->target[BURST].rkey, 1);
	sleep_ms(300);
	CHECK(ibv_poll_cq(r.cq, 1, &wc) == 0);
	CHECK(!kill(pid, SIGCONT));
	for (int i = 0; i < RIG_DEPTH; i++)
		CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
}

int stopped(void)
{
	bool direct = opt.mode && !strcmp(opt.mode, "direct");
	double start;
	pid_t pid;

	sh = crew_share(sizeof(*sh));
	pid = crew_fork(be_target, NULL);
	crew_wait(&sh->target_is_there, 1);
	make_all(sh->us);
	sh->we_are_there = 1;
	join_all(sh->target);
	crew_wait(&sh->ready, 1);
	for (uint64_t i = 0; i < 20; i++)
		write_and_read(i);
	stop(pid);
	start = now_s();
	for (uint64_t i = 0; direct && i < ROUNDS; i++)
		write_and_read(i);
	say("%d rounds in %.3f s", direct ? ROUNDS : 0, now_s() - start);
	expect_retry_exc(direct ? IBV_WR_SEND : IBV_WR_RDMA_WRITE);
	resume_in_time(pid);
	for (uint64_t i = 0; i < ROUNDS; i++)
		write_and_read(i);
	sh->done = 1;
	crew_reap(pid);
	close_all();
	say("all right");
	return 0;
}

/* --- before they have agreed --------------------------------------------- */

static void early_target(void *arg)
{
	(void)arg;
	make_all(sh->target);
	sh->target_is_there = 1;
	crew_wait(&sh->ready, 1);
	join_all(sh->us);
	crew_recv(&r, qp[LONG], BACK, LEN);
	CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
	crew_wait(&sh->done, 1);
	close_all();
}

/* A target that is stopped before it has answered at all looks like a silent one: the
 * retries run out. A target that goes on in time has lost nothing. */
int stopped_early(void)
{
	pid_t pid;

	sh = crew_share(sizeof(*sh));
	pid = crew_fork(early_target, NULL);
	crew_wait(&sh->target_is_there, 1);
	make_all(sh->us);
	stop(pid);
	join_all(sh->target);
	expect_retry_exc(IBV_WR_SEND);
	rig_post(&r, qp[LONG], IBV_WR_SEND, OUT, 5000, 0, 0, 0);
	sleep_ms(200);
	sh->ready = 1;
	CHECK(!kill(pid, SIGCONT));
	CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
	sh->done = 1;
	crew_reap(pid);
	close_all();
	say("all right");
	return 0;
}
