/* SPDX-License-Identifier: BSD-2-Clause */
/* paused.c - a requester without retries is stopped for longer than its timeout
 * while its answer comes in.  Whatever it does first when it goes on, the answer
 * counts, not the time.
 *
 *	poll	it polls
 *	sleep	it sleeps on the completion channel
 *	post	it posts another request
 *	first	as poll, right after its first request: that may not have left before
 *		the process goes on
 *
 * Except for the first request, the responder is stopped until the requester is,
 * so that there is no answer before.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "threads.h"

enum { LEN = 8, RECVS = 8, WARM_UP = 50, STOPPED_MS = 500, LATE_S = 5 };

static struct {
	struct card card[2];
	_Atomic uint32_t ready, posting, got, done;
} * sh;

static void answering(void *arg)
{
	struct ibv_qp *qp;
	struct rig r;

	(void)arg;
	rig_open(&r);
	qp = rig_qp(&r);
	sh->card[1] = crew_card(&r, qp);
	atomic_fetch_add(&sh->ready, 1);
	crew_wait(&sh->ready, 2);
	crew_join(&r, qp, &sh->card[0]);
	for (int i = 0; i < RECVS; i++)
		crew_recv(&r, qp, 0, LEN);
	atomic_fetch_add(&sh->ready, 1);
	while (!atomic_load(&sh->done)) { /* the engine thread answers */
		struct ibv_wc wc;

		sleep_ms(1);
		while (ibv_poll_cq(r.cq, 1, &wc) > 0) {
			crew_recv(&r, qp, 0, LEN);
			sh->got++;
		}
	}
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

static void ask(struct rig *r, struct ibv_qp *qp, const struct card *c)
{
	rig_post(r, qp, IBV_WR_SEND, 0, LEN, c->addr, c->rkey, 0);
}

/* Opens the requester's end, once the responder is ready. */
static struct ibv_qp *meet(struct rig *r)
{
	struct ibv_qp *qp;

	rig_open(r);
	qp = rig_qp(r);
	sh->card[0] = crew_card(r, qp);
	atomic_fetch_add(&sh->ready, 1);
	crew_wait(&sh->ready, 2);
	crew_join(r, qp, &sh->card[1]);
	crew_wait(&sh->ready, 3);
	return qp;
}

static void part(struct rig *r, struct ibv_qp *qp)
{
	atomic_store(&sh->done, 1);
	CHECK(!ibv_destroy_qp(qp));
	rig_close(r);
}

static void answered(struct rig *r, uint32_t n)
{
	struct ibv_wc wc = rig_wait(r);

	if (wc.status != IBV_WC_SUCCESS)
		say("round %u: %s", n, ibv_wc_status_str(wc.status));
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void asking_first(void *arg)
{
	struct rig r;
	struct ibv_qp *qp = meet(&r);

	ask(&r, qp, &sh->card[1]);
	raise(SIGSTOP);
	answered(&r, *(const uint32_t *)arg);
	part(&r, qp);
}

static void asking(void *arg)
{
	const struct card *theirs = &sh->card[1];
	struct rig r;
	struct ibv_qp *qp = meet(&r);

	(void)arg;
	/* By UDP the two processes share a port, and each forwards datagrams that are
	 * the other's until the steering is complete. */
	for (int i = 0; i < WARM_UP; i++) {
		ask(&r, qp, theirs);
		CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
		sleep_ms(2);
	}
	for (uint32_t n = 1; n <= topt.count; n++) {
		atomic_store(&sh->posting, n);
		raise(SIGSTOP); /* waits until the responder has stopped */
		ask(&r, qp, theirs);
		raise(SIGSTOP);
		if (!strcmp(opt.mode, "post"))
			ask(&r, qp, theirs);
		for (int i = !strcmp(opt.mode, "post"); i >= 0; i--)
			answered(&r, n);
	}
	part(&r, qp);
}

static void await_stop(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

static void stop(pid_t pid)
{
	CHECK(!kill(pid, SIGSTOP));
	await_stop(pid);
}

/* Waits for the receive, unless the requester was stopped before its request went
 * out. */
static void await_receive(uint32_t count)
{
	double end = now_s() + LATE_S;

	while (sh->got < count && now_s() < end)
		crew_nap();
}

static int paused_first(void)
{
	pid_t a, b;

	for (uint32_t n = 1; n <= topt.count; n++) {
		sh = crew_share(sizeof(*sh));
		b = crew_fork(answering, NULL);
		a = crew_fork(asking_first, &n);
		await_stop(a);
		sleep_ms(STOPPED_MS);
		CHECK(!kill(a, SIGCONT));
		crew_reap(a);
		crew_reap(b);
	}
	say("all right");
	return 0;
}

int paused(void)
{
	uint32_t a_round;
	pid_t a, b;

	opt.timeout = 16; /* 268 ms */
	opt.retries = 0;
	opt.events = !strcmp(opt.mode, "sleep");
	if (!strcmp(opt.mode, "first"))
		return paused_first();
	a_round = strcmp(opt.mode, "post") ? 1 : 2;
	sh = crew_share(sizeof(*sh));
	b = crew_fork(answering, NULL);
	a = crew_fork(asking, NULL);
	for (uint32_t n = 1; n <= topt.count; n++) {
		await_stop(a);
		stop(b);
		CHECK(!kill(a, SIGCONT));
		await_stop(a);
		CHECK(!kill(b, SIGCONT));
		await_receive(WARM_UP + (n - 1) * a_round + 1);
		/* The answer has arrived, and the timeout is over. */
		sleep_ms(STOPPED_MS);
		CHECK(!kill(a, SIGCONT));
	}
	crew_reap(a);
	crew_reap(b);
	say("all right");
	return 0;
}
