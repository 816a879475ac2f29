/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_process.c - cases of verbs.c about forks, signals and the end. */
#include "verbs.h"

#include <pthread.h>
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

/* The loopback interface's iWARP device, with all that works without a connection. */
void iwarp_device(struct rig *r)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	struct ibv_context *ctx = NULL;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 },
	}, got;
	struct ibv_gid_entry e, one;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	(void)r;
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "iwarp_lo"))
			CHECK((ctx = ibv_open_device(list[i])));
	ibv_free_device_list(list);
	CHECK(ctx && ctx->device->transport_type == IBV_TRANSPORT_IWARP);
	CHECK(!ibv_query_gid_ex(ctx, 1, 0, &e, 0) && e.gid_type == IBV_GID_TYPE_IB);
	CHECK(ibv_query_gid_ex(ctx, 1, 1, &e, 0) == EINVAL);
	CHECK(ibv_query_gid_table(ctx, &one, 1, 0) == 1);
	CHECK(!memcmp(&one, &e, sizeof(e)));
	CHECK(ibv_query_gid_table(ctx, &one, 0, 0) == -EINVAL);
	CHECK((pd = ibv_alloc_pd(ctx)));
	CHECK(!ibv_create_ah(pd, &to) && errno == EOPNOTSUPP);
	CHECK((init.send_cq = init.recv_cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)));
	CHECK(!ibv_create_qp(pd, &init) && errno == EOPNOTSUPP);
	init.qp_type = IBV_QPT_RC;
	CHECK((qp = ibv_create_qp(pd, &init)));
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				     IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == EINVAL);
	CHECK(ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER |
				    IBV_QP_MAX_DEST_RD_ATOMIC) == EINVAL);
	a.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == EINVAL);
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &got) && a.qp_state == IBV_QPS_INIT);
	a.qp_state = IBV_QPS_ERR;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(init.send_cq));
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
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

/* Between ibv_wr_start and ibv_wr_complete a thread runs the program's own code: its
 * polls find completions. */
void polls_inside(struct rig *r)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(r->a);
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;
	int n = 0;

	write_one(r, r->mr->rkey, 8);
	for (int i = 0; i < 200 && !n; i++) {
		usleep(100000); /* meanwhile the engine completes the request */
		ibv_wr_start(x);
		n = ibv_poll_cq(r->cq, 1, &wc);
		CHECK(!n || ibv_start_poll(r->cq_ex, &attr) == ENOENT);
		ibv_wr_abort(x);
	}
	CHECK(n == 1);
	CHECK(ibv_poll_cq(r->cq, 1, &wc) == 0);
}

/* A signal handler polls while the program is in every kind of call. */
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

/* A program that closes the device with QPs left: the close succeeds, and the
 * outstanding requests stop. */
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

static volatile int may_end;

/* No function that it calls may be a cancellation point while it holds a lock: it is
 * cancelled only at the point that it allows itself. */
static void *comes_and_goes(void *arg)
{
	struct ibv_send_wr *bad, wrong = { .opcode = (enum ibv_wr_opcode)99 };
	struct rig r;

	for (;;) {
		may_end = 0;
		rig_open(&r);
		for (int i = 0; i < 20; i++) {
			CHECK(ibv_post_send(r.a, &wrong, &bad) == EINVAL);
			recv_one(&r, 64);
			send_one(&r, 64);
			CHECK(!take(&r).status && !take(&r).status);
		}
		rig_close(&r);
		++*(unsigned *)arg;
		may_end = 1;
		pthread_testcancel();
	}
	return NULL;
}

void cancelled(struct rig *r)
{
	unsigned seed = 1, rounds = 0;
	pthread_t thread;
	struct rig again;
	void *end;

	for (int i = 0; i < 150; i++) {
		CHECK(!pthread_create(&thread, NULL, comes_and_goes, &rounds));
		usleep((useconds_t)rand_r(&seed) % 4000);
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &end));
		CHECK(end == PTHREAD_CANCELED && may_end);
		rig_open(&again);
		write_one(&again, again.mr->rkey, 8);
		CHECK(!take(&again).status);
		rig_close(&again);
	}
	CHECK(rounds >= 150);
	write_one(r, r->mr->rkey, 8);
	CHECK(!take(r).status);
}
