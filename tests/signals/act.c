/* SPDX-License-Identifier: BSD-2-Clause */
/* act.c - what the program and its signal handler do, by name:
 *
 *	write, send	post one, and poll
 *	recv		post a receive
 *	poll, arm	a completion queue
 *	reg, qp, query	control calls
 *	fork		the child reads its copy of the memory, and changes it
 *
 * The program and the handler have QPs and completion queues of their own; HANDLER may be
 * "own-...": then the handler uses the program's.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

enum { LEN = 64, AT = RIG_BUF - 8192, MARK = RIG_BUF - 4096, BLOCK = 20000, TRIES = 4 };

struct actor {
	struct loop *l;
	unsigned posted, done, received;
	bool handler; /* it may be refused */
	uint8_t *block;
};

struct act {
	const char *name;
	void (*run)(struct actor *a);
};

static struct loop loops[2];
static struct actor program, handler = { .handler = true };
static const struct act *in_program, *in_handler;
static volatile unsigned runs, refused;

/* Was a call done?  rc: 0 or an errno. */
static bool was_done(const struct actor *a, int rc)
{
	if (!rc)
		return true;
	if (a->handler && rc == EDEADLK)
		refused++;
	else if (rc != ENOMEM) /* the queue is full: completions are polled later */
		failed(strerror(rc), __FILE__, __LINE__);
	return false;
}

static void poll_some(struct actor *a)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(a->l->rig.cq, 4, wc);

	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS);
	a->done += (unsigned)n;
}

static void post(struct actor *a, enum ibv_wr_opcode opcode)
{
	const struct rig *r = &a->l->rig;
	struct ibv_sge sge = { (uintptr_t)r->buf + AT, LEN, r->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)r->buf + AT + LEN, r->mr->rkey },
	}, *bad;

	if (was_done(a, ibv_post_send(a->l->a, &wr, &bad)))
		a->posted++;
	for (int i = 0; i < TRIES; i++)
		poll_some(a);
}

static void do_write(struct actor *a)
{
	post(a, IBV_WR_RDMA_WRITE);
}

static void do_recv(struct actor *a)
{
	const struct rig *r = &a->l->rig;
	struct ibv_sge sge = { (uintptr_t)r->buf + AT + 2 * LEN, LEN, r->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (was_done(a, ibv_post_recv(a->l->b, &wr, &bad)))
		a->received++;
}

/* A SEND needs a receive, which completes as well. */
static void do_send(struct actor *a)
{
	unsigned before = a->received;

	do_recv(a);
	if (a->received == before)
		return;
	before = a->posted;
	post(a, IBV_WR_SEND);
	if (a->posted == before)
		return;
	a->posted++;
	a->received--;
}

static void do_poll(struct actor *a)
{
	poll_some(a);
}

static void do_arm(struct actor *a)
{
	(void)was_done(a, ibv_req_notify_cq(a->l->rig.cq, 0));
}

static void do_reg(struct actor *a)
{
	struct ibv_mr *mr = ibv_reg_mr(a->l->rig.pd, a->block, BLOCK, RIG_ACCESS);

	if (was_done(a, mr ? 0 : errno) && mr)
		CHECK(!ibv_dereg_mr(mr));
}

static void do_qp(struct actor *a)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = a->l->rig.cq,
		.recv_cq = a->l->rig.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
	};
	struct ibv_qp *qp = ibv_create_qp(a->l->rig.pd, &attr);

	if (was_done(a, qp ? 0 : errno) && qp)
		CHECK(!ibv_destroy_qp(qp));
}

static void do_query(struct actor *a)
{
	struct ibv_port_attr port;

	(void)was_done(a, ibv_query_port(a->l->rig.ctx, 1, &port));
}

static uint8_t *mark_of(const struct actor *a)
{
	return a->l->rig.buf + MARK;
}

static void do_fork(struct actor *a)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		for (int i = 0; i < LEN; i++)
			if (mark_of(a)[i] != i)
				_exit(1);
		memset(mark_of(a), 0xff, LEN);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	for (int i = 0; i < LEN; i++)
		CHECK(mark_of(a)[i] == i);
}

static const struct act acts[] = {
	{ "write", do_write }, { "send", do_send },   { "recv", do_recv },
	{ "poll", do_poll },   { "arm", do_arm },     { "reg", do_reg },
	{ "qp", do_qp },       { "query", do_query }, { "fork", do_fork },
};

static const struct act *act_of(const char *name)
{
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		if (!strncmp(name, acts[i].name, strlen(acts[i].name)))
			return &acts[i];
	failed("no such mode", __FILE__, __LINE__);
}

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	runs++;
	in_handler->run(&handler);
	errno = saved;
}

static void open_actor(struct actor *a, struct loop *l)
{
	a->l = l;
	a->block = malloc(BLOCK);
	CHECK(a->block);
	for (int i = 0; i < LEN; i++)
		mark_of(a)[i] = (uint8_t)i;
}

void act_open(int sig)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const char *second = opt.mode ? strchr(opt.mode, '-') : NULL;
	bool own;

	CHECK(second);
	own = !strncmp(second, "-own-", 5);
	in_program = act_of(opt.mode);
	in_handler = act_of(second + (own ? 5 : 1));
	loop_open(&loops[0]);
	loop_open(&loops[1]);
	open_actor(&program, &loops[0]);
	open_actor(&handler, &loops[own ? 0 : 1]);
	CHECK(!sigaction(sig, &sa, NULL));
}

void act_main(void)
{
	sigset_t all, was;

	in_program->run(&program);
	/* A handler that always interrupts a call never sees a completion. */
	sigfillset(&all);
	CHECK(!sigprocmask(SIG_BLOCK, &all, &was));
	poll_some(&handler);
	CHECK(!sigprocmask(SIG_SETMASK, &was, NULL));
}

/* Waits for the completions of all that was posted. */
static void settle(void)
{
	double end = now_s() + 20;

	while (program.done + handler.done < program.posted + handler.posted) {
		poll_some(&program);
		poll_some(&handler);
		CHECK(now_s() < end);
	}
	for (int i = 0; i < TRIES; i++) {
		poll_some(&program);
		poll_some(&handler);
	}
	CHECK(program.done + handler.done == program.posted + handler.posted);
}

void act_close(void)
{
	settle();
	for (unsigned i = 0; i < 2; i++) {
		loop_traffic(&loops[i], i + 1);
		loop_close(&loops[i]);
	}
}

void act_say(void)
{
	say("%u signals, %u calls refused", runs, refused);
}
