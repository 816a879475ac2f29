/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - registered memory that goes away, and the program's own faults.
 *
 * --mode=HANDLER-WHEN-WHAT.  The program's own handler of SIGSEGV and SIGBUS is
 *
 *	none, plain (no SA_SIGINFO), siginfo, altstack
 *
 * and is installed before or after ours.  What happens:
 *
 *	local, remote	a region is unmapped; what used it fails, no more
 *	bus		the same by truncating the file that it maps
 *	own		the program dereferences NULL
 *	fix		its handler makes the page accessible and returns
 *	overflow	of the stack (altstack only)
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

enum { LEN = 64 << 10, NOWHERE = 16, PAGE = 4096 };

static sigjmp_buf jump;
static volatile int faults;
static uint8_t *volatile expected, *volatile page;
static uint8_t stack[64 << 10];

static bool is(const char *word)
{
	return strstr(opt.mode, word) != NULL;
}

static void on_fault(int sig)
{
	uint8_t here;

	(void)sig;
	faults++;
	if (is("altstack") != (&here >= stack && &here < stack + sizeof(stack)))
		_exit(5);
	if (page) {
		mprotect(page, PAGE, PROT_READ | PROT_WRITE);
		return;
	}
	siglongjmp(jump, 1);
}

static void on_fault_info(int sig, siginfo_t *si, void *uc)
{
	if (sig != si->si_signo || !uc || (expected && si->si_addr != expected))
		_exit(6);
	on_fault(sig);
}

static void install(void)
{
	struct sigaction sa = { .sa_handler = on_fault };
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };

	if (is("none"))
		return;
	if (!is("plain")) {
		sa.sa_sigaction = on_fault_info;
		sa.sa_flags = SA_SIGINFO;
	}
	if (is("altstack")) {
		CHECK(!sigaltstack(&ss, NULL));
		sa.sa_flags |= SA_ONSTACK;
	}
	CHECK(!sigaction(SIGSEGV, &sa, NULL) && !sigaction(SIGBUS, &sa, NULL));
}

/* --- registered memory goes away ----------------------------------------- */

struct region {
	uint8_t *at;
	struct ibv_mr *mr;
	int fd;
};

static void region_make(struct region *x, struct rig *r)
{
	x->fd = memfd_create("region", 0);
	CHECK(x->fd >= 0 && !ftruncate(x->fd, LEN));
	x->at = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		     is("bus") ? MAP_SHARED : MAP_PRIVATE, x->fd, 0);
	CHECK(x->at != MAP_FAILED);
	memset(x->at, 1, LEN);
	x->mr = ibv_reg_mr(r->pd, x->at, LEN, RIG_ACCESS);
	CHECK(x->mr);
}

/* Takes away the second half, which an operation meets in its middle. */
static void region_take(struct region *x)
{
	if (is("bus"))
		CHECK(!ftruncate(x->fd, LEN / 2));
	else
		CHECK(!munmap(x->at + LEN / 2, LEN / 2));
}

static enum ibv_wc_status use(struct loop *l, enum ibv_wr_opcode op, uint8_t *local,
			      uint32_t lkey, uint8_t *remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)local, LEN, lkey };
	struct ibv_send_wr wr = {
		.opcode = op, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)remote, rkey },
	}, *bad;
	struct ibv_qp *a = rig_qp(&l->rig), *b = rig_qp(&l->rig);
	struct ibv_wc wc;

	rig_join(&l->rig, a, b->qp_num, 5, &l->rig.gid);
	rig_join(&l->rig, b, a->qp_num, 5, &l->rig.gid);
	CHECK(!ibv_post_send(a, &wr, &bad));
	wc = rig_wait(&l->rig);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	return wc.status;
}

static void lose_region(struct loop *l)
{
	struct rig *r = &l->rig;
	struct region x;

	region_make(&x, r);
	region_take(&x);
	if (!is("remote")) {
		CHECK(use(l, IBV_WR_RDMA_WRITE, x.at, x.mr->lkey, r->buf, r->mr->rkey) ==
		      IBV_WC_LOC_PROT_ERR);
		CHECK(use(l, IBV_WR_RDMA_READ, x.at, x.mr->lkey, r->buf, r->mr->rkey) ==
		      IBV_WC_LOC_PROT_ERR);
	}
	if (!is("local")) {
		enum ibv_wc_status s;

		s = use(l, IBV_WR_RDMA_WRITE, r->buf, r->mr->lkey, x.at, x.mr->rkey);
		CHECK(s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_REM_OP_ERR);
		s = use(l, IBV_WR_RDMA_READ, r->buf, r->mr->lkey, x.at, x.mr->rkey);
		CHECK(s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_REM_OP_ERR);
	}
	CHECK(!ibv_dereg_mr(x.mr));
	CHECK(faults == 0); /* none of the faults reached the program's handler */
}

/* --- the program's own faults -------------------------------------------- */

static int overflow(volatile uint8_t *above)
{
	volatile uint8_t frame[1024];

	if (*above)
		return 0; /* not reached */
	frame[0] = 0;
	return overflow(frame) + frame[0];
}

static void own_fault(struct loop *l)
{
	for (int i = 1; i <= 3; i++) {
		loop_traffic(l, 100 + (uint64_t)i);
		if (!sigsetjmp(jump, 1)) {
			if (is("overflow")) {
				uint8_t bottom = 0;

				overflow(&bottom);
			}
			expected = (uint8_t *)NOWHERE;
			(void)*(volatile uint8_t *)expected;
			failed("no fault", __FILE__, __LINE__);
		}
		CHECK(faults == i);
	}
}

static void fixed_fault(struct loop *l)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	page = expected = p;
	*(volatile uint8_t *)p = 7;
	CHECK(*p == 7 && faults == 1);
	loop_traffic(l, 7);
}

int memory(void)
{
	struct loop l = { 0 };
	struct ibv_mr *mr;

	CHECK(opt.mode);
	if (is("before"))
		install();
	loop_open(&l);
	loop_traffic(&l, 1);
	if (is("after"))
		install();
	/* Registering memory installs urnic's handler in front again. */
	mr = ibv_reg_mr(l.rig.pd, l.rig.buf, 64, 0);
	CHECK(mr);
	loop_traffic(&l, 2);
	if (is("own") || is("overflow"))
		own_fault(&l);
	else if (is("fix"))
		fixed_fault(&l);
	else
		lose_region(&l);
	loop_traffic(&l, 3);
	CHECK(!ibv_dereg_mr(mr));
	loop_close(&l);
	say("all right");
	return 0;
}
