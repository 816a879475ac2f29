/* SPDX-License-Identifier: BSD-2-Clause */
/* many.c - eight threads, each with several QPs, two and two with an SRQ: all is
 * made, used, destroyed, and made again, -n times.  None may stand still.
 *
 *	one	four of them talk to the other four
 *	two	all talk to those of another process
 *	...poll, ...sleep, ...mixed	how they wait
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"
#include "threads.h"

enum {
	THREADS = 8,
	SHARE = 2,
	QPS = 3,
	LEN = 512,
	SENDS = 32,
	DEPTH = 8,
	SRQ_WR = 256,
	STILL_S = 20,
	ROUND_MS = 4
};

static struct rig r;
static unsigned procs, proc;

/* What the threads of all processes tell each other; rounds count from 1. */
static struct shared {
	struct place {
		uint32_t qpn[QPS];
		_Atomic uint32_t made, used;
	} at[2][THREADS];
} * sh;

static struct group {
	pthread_barrier_t barrier;
	struct ibv_srq *srq;
} group[THREADS / SHARE];

static struct member {
	pthread_t thread;
	unsigned me;
	bool sleeps;
	struct group *g;
	struct place *mine, *theirs;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[QPS];
	unsigned sent[QPS], done; /* done: completed sends and receives */
	_Atomic unsigned steps;
	_Atomic bool over;
} member[THREADS];

static struct ibv_qp *make_qp(struct member *m)
{
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq,
		.recv_cq = m->cq,
		.srq = m->g->srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = RIG_ACCESS,
	};
	struct ibv_qp *qp = ibv_create_qp(r.pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void refill(struct member *m, int n)
{
	struct ibv_sge sge = { (uintptr_t)r.buf + (size_t)m->me * LEN, LEN, r.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	while (n--)
		CHECK(!ibv_post_srq_recv(m->g->srq, &wr, &bad));
}

/* Waits as long as watch_all() allows. */
static void await(const _Atomic uint32_t *word, uint32_t round)
{
	while (atomic_load(word) < round)
		crew_nap();
}

static void make(struct member *m, uint32_t round)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = SRQ_WR, .max_sge = 1 } };

	if (m->me % SHARE == 0)
		CHECK((m->g->srq = ibv_create_srq(r.pd, &srq)));
	pthread_barrier_wait(&m->g->barrier);
	m->cq = ibv_create_cq(r.ctx, 2 * QPS * SENDS, NULL, m->channel, 0);
	CHECK(m->cq);
	refill(m, QPS * DEPTH);
	for (int i = 0; i < QPS; i++) {
		m->qp[i] = make_qp(m);
		m->mine->qpn[i] = m->qp[i]->qp_num;
		m->sent[i] = 0;
	}
	m->done = 0;
	atomic_store(&m->mine->made, round);
	await(&m->theirs->made, round);
	for (int i = 0; i < QPS; i++)
		rig_join(&r, m->qp[i], m->theirs->qpn[i], 3, &r.gid);
}

static void destroy(struct member *m, uint32_t round)
{
	atomic_store(&m->mine->used, round);
	await(&m->theirs->used, round); /* the peer has received the ACKs */
	for (int i = 0; i < QPS; i++)
		CHECK(!ibv_destroy_qp(m->qp[i]));
	CHECK(!ibv_destroy_cq(m->cq));
	pthread_barrier_wait(&m->g->barrier);
	if (m->me % SHARE == 0)
		CHECK(!ibv_destroy_srq(m->g->srq));
}

