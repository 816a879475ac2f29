/* SPDX-License-Identifier: BSD-2-Clause */
/* races NAME [repaired] - a program whose requests meet in memory, or the same as it
 * should be; see race_rig.h. */
#include "race_rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_verbs.h"

/* What one process tells the other, in memory that they share. */
struct told {
	uint32_t qpn[QPS], rkey;
	uint64_t at;
	union ibv_gid gid;
	_Atomic bool made, joined;
};

static struct told *told;

enum {
	RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
};

_Noreturn void race_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "FAILED %s:%d: %s (errno %m)\n", file, line, what);
	exit(3);
}

/* The two sides' memory is at different addresses. */
static void make(struct side *s, struct told *t)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { DEPTH, DEPTH, 2, 2, 64 } };

	s->ctx = open_device(NULL);
	MUST((s->pd = ibv_alloc_pd(s->ctx)));
	s->at = mmap(NULL, 2 * MEMORY, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(s->at != MAP_FAILED);
	s->at += t == told ? 0 : MEMORY;
	MUST((s->mr = ibv_reg_mr(s->pd, s->at, MEMORY, RIGHTS)));
	for (int i = 0; i < QPS; i++) {
		MUST((s->cq[i] = ibv_create_cq(s->ctx, 2 * DEPTH, NULL, NULL, 0)));
		init.send_cq = init.recv_cq = s->cq[i];
		MUST((s->qp[i] = ibv_create_qp(s->pd, &init)));
		to_init(s->qp[i], RIGHTS);
		t->qpn[i] = s->qp[i]->qp_num;
	}
	MUST(!ibv_query_gid(s->ctx, 1, 0, &t->gid));
	t->rkey = s->mr->rkey;
	t->at = (uintptr_t)s->at;
	atomic_store(&t->made, true);
}

static void meet(struct side *s, int me)
{
	const struct told *other = &told[!me];

	make(s, &told[me]);
	until(&other->made);
	for (int i = 0; i < QPS; i++) {
		const struct far_end far = {
			.qpn = other->qpn[i], .gid = other->gid, .reads = 8, .timeout = 14
		};

		to_rtr(s->qp[i], &far);
		to_rts(s->qp[i], &far);
	}
	memcpy(s->far_qpn, other->qpn, sizeof(s->far_qpn));
	s->far_gid = other->gid;
	s->far = other->at;
	s->rkey = other->rkey;
	atomic_store(&told[me].joined, true);
	until(&other->joined);
}

void reset(struct side *s, int i)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

	MUST(!ibv_modify_qp(s->qp[i], &reset, IBV_QP_STATE));
}

void connect_again(struct side *s, int i, struct end_how how)
{
	const struct far_end far = { .qpn = s->far_qpn[i],
				     .gid = s->far_gid,
				     .reads = how.reads,
				     .timeout = 14,
				     .mtu = how.mtu,
				     .rq_psn = how.rq_psn };
	to_init(s->qp[i], RIGHTS);
	to_rtr(s->qp[i], &far);
	to_rts(s->qp[i], &far);
}

/* --- requests ------------------------------------------------------------------- */

void post(struct side *s, int qp, struct post p)
{
	static uint64_t id;
	struct ibv_sge sge = { (uintptr_t)s->at + p.at, p.len, s->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = ++id,
					.sg_list = &sge,
					.num_sge = 1,
					.opcode = p.op,
					.send_flags = p.flags };

	if (p.op == IBV_WR_ATOMIC_CMP_AND_SWP || p.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = s->far + p.at + p.away;
		wr.wr.atomic.rkey = s->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = s->far + p.at + p.away;
		wr.wr.rdma.rkey = s->rkey;
	}
	MUST(!ibv_post_send(s->qp[qp], &wr, &bad));
}

void post_recv(struct side *s, int qp, unsigned at, unsigned len)
{
	struct ibv_sge sge = { (uintptr_t)s->at + at, len, s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1000, .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(s->qp[qp], &wr, &bad));
}

uint64_t reap(struct side *s, int qp)
{
	const time_t end = time(NULL) + 10;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(s->cq[qp], 1, &wc)) && time(NULL) <= end)
		;
	MUST(n == 1);
	MUST(wc.status == IBV_WC_SUCCESS);
	return wc.wr_id;
}

void await_byte(struct side *s, unsigned at, uint8_t value)
{
	const time_t end = time(NULL) + 10;

	while (*(volatile uint8_t *)(s->at + at) != value)
		MUST(time(NULL) <= end);
}

void settle(struct side *s, int qp)
{
	post(s, qp,
	     (struct post){ IBV_WR_RDMA_READ, MEMORY - 64, 8, IBV_SEND_SIGNALED, 0 });
	reap(s, qp);
}

/* --- two processes ---------------------------------------------------------------- */

static int run(const struct race_case *c, bool repaired)
{
	struct side s = { 0 };
	int status;

	told = mmap(NULL, 2 * sizeof(*told), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(told != MAP_FAILED);
	s.peer = fork();
	MUST(s.peer >= 0);
	meet(&s, !s.peer);
	if (!s.peer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (c->peer)
			c->peer(&s);
		for (;;)
			pause();
	}
	c->run(&s, repaired);
	kill(s.peer, SIGKILL);
	MUST(waitpid(s.peer, &status, 0) == s.peer && WIFSIGNALED(status));
	puts("done");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct race_case *const files[] = { race_onesided, race_buffer,
							 race_ends };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		for (const struct race_case *c = files[i]; c->name; c++) {
			if (argc < 2)
				puts(c->name);
			else if (!strcmp(c->name, argv[1]))
				return run(c, argc > 2);
		}
	return argc < 2 ? 0 : 2;
}
