/* SPDX-License-Identifier: BSD-2-Clause */
/* between NAME [repaired] - requests of two processes that meet in the memory of a third:
 * nothing orders them, or (repaired) the second is posted when the first is complete,
 * which its process hears by no way that verbs see.
 *
 * The owner is stopped while both are posted, so neither is executed before.  The exit
 * status is the owner's. */
#include <err.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_verbs.h"

enum { OWNER, FIRST, SECOND, PROCESSES };
enum { LEN = 64, LEAST = 8, MEMORY = 4096, ELSEWHERE = 2048, TURNS = 50 };

static const struct row {
	const char *name;
	enum ibv_wr_opcode first, second;
} rows[] = {
	{ "two-writes", IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE },
	{ "write-and-read", IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ },
	{ "read-and-write", IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE },
	{ "write-and-swap", IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP },
	{ "swap-and-write", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_RDMA_WRITE },
	{ "write-and-add", IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD },
};

/* In memory that all share */
static struct board {
	union ibv_gid gid;
	uint64_t at;
	uint32_t rkey, qpn[PROCESSES], owners[PROCESSES]; /* owners: its QP to that one */
	_Atomic bool made[PROCESSES], joined, over;
	sem_t go[PROCESSES], met, posted, done;
} * board;

/* Of one initiator */
struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	int me;
};

static void take(sem_t *s)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 30;
	must(!sem_timedwait(s, &end), "a process has not come so far");
}

/* --- queue pairs ------------------------------------------------------------------ */

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { 8, 8, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp, "QP");
	to_init(qp, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			    IBV_ACCESS_REMOTE_ATOMIC);
	return qp;
}

static void join(struct ibv_qp *qp, uint32_t qpn)
{
	const struct far_end far = {
		.qpn = qpn, .gid = board->gid, .reads = 4, .timeout = 18
	};

	to_rtr(qp, &far);
	to_rts(qp, &far);
}

static struct ibv_mr *make_memory(struct ibv_pd *pd)
{
	void *at = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct ibv_mr *mr;

	must(at != MAP_FAILED, "memory");
	mr = ibv_reg_mr(pd, at, MEMORY,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	must(mr, "region");
	return mr;
}

static int own(void)
{
	struct ibv_context *ctx = open_device(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_mr *mr = make_memory(pd);
	struct ibv_qp *qp[PROCESSES];

	for (int i = FIRST; i <= SECOND; i++) {
		qp[i] = make_qp(pd, cq);
		board->owners[i] = qp[i]->qp_num;
	}
	must(!ibv_query_gid(ctx, 1, 0, &board->gid), "GID");
	board->at = (uintptr_t)mr->addr;
	board->rkey = mr->rkey;
	atomic_store(&board->made[OWNER], true);
	for (int i = FIRST; i <= SECOND; i++) {
		until(&board->made[i]);
		join(qp[i], board->qpn[i]);
	}
	atomic_store(&board->joined, true);
	until(&board->over);
	return 0;
}

static struct side make_side(int me)
{
	struct ibv_context *ctx = open_device(NULL);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct side s = { .me = me, .mr = make_memory(pd) };

	s.cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	s.qp = make_qp(pd, s.cq);
	board->qpn[me] = s.qp->qp_num;
	atomic_store(&board->made[me], true);
	until(&board->made[OWNER]);
	join(s.qp, board->owners[me]);
	until(&board->joined);
	return s;
}

/* --- requests --------------------------------------------------------------------- */

static void post(const struct side *s, enum ibv_wr_opcode op, unsigned at)
{
	const bool atomic =
		op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge = { (uintptr_t)s->mr->addr, atomic ? LEAST : LEN,
			       s->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = IBV_SEND_SIGNALED };

	if (atomic) {
		wr.wr.atomic.remote_addr = board->at + at;
		wr.wr.atomic.rkey = board->rkey;
	} else {
		wr.wr.rdma.remote_addr = board->at + at;
		wr.wr.rdma.rkey = board->rkey;
	}
	must(!ibv_post_send(s->qp, &wr, &bad), "post");
}

static void reap(const struct side *s)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(s->cq, 1, &wc))
		;
	must(!wc.status, "completion");
}

/* Posts when it is told, and says when that is done.  Completions are waited for only
 * then. */
static int initiate(int me, enum ibv_wr_opcode op, unsigned turns)
{
	struct side s = make_side(me);

	post(&s, IBV_WR_RDMA_READ, ELSEWHERE + (unsigned)me * LEN); /* they have met */
	reap(&s);
	sem_post(&board->met);
	for (unsigned i = 0; i < turns; i++) {
		take(&board->go[me]);
		post(&s, op, 0);
		sem_post(&board->posted);
		reap(&s);
		sem_post(&board->done);
	}
	until(&board->over);
	return 0;
}

static void race(pid_t owner)
{
	int status;

	must(!kill(owner, SIGSTOP) && waitpid(owner, &status, WUNTRACED) == owner,
	     "the owner stops");
	for (int i = FIRST; i <= SECOND; i++) {
		sem_post(&board->go[i]);
		take(&board->posted);
	}
	kill(owner, SIGCONT);
	take(&board->done);
	take(&board->done);
}

static void take_turns(void)
{
	for (unsigned i = 0; i < TURNS; i++)
		for (int k = FIRST; k <= SECOND; k++) {
			sem_post(&board->go[k]);
			take(&board->done);
		}
}

/* --- processes --------------------------------------------------------------------- */

static pid_t begin(int who, const struct row *row, unsigned turns)
{
	const pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	exit(who == OWNER
		     ? own()
		     : initiate(who, who == FIRST ? row->first : row->second, turns));
}

static int run(const struct row *row, bool repaired)
{
	pid_t pid[PROCESSES];
	int status, worst = 0;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(board != MAP_FAILED, "memory");
	for (int i = 0; i < PROCESSES; i++)
		sem_init(&board->go[i], 1, 0);
	sem_init(&board->met, 1, 0);
	sem_init(&board->posted, 1, 0);
	sem_init(&board->done, 1, 0);
	for (int i = 0; i < PROCESSES; i++)
		pid[i] = begin(i, row, repaired ? TURNS : 1);
	take(&board->met);
	take(&board->met);
	if (repaired)
		take_turns();
	else
		race(pid[OWNER]);
	atomic_store(&board->over, true);
	printf("first %d second %d\n", (int)pid[FIRST], (int)pid[SECOND]);
	for (int i = 0; i < PROCESSES; i++) {
		must(waitpid(pid[i], &status, 0) == pid[i] && WIFEXITED(status), "end");
		if (i == OWNER)
			worst = WEXITSTATUS(status);
		else
			must(!WEXITSTATUS(status), "an initiator");
	}
	puts("done");
	return worst;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (argc < 2)
			puts(rows[i].name);
		else if (!strcmp(rows[i].name, argv[1]))
			return run(&rows[i], argc > 2);
	}
	return argc < 2 ? 0 : 2;
}
