/* SPDX-License-Identifier: BSD-2-Clause */
/* build.c - between ibv_wr_start() and ibv_wr_complete() a program may do
 * anything but post to the same QP; other threads that do so wait.
 *
 *	poll	its completions come
 *	recv	what a peer sends is received
 *	dereg	regions come and go
 *	fork	a child lives, and the parent goes on
 *	error	the QP goes to ERR: what was built is flushed
 *	reset	... to RESET: what was built is refused
 *	destroy	the QP itself ends
 *	lost	the program closes our descriptors
 *	posts	another thread's post goes out behind what is built
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "threads.h"

enum { LEN = 64, OUT = 0, IN = 4096, PSN = 9 };

static struct rig r;
static struct ibv_qp *a, *b;
static struct ibv_qp_ex *ex;

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = r.cq,
		.recv_cq = r.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = RIG_DEPTH,
			 .max_recv_wr = RIG_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = RIG_ACCESS,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r.ctx, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void receive(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)r.buf + IN, LEN, r.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static void send_one(struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)r.buf + OUT, LEN, r.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void draft(uint64_t id)
{
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, r.mr->lkey, (uintptr_t)r.buf + OUT, LEN);
}

/* Expects exactly these completions, in any order; a number of 0 stands for none. */
static void expect(enum ibv_wc_status status, uint64_t one, uint64_t other)
{
	uint64_t left[2] = { one, other };

	for (int n = !!one + !!other; n; n--) {
		struct ibv_wc wc = rig_wait(&r);

		if (wc.status != status)
			say("%d: %s", (int)wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(wc.status == status);
		CHECK(wc.wr_id == left[0] || wc.wr_id == left[1]);
		left[wc.wr_id == left[1]] = 0;
	}
}

static void to_state(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!ibv_modify_qp(a, &attr, IBV_QP_STATE));
}

/* Posts the built requests, which must arrive. */
static void finish(void)
{
	receive(b, 90);
	CHECK(!ibv_wr_complete(ex));
	expect(IBV_WC_SUCCESS, 5, 90);
}

/* --- the modes ----------------------------------------------------------- */

/* A request that was posted before the start completes, by polling, and so does what it
 * needs of b. */
static void polls(void)
{
	receive(b, 2);
	send_one(a, 1);
	ibv_wr_start(ex);
	draft(5);
	expect(IBV_WC_SUCCESS, 1, 2);
	finish();
}

static void receives(void)
{
	receive(a, 2);
	ibv_wr_start(ex);
	draft(5);
	send_one(b, 1);
	expect(IBV_WC_SUCCESS, 1, 2);
	receive(a, 3); /* posting a receive does not wait */
	send_one(b, 4);
	sleep_ms(20); /* so that the engine thread runs, too */
	expect(IBV_WC_SUCCESS, 3, 4);
	finish();
}

static void deregisters(void)
{
	ibv_wr_start(ex);
	draft(5);
	for (int i = 0; i < 100; i++) {
		struct ibv_mr *mr = ibv_reg_mr(r.pd, r.buf, RIG_BUF, RIG_ACCESS);

		send_one(b, 1); /* so that the engine has input for the QP */
		receive(a, 2);
		CHECK(mr && !ibv_dereg_mr(mr));
		expect(IBV_WC_SUCCESS, 1, 2);
	}
	finish();
}

static void forks_once(void)
{
	int status;
	pid_t pid;

	receive(a, 2);
	ibv_wr_start(ex);
	draft(5);
	send_one(b, 1);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(20);
		for (int i = 0; i < 2 * RIG_DEPTH; i++)
			draft(6);
		CHECK(ibv_wr_complete(ex) == EIO);
		ibv_wr_start(ex);
		draft(6);
		ibv_wr_abort(ex);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	expect(IBV_WC_SUCCESS, 1, 2);
	finish();
}

static void fails(void)
{
	receive(a, 2);
	ibv_wr_start(ex);
	draft(5);
	to_state(IBV_QPS_ERR);
	expect(IBV_WC_WR_FLUSH_ERR, 2, 0);
	draft(6);
	CHECK(!ibv_wr_complete(ex));
	expect(IBV_WC_WR_FLUSH_ERR, 5, 6);
}

static void resets(void)
{
	struct ibv_wc wc;

	ibv_wr_start(ex);
	draft(5);
	to_state(IBV_QPS_RESET);
	CHECK(ibv_wr_complete(ex) == EINVAL);
	CHECK(ibv_poll_cq(r.cq, 1, &wc) == 0);
}

static void destroys(void)
{
	ibv_wr_start(ex);
	draft(5);
	CHECK(!ibv_destroy_qp(a));
	a = NULL;
}

static void loses(void)
{
	struct ibv_wc wc;

	ibv_wr_start(ex);
	draft(5);
	for (int fd = 3; fd < 4096; fd++)
		close(fd);
	for (int i = 0; i < 20000 && ibv_poll_cq(r.cq, 1, &wc) >= 0; i++)
		sleep_ms(1);
	CHECK(ibv_wr_complete(ex) == EIO);
	ibv_wr_start(ex);
	draft(5);
	CHECK(ibv_wr_complete(ex) == EIO);
}

static atomic_bool posted;

static void *post_behind(void *arg)
{
	(void)arg;
	send_one(a, 6);
	atomic_store(&posted, true);
	return NULL;
}

static void posts(void)
{
	struct ibv_wc wc;
	pthread_t other;

	receive(b, 90);
	receive(b, 91);
	for (int i = 0; i < 2; i++) { /* first by complete, then by abort */
		atomic_store(&posted, false);
		ibv_wr_start(ex);
		draft(5);
		CHECK(!pthread_create(&other, NULL, post_behind, NULL));
		sleep_ms(50);
		CHECK(!atomic_load(&posted));
		CHECK(ibv_poll_cq(r.cq, 1, &wc) == 0);
		if (i == 0)
			CHECK(!ibv_wr_complete(ex));
		else
			ibv_wr_abort(ex);
		CHECK(!pthread_join(other, NULL));
		if (i == 0) {
			for (int n = 0; n < 4; n++)
				CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
			receive(b, 90);
		} else {
			expect(IBV_WC_SUCCESS, 6, 90);
		}
	}
}

/* clang-format off */
static const struct mode { const char *name; void (*run)(void); bool ends; } modes[] = {
	{ "poll", polls, false }, { "recv", receives, false },
	{ "dereg", deregisters, false }, { "fork", forks_once, false },
	{ "error", fails, false }, { "reset", resets, false },
	{ "destroy", destroys, false }, { "posts", posts, false },
	{ "lost", loses, true },
};
/* clang-format on */

int build(void)
{
	const struct mode *m = modes;

	while (strcmp(m->name, opt.mode))
		CHECK(++m < modes + sizeof(modes) / sizeof(modes[0]));
	alarm(30);
	rig_open(&r);
	a = make_qp();
	b = make_qp();
	ex = ibv_qp_to_qp_ex(a);
	rig_join(&r, a, b->qp_num, PSN, &r.gid);
	rig_join(&r, b, a->qp_num, PSN, &r.gid);
	m->run();
	if (!m->ends) {
		CHECK(!a || !ibv_destroy_qp(a));
		CHECK(!ibv_destroy_qp(b));
		rig_close(&r);
	}
	say("all right");
	return 0;
}
