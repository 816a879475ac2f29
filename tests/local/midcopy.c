/* SPDX-License-Identifier: BSD-2-Clause */
/* midcopy.c - a thread stands in the middle of a WRITE to memory that it has mapped,
 * as one that is stopped does, and its owner takes QP and memory away:
 *
 *	--mode=stands	which is refused, until it goes on: then it writes no more
 *			than what it was at
 *	--mode=exec	its process becomes another program
 *	--mode=taken	the memory was private, and is again: nothing is refused, and
 *			what the thread writes when it goes on is seen by nobody
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"
#include "direct/late_testing.h"

enum { LEN = 60000, AT = LATE_PAGE - 1000, PIECE = 2048 };
enum { FEW = 3, USES = 50, MINE = 0x77 };
#define SOON_S 4.0

enum { LATE = LATE_PAGE - AT }; /* bytes that are written before the thread blocks */

static struct {
	struct card owner, writer;
	_Atomic uint32_t there, joined, stands, go, gone, forbidden;
} * sh;

static struct rig r;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

/* --- the writer ---------------------------------------------------------- */

static struct ibv_qp *qp;
static struct ibv_mr *late_mr;
static struct late late;

static void *stand(void *arg)
{
	struct ibv_sge sge = { (uintptr_t)late.at + AT, LEN, late_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { sh->owner.addr, sh->owner.rkey } },
			   *bad;

	(void)arg;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	return NULL;
}

static int shared_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512], perms[8];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %7s", perms) == 1 && perms[3] == 's';
	fclose(f);
	return n;
}

static void be_writer(void *arg)
{
	pthread_t thread;
	int before = 0;

	(void)arg;
	rig_open(&r);
	if (!late_open(&late, MINE)) {
		sh->forbidden = 1;
		_exit(0);
	}
	late_mr = ibv_reg_mr(r.pd, late.at, LATE_SIZE, RIG_ACCESS);
	CHECK(late_mr);
	qp = rig_qp(&r);
	sh->writer = crew_card(&r, qp);
	sh->there = 1;
	crew_wait(&sh->joined, 1);
	crew_join(&r, qp, &sh->owner);
	/* Until the memory is mapped here, which begins with the 16th use. */
	for (int i = 0; i < USES || shared_mappings() == before; i++) {
		crew_expect(&r, qp, &sh->owner, IBV_WR_RDMA_WRITE, 0, 8, LEN);
		if (i == FEW)
			before = shared_mappings();
		sleep_ms(1);
	}
	CHECK(!pthread_create(&thread, NULL, stand, NULL));
	CHECK(late_reached(&late));
	sh->stands = 1;
	crew_wait(&sh->go, 1);
	if (is("exec"))
		execl("/bin/sleep", "sleep", "40", NULL);
	CHECK(late_give(&late));
	CHECK(!pthread_join(thread, NULL));
	CHECK(rig_wait(&r).status != IBV_WC_SUCCESS);
	sh->gone = 1;
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(late_mr));
	rig_close(&r);
}

/* --- its owner ----------------------------------------------------------- */

/* Control calls that have given up the wait for the thread report it. */
static void is_refused(struct ibv_qp *mine, struct ibv_mr *mr)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	double start = now_s();

	CHECK(ibv_modify_qp(mine, &err, IBV_QP_STATE) == EBUSY);
	CHECK(mine->state == IBV_QPS_ERR);
	CHECK(ibv_destroy_qp(mine) == EBUSY);
	CHECK(ibv_dereg_mr(mr) == EBUSY);
	CHECK(now_s() - start < SOON_S);
	sh->go = 1;
	crew_wait(&sh->gone, 1);
	for (int i = 0; i < LEN; i++)
		CHECK(r.buf[i] == (i < PIECE ? MINE : 0xee));
}

/* The QP goes first; the region is then used by another QP, and goes, too. */
static void is_taken(struct ibv_qp *mine, struct ibv_mr *mr)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	double start = now_s();

	CHECK(!ibv_modify_qp(mine, &err, IBV_QP_STATE));
	for (int i = LATE; i < LEN; i++)
		CHECK(r.buf[i] == 0xee);
	memset(r.buf, 0x11, LEN);
	CHECK(!ibv_destroy_qp(mine));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(now_s() - start < SOON_S);
	sh->go = 1;
	crew_wait(&sh->gone, 1);
	for (int i = 0; i < LEN; i++)
		CHECK(r.buf[i] == 0x11);
}

static void wait_for_exec(pid_t pid)
{
	char path[32], exe[64];

	sh->go = 1;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	do {
		FILE *f = fopen(path, "re");

		CHECK(f && fgets(exe, sizeof(exe), f));
		fclose(f);
		sleep_ms(1);
	} while (strcmp(exe, "sleep\n") != 0);
}

int midcopy(void)
{
	struct ibv_qp *mine;
	struct ibv_mr *mr;
	double start;
	pid_t pid;

	CHECK(opt.mode && opt.shared == !is("taken"));
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(be_writer, NULL);
	rig_open(&r);
	memset(r.buf, 0xee, LEN);
	mr = ibv_reg_mr(r.pd, r.buf, RIG_BUF, RIG_ACCESS);
	mine = rig_qp(&r);
	CHECK(mr);
	sh->owner = (struct card){ mine->qp_num, mr->rkey, (uintptr_t)r.buf, r.gid };
	while (!sh->there && !sh->forbidden)
		crew_nap();
	if (sh->forbidden) {
		say("userfaultfd is forbidden: all right");
		return 0;
	}
	crew_join(&r, mine, &sh->writer);
	sh->joined = 1;
	crew_wait(&sh->stands, 1);
	if (is("taken")) {
		is_taken(mine, mr);
		crew_reap(pid);
		rig_close(&r);
		say("all right");
		return 0;
	}
	if (is("exec"))
		wait_for_exec(pid);
	else
		is_refused(mine, mr);
	start = now_s();
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_destroy_qp(mine));
	CHECK(now_s() - start < SOON_S);
	if (is("exec")) {
		CHECK(!kill(pid, SIGKILL));
		CHECK(waitpid(pid, NULL, 0) == pid);
	} else {
		crew_reap(pid);
	}
	rig_close(&r);
	say("all right");
	return 0;
}
