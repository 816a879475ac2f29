/* SPDX-License-Identifier: BSD-2-Clause */
/* churn.c - QPs, or whole processes, come and go; the process that stays holds no more
 * resources than after the first few.
 *
 *	churn	--count QPs between two processes
 *	clients	--count processes, one after the other
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "pattern.h"

enum { BATCH = 8, LEN = 2000, OUT = 0, BACK = 4096, HERE = 65536, SETTLED_PART = 5 };

static struct {
	struct card card[2][BATCH];
	_Atomic uint32_t made[2], joined[2], used[2];
} * sh;

static void both(_Atomic uint32_t *word, unsigned me, uint32_t round)
{
	word[me] = round;
	crew_wait(&word[!me], round);
}

static void use(struct rig *r, struct ibv_qp *qp, const struct card *theirs, size_t at,
		uint64_t seed)
{
	pattern_fill(r->buf + OUT, LEN, seed);
	crew_expect(r, qp, theirs, IBV_WR_RDMA_WRITE, OUT, LEN, at);
	crew_expect(r, qp, theirs, IBV_WR_RDMA_READ, BACK, LEN, at);
	CHECK(pattern_check(r->buf + BACK, LEN, seed) == LEN);
	crew_expect(r, qp, theirs, IBV_WR_ATOMIC_FETCH_AND_ADD, BACK, 8, RIG_BUF - 8);
}

static void one_batch(struct rig *r, unsigned me, uint32_t round)
{
	struct ibv_qp *qp[BATCH];

	for (int i = 0; i < BATCH; i++) {
		qp[i] = rig_qp(r);
		sh->card[me][i] = crew_card(r, qp[i]);
	}
	both(sh->made, me, round);
	for (int i = 0; i < BATCH; i++)
		crew_join(r, qp[i], &sh->card[!me][i]);
	/* A QP may be used before the peer has connected its own. */
	for (int i = 0; i < BATCH; i++)
		use(r, qp[i], &sh->card[!me][i], HERE + 4096 * (size_t)i,
		    mix(round) + (uint64_t)i);
	both(sh->used, me, round);
	for (int i = 0; i < BATCH; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
}

static void half(void *arg)
{
	unsigned me = *(unsigned *)arg, n = (lopt.count + BATCH - 1) / BATCH;
	struct census before = { 0 };
	double start = now_s(), took;
	struct rig r;

	rig_open(&r);
	for (uint32_t round = 1; round <= n; round++) {
		one_batch(&r, me, round);
		if (round == n / SETTLED_PART)
			before = crew_census();
	}
	took = now_s() - start;
	if (me == 0)
		say("%u QPs, %.0f/s", n * BATCH, n * BATCH / took);
	crew_compare("churn", before, 2048);
	both(sh->joined, me, 1);
	rig_close(&r);
}

int churn(void)
{
	pid_t pid[2];

	opt.timeout = 18;
	sh = crew_share(sizeof(*sh));
	for (unsigned i = 0; i < 2; i++)
		pid[i] = crew_fork(half, &i);
	crew_reap(pid[0]);
	crew_reap(pid[1]);
	say("all right");
	return 0;
}

/* --- processes ----------------------------------------------------------- */

enum { SETTLED = 50 };

/* The client ends in one of three ways: by exit, by a signal, or in order. */
static void client(void *arg)
{
	uint32_t n = *(uint32_t *)arg;
	struct ibv_qp *qp;
	struct rig r;

	rig_open(&r);
	qp = rig_qp(&r);
	sh->card[1][0] = crew_card(&r, qp);
	sh->made[1] = n;
	crew_wait(&sh->made[0], n);
	crew_join(&r, qp, &sh->card[0][0]);
	use(&r, qp, &sh->card[0][0], HERE, n);
	sh->used[1] = n;
	crew_wait(&sh->used[0], n);
	if (n % 3 == 0)
		_exit(0);
	if (n % 3 == 1)
		raise(SIGKILL);
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

static void server(void *arg)
{
	struct census before = { 0 };
	struct ibv_qp *qp;
	struct rig r;

	(void)arg;
	rig_open(&r);
	for (uint32_t n = 1; n <= lopt.count; n++) {
		qp = rig_qp(&r);
		sh->card[0][0] = crew_card(&r, qp);
		sh->made[0] = n;
		crew_wait(&sh->made[1], n);
		crew_join(&r, qp, &sh->card[1][0]);
		use(&r, qp, &sh->card[1][0], HERE, n);
		sh->used[0] = n;
		crew_wait(&sh->joined[0], n); /* the client has ended */
		if (n == lopt.count)
			sleep_ms(300); /* the engine thread sleeps without input */
		CHECK(!ibv_destroy_qp(qp));
		if (n == SETTLED || n == lopt.count)
			sleep_ms(50); /* the engine thread has noticed the end, too */
		if (n == SETTLED)
			before = crew_census();
	}
	crew_compare("the server", before, 512 + CREW_TABLES_KIB);
	rig_close(&r);
}

int clients(void)
{
	double start = now_s();
	int status;
	pid_t pid, one;

	CHECK(lopt.count > SETTLED);
	opt.timeout = 18;
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(server, NULL);
	for (uint32_t n = 1; n <= lopt.count; n++) {
		one = crew_fork(client, &n);
		CHECK(waitpid(one, &status, 0) == one);
		CHECK(n % 3 == 1 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
				 : status == 0);
		sh->joined[0] = n;
	}
	crew_reap(pid);
	say("%u clients, %.0f/s: all right", lopt.count, lopt.count / (now_s() - start));
	return 0;
}
