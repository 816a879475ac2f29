/* SPDX-License-Identifier: BSD-2-Clause */
/* fifo.c - a thread that polls at a real-time priority (chrt -R -f), on the only
 * processor that this process has: what it waits for must not need a thread that
 * it keeps from running.  Its peer has the others.
 *
 *	send	messages to and fro
 *	write	WRITEs
 *	paced	messages, with a sleep in between, and it wakes when it likes
 *	other	messages, while another thread, without that priority, wants
 *		the engine for itself
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crew.h"
#include "threads.h"

#ifndef SCHED_RESET_ON_FORK
#define SCHED_RESET_ON_FORK 0x40000000
#endif

enum { LEN = 64, RECVS = 8 };

static const double LONG_S = 0.6;

static struct {
	struct card card[2];
	_Atomic uint32_t made, done;
} * sh;

static struct rig r;
static struct ibv_qp *qp;
static struct ibv_mr *mine;

static void meet(int me)
{
	rig_open(&r);
	qp = rig_qp(&r);
	for (int i = 0; i < RECVS; i++)
		crew_recv(&r, qp, 4096, LEN);
	sh->card[me] = crew_card(&r, qp);
	atomic_fetch_add(&sh->made, 1);
	crew_wait(&sh->made, 2);
	crew_join(&r, qp, &sh->card[!me]);
}

static struct ibv_wc good(struct ibv_wc wc)
{
	if (wc.status != IBV_WC_SUCCESS)
		say("%s", ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
	return wc;
}

static void send_one(void)
{
	rig_post(&r, qp, IBV_WR_SEND, 0, LEN, 0, 0, 0);
}

static void answering(void *arg)
{
	cpu_set_t taken, others;
	struct ibv_wc wc;

	(void)arg;
	CHECK(!sched_getaffinity(0, sizeof(taken), &taken));
	memset(&others, 0xff, sizeof(others));
	CPU_XOR(&others, &others, &taken);
	CHECK(!sched_setaffinity(0, sizeof(others), &others));
	meet(1);
	while (!atomic_load(&sh->done)) {
		if (ibv_poll_cq(r.cq, 1, &wc) != 1)
			continue;
		if (good(wc).opcode != IBV_WC_RECV)
			continue;
		crew_recv(&r, qp, 4096, LEN);
		send_one();
	}
}

/* Linux gives other threads 50 ms of each second, whatever the priority: a thread that
 * waits for a thread which it keeps from running waits until then. */
static double slowest;

static double per_second(void)
{
	double start = now_s(), end = start + opt.seconds;
	bool writes = !strcmp(opt.mode, "write"), paced = !strcmp(opt.mode, "paced");
	unsigned n = 0;

	slowest = 0;
	for (; now_s() < end; n++) {
		double began = now_s();

		if (writes)
			rig_post(&r, qp, IBV_WR_RDMA_WRITE, 0, LEN, sh->card[1].addr,
				 sh->card[1].rkey, 0);
		else
			send_one();
		for (int i = writes; i < 2; i++) {
			struct ibv_wc wc = good(rig_wait(&r));

			if (wc.opcode == IBV_WC_RECV)
				crew_recv(&r, qp, 4096, LEN);
		}
		if (now_s() - began > slowest)
			slowest = now_s() - began;
		if (paced)
			nanosleep(&(struct timespec){ .tv_nsec =
							      10000 + n * 7919 % 300000 },
				  NULL);
	}
	return n / (now_s() - start);
}

static void *take_turns(void *arg)
{
	(void)arg;
	while (!atomic_load(&sh->done))
		CHECK(!ibv_rereg_mr(mine, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE));
	return NULL;
}

int fifo(void)
{
	struct sched_param p = { .sched_priority = 0 };
	bool other = !strcmp(opt.mode, "other");
	double plain, real_time, longest;
	pthread_t t;
	pid_t pid;

	CHECK(sched_getscheduler(0) == (SCHED_FIFO | SCHED_RESET_ON_FORK));
	opt.timeout = 18; /* the peer has to share a processor */
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(answering, NULL);
	meet(0);
	mine = ibv_reg_mr(r.pd, r.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mine);
	if (other)
		CHECK(!pthread_create(&t, NULL, take_turns, NULL));
	real_time = per_second();
	longest = slowest;
	CHECK(!sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &p));
	plain = per_second();
	say("%.0f/s, at a real-time priority %.0f/s and %.0f ms at most", plain,
	    real_time, longest * 1e3);
	CHECK(longest < LONG_S);
	atomic_store(&sh->done, 1);
	if (other)
		CHECK(!pthread_join(t, NULL));
	crew_reap(pid);
	CHECK(!ibv_dereg_mr(mine) && !ibv_destroy_qp(qp));
	rig_close(&r);
	say("all right");
	return 0;
}