static void send_one(struct member *m, int i)
{
	struct ibv_sge sge = { (uintptr_t)r.buf + RIG_BUF / 2, LEN, r.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = (uint64_t)i, .opcode = IBV_WR_SEND, .sg_list = &sge,
		.num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	CHECK(!ibv_post_send(m->qp[i], &wr, &bad));
	m->sent[i]++;
}

static void sleep_on(struct member *m)
{
	struct pollfd p = { .fd = m->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *arg;

	CHECK(poll(&p, 1, 2 * STILL_S * 1000) == 1);
	CHECK(!ibv_get_cq_event(m->channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
}

static int look(struct member *m, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(m->cq, DEPTH, wc);

	if (n == 0 && m->sleeps) {
		CHECK(!ibv_req_notify_cq(m->cq, 0));
		n = ibv_poll_cq(m->cq, DEPTH, wc);
		if (n == 0)
			sleep_on(m);
	}
	CHECK(n >= 0);
	return n;
}

static void use(struct member *m)
{
	struct ibv_wc wc[DEPTH];

	for (int i = 0; i < QPS; i++)
		for (int k = 0; k < DEPTH; k++)
			send_one(m, i);
	while (m->done < 2 * QPS * SENDS) {
		int n = look(m, wc);

		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				say("%s", ibv_wc_status_str(wc[i].status));
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			m->done++;
			atomic_fetch_add(&m->steps, 1);
			if (wc[i].opcode & IBV_WC_RECV)
				refill(m, 1);
			else if (m->sent[wc[i].wr_id] < SENDS)
				send_one(m, (int)wc[i].wr_id);
		}
	}
}

static void *work(void *arg)
{
	struct member *m = arg;

	m->channel = ibv_create_comp_channel(r.ctx);
	CHECK(m->channel);
	for (uint32_t round = 1; round <= topt.count; round++) {
		double start = now_s();

		make(m, round);
		use(m);
		destroy(m, round);
		/* QPs that exist within the same second have different numbers. */
		while (now_s() < start + ROUND_MS * 1e-3)
			sleep_ms(1);
	}
	CHECK(!ibv_destroy_comp_channel(m->channel));
	atomic_store(&m->over, true);
	return NULL;
}

static void watch_all(void)
{
	double moved[THREADS];
	unsigned seen[THREADS], left = THREADS;

	memset(seen, 0xff, sizeof(seen));
	while (left) {
		left = 0;
		for (int i = 0; i < THREADS; i++) {
			struct member *m = &member[i];

			if (atomic_load(&m->over))
				continue;
			left++;
			if (atomic_load(&m->steps) != seen[i])
				moved[i] = now_s();
			seen[i] = atomic_load(&m->steps);
			if (now_s() - moved[i] < STILL_S)
				continue;
			say("process %u: thread %d stands still: round %u made, %u "
			    "used, %u done",
			    proc, i, m->mine->made, m->mine->used, m->done);
			if (getenv("HOLD"))
				pause();
			abort();
		}
		sleep_ms(50);
	}
}

static void start(unsigned i)
{
	struct member *m = &member[i];
	unsigned across = procs == 1 ? i ^ (THREADS / 2) : i;

	m->me = i;
	m->g = &group[i / SHARE];
	m->mine = &sh->at[proc][i];
	m->theirs = &sh->at[procs == 1 ? 0 : !proc][across];
	m->sleeps =
		strstr(opt.mode, "sleep") || (strstr(opt.mode, "mixed") && i % 3 == 0);
	CHECK(!pthread_create(&m->thread, NULL, work, m));
}

static void process(void *arg)
{
	proc = *(unsigned *)arg;
	alarm(0);
	rig_open(&r);
	for (int i = 0; i < THREADS / SHARE; i++)
		CHECK(!pthread_barrier_init(&group[i].barrier, NULL, SHARE));
	for (unsigned i = 0; i < THREADS; i++)
		start(i);
	watch_all();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(member[i].thread, NULL));
	rig_close(&r);
}

int many(void)
{
	double began = now_s();
	pid_t pid[2];

	alarm(0); /* watch_all() notices if a thread stands still */
	procs = strstr(opt.mode, "two") ? 2 : 1;
	sh = crew_share(sizeof(*sh));
	for (unsigned i = 0; i < procs; i++)
		pid[i] = crew_fork(process, &i);
	for (unsigned i = 0; i < procs; i++)
		crew_reap(pid[i]);
	say("%u rounds in %.1f s", topt.count, now_s() - began);
	say("all right");
	return 0;
}
