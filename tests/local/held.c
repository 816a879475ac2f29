/* SPDX-License-Identifier: BSD-2-Clause */
/* held.c - a process is stopped while it writes to another's memory, which takes
 * the memory, or the QP, away meanwhile: that does not wait for it, and nothing is
 * written any more when it goes on.  In each round a new writer:
 *
 *	--mode=signal	is stopped at any point (SIGSTOP)
 *	--mode=entry	is held where its process_vm_writev() begins (ptrace)
 *	--mode=exit	... and where it ends
 */
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "crew.h"
#include "pattern.h"

enum { LEN = 256 << 10, BEFORE = 3, WAYS = 3, SETTLED_MS = 3 };
enum { CALL = SIGTRAP | 0x80 }; /* PTRACE_O_TRACESYSGOOD */
#define LIMIT_S 8.0		/* a busy machine takes longer */

static struct {
	struct card owner, writer;
	_Atomic uint32_t is_there, joined, used, done;
} * sh;

/* One of each writer, which sleeps until its round: hundreds that looked from time to
 * time would take the processors from the one that is tested. */
static sem_t *go;

static struct rig r;
static double longest;

static bool is_traced(void)
{
	return strcmp(opt.mode, "signal") != 0;
}

/* --- the writer ---------------------------------------------------------- */

static void be_writer(void *arg)
{
	uint32_t round = *(uint32_t *)arg;
	uint32_t len = mix(round) % 2 ? LEN : 1 + (uint32_t)(mix(round) % 5000);
	struct ibv_qp *qp;

	alarm(0);
	while (sem_wait(&go[round]))
		;
	alarm(60);
	rig_open(&r);
	qp = rig_qp(&r);
	memset(r.buf, 0xee, LEN);
	sh->writer = crew_card(&r, qp);
	sh->is_there = round;
	crew_join(&r, qp, &sh->owner);
	crew_wait(&sh->joined, round);
	for (unsigned n = 0;; n++) {
		rig_post(&r, qp, IBV_WR_RDMA_WRITE, 0, len, sh->owner.addr,
			 sh->owner.rkey, 0);
		if (rig_wait(&r).status != IBV_WC_SUCCESS)
			break;
		if (n == BEFORE && is_traced()) {
			CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
			raise(SIGSTOP);
		}
		if (n == BEFORE)
			sh->used = round;
	}
	sh->done = round;
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

/* --- its owner ----------------------------------------------------------- */

/* The writer stands at the system call's entry or exit. */
static void hold_at_call(pid_t pid)
{
	struct __ptrace_syscall_info info;
	bool begun = false;
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, 0,
		      PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, 0, 0));
		CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
		if (WSTOPSIG(status) != CALL)
			continue;
		CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0);
		if (begun && info.op == PTRACE_SYSCALL_INFO_EXIT)
			return;
		begun = info.op == PTRACE_SYSCALL_INFO_ENTRY &&
			info.entry.nr == SYS_process_vm_writev;
		if (begun && !strcmp(opt.mode, "entry"))
			return;
	}
}

static void hold(pid_t pid, uint32_t round)
{
	double until;
	int status;

	if (is_traced()) {
		hold_at_call(pid);
		return;
	}
	crew_wait(&sh->used, round);
	until = now_s() + (double)(mix(round) % 400) * 1e-6;
	while (now_s() < until)
		;
	CHECK(!kill(pid, SIGSTOP));
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

static void let_go(pid_t pid)
{
	CHECK(is_traced() ? !ptrace(PTRACE_DETACH, pid, 0, 0) : !kill(pid, SIGCONT));
}

static void note(double start)
{
	double took = now_s() - start;

	if (took > longest)
		longest = took;
	CHECK(took < LIMIT_S);
}

/* A QP and a region that the writer has never used: no wait for the writer. */
static void take_others_away(void)
{
	struct ibv_qp *qp = rig_qp(&r);
	struct ibv_mr *mr = ibv_reg_mr(r.pd, r.buf, LEN, RIG_ACCESS);
	double start = now_s();

	CHECK(mr && !ibv_dereg_mr(mr) && !ibv_destroy_qp(qp));
	CHECK(now_s() - start < LIMIT_S);
}

static void one_round(uint32_t round, pid_t pid, uint8_t *at)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_mr *mr = ibv_reg_mr(r.pd, at, LEN, RIG_ACCESS);
	struct ibv_qp *qp = rig_qp(&r);
	unsigned way = round % WAYS;
	double start;

	CHECK(mr);
	sh->owner = (struct card){ qp->qp_num, mr->rkey, (uintptr_t)at, r.gid };
	CHECK(!sem_post(&go[round]));
	crew_wait(&sh->is_there, round);
	crew_join(&r, qp, &sh->writer);
	sh->joined = round;
	hold(pid, round);
	take_others_away();
	start = now_s();
	if (way == 0)
		CHECK(!ibv_dereg_mr(mr));
	else if (way == 1)
		CHECK(!ibv_modify_qp(qp, &err, IBV_QP_STATE));
	else
		CHECK(!ibv_destroy_qp(qp));
	note(start);
	pattern_fill(at, LEN, round);
	let_go(pid);
	crew_wait(&sh->done, round);
	CHECK(pattern_check(at, LEN, round) == LEN);
	crew_reap(pid);
	sleep_ms(SETTLED_MS);
	CHECK(pattern_check(at, LEN, round) == LEN);
	CHECK(way == 0 || !ibv_dereg_mr(mr));
	CHECK(way == 2 || !ibv_destroy_qp(qp));
}

int held(void)
{
	pid_t *pid = calloc(lopt.count, sizeof(*pid));
	uint8_t *at;

	CHECK(opt.mode && pid);
	opt.timeout = 14;
	opt.retries = 7; /* half a second, within which the owner has to answer */
	sh = crew_share(sizeof(*sh));
	go = crew_share((lopt.count + 1) * sizeof(*go));
	for (uint32_t i = 0; i < lopt.count; i++) {
		uint32_t round = i + 1;

		CHECK(!sem_init(&go[round], 1, 0));
		pid[i] = crew_fork(be_writer, &round);
	}
	rig_open(&r);
	at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	for (uint32_t i = 0; i < lopt.count; i++)
		one_round(i + 1, pid[i], at);
	munmap(at, LEN);
	rig_close(&r);
	free(pid);
	say("%u times, %.3f s at most: all right", lopt.count, longest);
	return 0;
}
