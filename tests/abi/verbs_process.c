/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_process.c - cases of verbs.c about forks, signals and the end. */
#include "verbs.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static void child(struct rig *r)
{
	struct ibv_send_wr wr = { 0 }, *bad = NULL;
	struct ibv_async_event event;
	struct ibv_port_attr port;
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->a);
	struct ibv_wc wc;
	struct rig own;

	CHECK(ibv_poll_cq(r->cq, 1, &wc) == -EIO);
	CHECK(ibv_post_send(r->a, &wr, &bad) == EIO && bad == &wr);
	CHECK(___ibv_query_port(r->ctx, 1, &port) == EIO);
	CHECK(!ibv_alloc_pd(r->ctx) && errno == EIO);
	CHECK(ibv_destroy_qp(r->a) == EIO && ibv_dereg_mr(r->mr) == EIO);
	CHECK(ibv_get_async_event(r->ctx, &event) == -1 && errno == EIO);
	ibv_wr_start(x);
	ibv_wr_send(x);
	CHECK(ibv_wr_complete(x) == EIO);
	CHECK(ibv_start_poll(r->cq_ex, &(struct ibv_poll_cq_attr){ 0 }) == EIO);
	CHECK(ibv_close_device(r->ctx) == EIO);
	rig_open(&own);
	write_one(&own, own.mr->rkey, 8);
	CHECK(take(&own).status == IBV_WC_SUCCESS);
	rig_close(&own);
}

void forks(struct rig *r)
{
	pid_t pid;
	int status;

	CHECK(!ibv_fork_init() && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	pid = fork();
	if (!pid) {
		child(r);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	write_one(r, r->mr->rkey, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS);
}

static struct rig *rig_of_handler;
static volatile sig_atomic_t handled, got;

static void on_alarm(int sig)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(rig_of_handler->cq, 1, &wc);

	(void)sig;
	handled++;
	if (n > 0)
		got++;
	else if (n < 0)
		_exit(3);
}

/* Between wr_start and wr_complete a thread is inside a call: its polls, which
 * can only be a handler's, find nothing. */
void polls_inside(struct rig *r)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->a);
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;

	write_one(r, r->mr->rkey, 8);
	usleep(100000);				/* the engine completes it */
	ibv_wr_start(x);
	CHECK(ibv_poll_cq(r->cq, 1, &wc) == 0);
	CHECK(ibv_start_poll(r->cq_ex, &attr) == ENOENT);
	ibv_wr_abort(x);
	CHECK(ibv_poll_cq(r->cq, 1, &wc) == 1);
}

/* A handler polls while the program is in every kind of call. */
void handlers(struct rig *r)
{
	struct itimerval every = { { 0, 200 }, { 0, 200 } };
	struct ibv_wc wc;
	int n;

	rig_of_handler = r;
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0, mine = 0; i < 3000 || handled <= 20; i++) {
		struct ibv_mr *mr = ibv_reg_mr(r->pd, r->buf, 64, 0);

		write_one(r, r->mr->rkey, 64);
		CHECK(mr && !ibv_dereg_mr(mr));
		while (mine + got <= i) {
			n = ibv_poll_cq(r->cq, 1, &wc);
			CHECK(n >= 0);
			mine += n;
		}
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

/* A program that does not tidy up closes the device all the same, and what it
 * had under way stops. */
void closes_with_qps_left(struct rig *r)
{
	static const uint8_t zero[BIG];
	struct rig other;

	rig_open(&other);
	memset(r->buf, 1, BIG);
	for (int i = 0; i < 16; i++)
		write_one(r, r->mr->rkey, BIG);
	CHECK(!ibv_close_device(r->ctx));
	memset(r->buf + FAR, 0, BIG);
	usleep(100000);
	CHECK(!memcmp(r->buf + FAR, zero, BIG));
	write_one(&other, other.mr->rkey, 8);
	CHECK(take(&other).status == IBV_WC_SUCCESS);
	rig_close(&other);
	r->ctx = NULL;
}
