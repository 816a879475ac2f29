/* SPDX-License-Identifier: BSD-2-Clause */
/* fork.c - what is inherited, what is not, and what is left behind.
 *
 *	--mode=children   children open devices of their own; the parent works on
 *	--mode=deep       a child's child opens its own
 *	--mode=orphan     the child outlives its parent; SIGUSR1 sends it to work
 *	--mode=exec       fork and exec; posix_spawn: nothing of ours is inherited
 *	--mode=inherited  what exec runs
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lab/count.h"
#include "rig.h"

extern char **environ;

/* Every call on an inherited object must answer EIO. */
static void expect_dead(struct loop *l)
{
	struct ibv_sge sge = { (uintptr_t)l->rig.buf, 8, l->rig.mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { (uintptr_t)l->rig.buf, l->rig.mr->rkey },
	}, *bad;
	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;
	struct ibv_port_attr port;
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(l->rig.cq, 1, &wc) < 0);
	CHECK(ibv_post_send(l->a, &wr, &bad) == EIO);
	CHECK(ibv_post_recv(l->a, &recv, &bad_recv) == EIO);
	CHECK(ibv_req_notify_cq(l->rig.cq, 0) == EIO);
	CHECK(ibv_modify_qp(l->a, &attr, IBV_QP_STATE) == EIO);
	CHECK(ibv_query_port(l->rig.ctx, 1, &port) == EIO);
	CHECK(!ibv_alloc_pd(l->rig.ctx) && errno == EIO);
	CHECK(!ibv_reg_mr(l->rig.pd, l->rig.buf, 64, 0) && errno == EIO);
	CHECK(ibv_get_async_event(l->rig.ctx, &event) == -1 && errno == EIO);
	CHECK(ibv_dereg_mr(l->rig.mr) == EIO);
	CHECK(ibv_close_device(l->rig.ctx) == EIO);
}

static void work(struct loop *l, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		loop_traffic(l, i + (uint64_t)getpid());
}

static void own_device(void)
{
	struct loop own = { 0 };

	loop_open(&own);
	work(&own, 20);
	loop_close(&own);
}

static void reap(pid_t pid)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void children(struct loop *l)
{
	pid_t pid[4];

	for (int i = 0; i < 4; i++) {
		work(l, 5);
		pid[i] = fork();
		if (pid[i])
			continue;
		alarm(60);
		expect_dead(l);
		own_device();
		expect_dead(l);
		_exit(0);
	}
	work(l, 50);
	for (int i = 0; i < 4; i++)
		reap(pid[i]);
	work(l, 50);
}

static void deep(struct loop *l)
{
	struct loop own = { 0 };
	pid_t pid = fork(), grandchild;

	if (!pid) {
		alarm(60);
		loop_open(&own);
		work(&own, 10);
		grandchild = fork();
		if (!grandchild) {
			alarm(60);
			expect_dead(l);
			expect_dead(&own);
			own_device();
			_exit(0);
		}
		work(&own, 50);
		reap(grandchild);
		work(&own, 10);
		loop_close(&own);
		_exit(0);
	}
	work(l, 100);
	reap(pid);
	work(l, 10);
}

static void orphan(struct loop *l)
{
	sigset_t usr1;
	pid_t parent = getpid();
	int sig;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	if (fork()) {
		work(l, 20);
		_exit(0); /* _exit() closes nothing */
	}
	alarm(60);
	while (getppid() == parent)
		sleep_ms(5);
	say("orphan %d", (int)getpid());
	CHECK(!sigwait(&usr1, &sig));
	expect_dead(l);
	own_device();
	say("orphan all right");
	exit(0);
}

static unsigned descriptors(void)
{
	/* Minus ., .. and the descriptor of the listing. */
	return count_entries("/proc/self/fd") - 3;
}

static void execs(struct loop *l)
{
	char *argv[] = { "faults", "fork", "--mode=inherited", NULL };
	pid_t pid = fork();

	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	work(l, 50);
	reap(pid);
	CHECK(!posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ));
	work(l, 50);
	reap(pid);
	CHECK((pid = vfork()) >= 0);
	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	work(l, 50);
	reap(pid);
}

int forks(void)
{
	struct loop l = { 0 };

	CHECK(opt.mode);
	if (!strcmp(opt.mode, "inherited")) {
		CHECK(descriptors() == 3);
		own_device();
		return 0;
	}
	CHECK(descriptors() == 3);
	loop_open(&l);
	work(&l, 20);
	if (!strcmp(opt.mode, "children"))
		children(&l);
	else if (!strcmp(opt.mode, "deep"))
		deep(&l);
	else if (!strcmp(opt.mode, "orphan"))
		orphan(&l);
	else if (!strcmp(opt.mode, "exec"))
		execs(&l);
	else
		failed("no such mode", __FILE__, __LINE__);
	loop_close(&l);
	CHECK(descriptors() == 3);
	say("all right");
	return 0;
}
