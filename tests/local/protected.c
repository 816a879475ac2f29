/* SPDX-License-Identifier: BSD-2-Clause */
/* protected.c - a region whose owner protects it against writing, as garbage
 * collectors and checkpoints do: others, and the adapter, write to it still, and
 * the owner's handler hears only of what the owner itself writes.
 *
 *	protected	--mode=private|shared: memory; hidden: private memory of
 *			a process that may not open its /proc/self/mem, where
 *			a peer's WRITE fails, or the memory is a file's
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "crew.h"
#include "pattern.h"

enum {
	LEN = 128 << 10,
	/* Offsets for small requests, for records, and for data that is copied
	 * directly. */
	SMALL_AT = 0,
	SMALL_LEN = 100,
	RECORD_AT = 4000,
	RECORD_LEN = 5000,
	LARGE_AT = 10000,
	LARGE_LEN = 60000,
	SEND_AT = 80000,
	SEND_LEN = 3000,
	READ_AT = 90000,
	READ_LEN = 20000,
	WORD_AT = 120000,
};

static struct {
	struct card owner, user;
	_Atomic uint32_t up, joined, used, read, written;
} * sh;

static struct rig r;
static uint8_t *region;
static volatile unsigned faults;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

static void on_fault(int sig)
{
	(void)sig;
	faults++;
	mprotect(region, LEN, PROT_READ | PROT_WRITE);
}

static struct ibv_mr *make_region(void)
{
	struct ibv_mr *mr;

	region = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		      MAP_ANONYMOUS | (is("shared") ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	CHECK(region != MAP_FAILED);
	memset(region, 0, LEN / 2); /* the second half has no pages yet */
	mr = ibv_reg_mr(r.pd, region, LEN, RIG_ACCESS);
	CHECK(mr && !mprotect(region, LEN, PROT_READ));
	if (is("hidden"))
		CHECK(!prctl(PR_SET_DUMPABLE, 0));
	return mr;
}

static void post_recv(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)region + SEND_AT, SEND_LEN, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static void read_into(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)region + READ_AT, READ_LEN, mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { sh->user.addr, sh->user.rkey },
	}, *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad));
	CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
}

static bool came(size_t at, size_t len)
{
	return !memcmp(region + at, r.buf + at, len);
}

static void look(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	uint64_t word;

	/* The owner's buffer has the bytes of the user's. */
	CHECK(rig_wait(&r).opcode == IBV_WC_RECV);
	CHECK(came(SMALL_AT, SMALL_LEN) && came(RECORD_AT, RECORD_LEN));
	CHECK(came(LARGE_AT, LARGE_LEN) && came(SEND_AT, SEND_LEN));
	memcpy(&word, region + WORD_AT, sizeof(word));
	CHECK(word == 2);
	read_into(qp, mr);
	CHECK(!memcmp(region + READ_AT, r.buf, READ_LEN));
	CHECK(faults == 0);
	(*(volatile uint8_t *)region)++;
	CHECK(faults == 1);
}

static void owner(void *arg)
{
	struct sigaction sa = { .sa_handler = on_fault };
	struct ibv_mr *mr;
	struct ibv_qp *qp;

	(void)arg;
	CHECK(!sigaction(SIGSEGV, &sa, NULL));
	rig_open(&r);
	qp = rig_qp(&r);
	mr = make_region();
	sh->owner = (struct card){ qp->qp_num, mr->rkey, (uintptr_t)region, r.gid };
	crew_wait(&sh->up, 1);
	crew_join(&r, qp, &sh->user);
	post_recv(qp, mr);
	sh->joined = 1;
	crew_wait(&sh->used, 1);
	pattern_fill(r.buf, RIG_BUF, 5);
	if (!is("hidden"))
		look(qp, mr);
	else if (sh->written)
		CHECK(came(0, LARGE_LEN));
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
	sh->read = 1;
	rig_close(&r);
}

static void use(struct ibv_qp *qp)
{
	enum ibv_wr_opcode write = IBV_WR_RDMA_WRITE, add = IBV_WR_ATOMIC_FETCH_AND_ADD;
	enum ibv_wc_status s;

	if (is("hidden")) {
		rig_post(&r, qp, write, 0, LARGE_LEN, sh->owner.addr, sh->owner.rkey, 0);
		s = rig_wait(&r).status;
		sh->written = s == IBV_WC_SUCCESS;
		CHECK(sh->written || s == IBV_WC_REM_ACCESS_ERR ||
		      s == IBV_WC_REM_OP_ERR);
		return;
	}
	crew_expect(&r, qp, &sh->owner, write, SMALL_AT, SMALL_LEN, SMALL_AT);
	crew_expect(&r, qp, &sh->owner, write, RECORD_AT, RECORD_LEN, RECORD_AT);
	crew_expect(&r, qp, &sh->owner, write, LARGE_AT, LARGE_LEN, LARGE_AT);
	crew_expect(&r, qp, &sh->owner, IBV_WR_SEND, SEND_AT, SEND_LEN, 0);
	for (uint64_t i = 0; i < 2; i++)
		crew_expect(&r, qp, &sh->owner, add, RIG_BUF - 8, 8, WORD_AT);
	pattern_fill(r.buf, RIG_BUF, 5);
}

int protect(void)
{
	struct ibv_qp *qp;
	pid_t pid;

	CHECK(opt.mode && (is("private") || is("shared") || is("hidden")));
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(owner, NULL);
	rig_open(&r);
	pattern_fill(r.buf, RIG_BUF, 5);
	qp = rig_qp(&r);
	sh->user = crew_card(&r, qp);
	sh->up = 1;
	crew_wait(&sh->joined, 1);
	crew_join(&r, qp, &sh->owner);
	use(qp);
	sh->used = 1;
	crew_wait(&sh->read, 1);
	crew_reap(pid);
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
	say("all right");
	return 0;
}
