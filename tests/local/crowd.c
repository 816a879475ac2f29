/* SPDX-License-Identifier: BSD-2-Clause */
/* crowd.c - many processes, many QPs.
 *
 *	crowd	--count processes; each talks to each of the others
 *	qps	--count QPs between two processes, and what one takes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "pattern.h"

enum { MANY = 64, LEN = 3000, OUT = 0, BACK = 8192, GOT = 16384, SUM = 20480, TIMES = 3 };

/* Returns the offset at which member i writes into each other member's buffer. */
static size_t place_of(unsigned i)
{
	return 32768 + i * 3008;
}

static struct {
	struct card card[MANY][MANY]; /* [owner][peer] */
	_Atomic uint32_t made, joined, wrote;
} * sh;

static uint64_t seed(unsigned from, unsigned to)
{
	return 1000 * from + to;
}

static void talk_to(struct rig *r, struct ibv_qp *qp, unsigned me, unsigned to)
{
	const struct card *c = &sh->card[to][me];
	struct ibv_wc wc;
	int sent = 0;

	pattern_fill(r->buf + OUT, LEN, seed(me, to));
	crew_expect(r, qp, c, IBV_WR_RDMA_WRITE, OUT, LEN, place_of(me));
	crew_expect(r, qp, c, IBV_WR_RDMA_READ, BACK, LEN, place_of(me));
	CHECK(pattern_check(r->buf + BACK, LEN, seed(me, to)) == LEN);
	crew_expect(r, qp, c, IBV_WR_ATOMIC_FETCH_AND_ADD, BACK, 8, SUM);
	/* The peer's SEND may arrive before this one is complete. */
	crew_recv(r, qp, GOT, LEN);
	rig_post(r, qp, IBV_WR_SEND, OUT, LEN, 0, 0, 0);
	for (int n = 0; n < 2; n++) {
		wc = rig_wait(r);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qp->qp_num);
		sent += wc.opcode == IBV_WC_SEND;
	}
	CHECK(sent == 1 && pattern_check(r->buf + GOT, LEN, seed(to, me)) == LEN);
}

static void member(void *arg)
{
	unsigned me = *(unsigned *)arg, n = lopt.count;
	struct ibv_qp *qp[MANY] = { NULL };
	uint64_t sum;
	struct rig r;

	opt.events = true;
	rig_open(&r);
	for (unsigned i = 0; i < n; i++)
		if (i != me) {
			qp[i] = rig_qp(&r);
			sh->card[me][i] = crew_card(&r, qp[i]);
		}
	sh->made++;
	crew_wait(&sh->made, n);
	for (unsigned i = 0; i < n; i++)
		if (i != me)
			crew_join(&r, qp[i], &sh->card[i][me]);
	sh->joined++;
	crew_wait(&sh->joined, n);
	/* Each turn joins each member with another one; no pair meets twice. */
	for (unsigned k = 1; k < MANY; k++)
		if ((me ^ k) < n)
			talk_to(&r, qp[me ^ k], me, me ^ k);
	sh->wrote++;
	crew_wait(&sh->wrote, n);
	memcpy(&sum, r.buf + SUM, 8);
	CHECK(sum == n - 1);
	for (unsigned i = 0; i < n; i++)
		if (i != me) {
			CHECK(pattern_check(r.buf + place_of(i), LEN, seed(i, me)) ==
			      LEN);
			CHECK(!ibv_destroy_qp(qp[i]));
		}
	rig_close(&r);
}

int crowd(void)
{
	double start = now_s();
	pid_t pid[MANY];

	CHECK(lopt.count > 1 && lopt.count <= MANY);
	opt.timeout = 20;
	sh = crew_share(sizeof(*sh));
	for (unsigned i = 0; i < lopt.count; i++)
		pid[i] = crew_fork(member, &i);
	for (unsigned i = 0; i < lopt.count; i++)
		crew_reap(pid[i]);
	say("%u processes, %.1f s: all right", lopt.count, now_s() - start);
	return 0;
}

/* --- many QPs ------------------------------------------------------------ */

enum { QPS_MAX = 10000, PER_QP_KIB = 64 };

static struct {
	struct card card[2][QPS_MAX];
	_Atomic uint32_t made, joined, over;
} * two;

static unsigned pipes(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "urnic-pipe") != NULL;
	fclose(f);
	return n;
}

static void half(void *arg)
{
	unsigned me = *(unsigned *)arg, n = lopt.count;
	struct ibv_qp **qp = calloc(n, sizeof(*qp));
	struct census before, after;
	struct rig r;

	CHECK(qp);
	rig_open(&r);
	memset(r.buf, 1, RIG_BUF);
	before = crew_census();
	for (unsigned i = 0; i < n; i++) {
		qp[i] = rig_qp(&r);
		two->card[me][i] = crew_card(&r, qp[i]);
	}
	two->made++;
	crew_wait(&two->made, 2);
	for (unsigned i = 0; i < n; i++)
		crew_join(&r, qp[i], &two->card[!me][i]);
	two->joined++;
	crew_wait(&two->joined, 2);
	for (unsigned k = 0; k < TIMES * n; k++)
		crew_expect(&r, qp[k % n], &two->card[!me][k % n],
			    k / n ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, OUT, LEN, GOT);
	after = crew_census();
	two->over++;
	crew_wait(&two->over, 2);
	say("%u QPs: %u bytes each, %u pipe", n,
	    (unsigned)(1024ull * (after.rss_kib - before.rss_kib) / n), pipes());
	CHECK(after.rss_kib - before.rss_kib < PER_QP_KIB * n && pipes() <= 1);
	CHECK(after.fds <= before.fds + 16);
	for (unsigned i = 0; i < n; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	rig_close(&r);
	free(qp);
}

int many_qps(void)
{
	pid_t pid[2];

	CHECK(lopt.count <= QPS_MAX);
	opt.timeout = 18;
	two = crew_share(sizeof(*two));
	for (unsigned i = 0; i < 2; i++)
		pid[i] = crew_fork(half, &i);
	crew_reap(pid[0]);
	crew_reap(pid[1]);
	say("all right");
	return 0;
}
