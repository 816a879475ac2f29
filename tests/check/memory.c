/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - regions, keys, rights; receives that come late; ends that do not fit. */
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bugs.h"

enum { NEAR = 4096 };

/* Deregisters the memory of a receive that waits. */
static void region_in_use(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	MUST(!rig_recv(&r, r.b, 0, 64));
	if (repaired) {
		MUST(!ibv_destroy_qp(r.b));
		r.b = NULL;
	}
	MUST(!ibv_dereg_mr(r.mr));
	r.mr = NULL;
	rig_close(&r);
}

/* How memory goes away under a region; what is there then is not touched. */
static void unmap(uint8_t *at)
{
	MUST(!munmap(at, NEAR));
}

static void move_away(uint8_t *at)
{
	uint8_t *to = mmap(NULL, NEAR, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(to != MAP_FAILED);
	MUST(mremap(at, NEAR, NEAR, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
}

static void map_anew(uint8_t *at)
{
	MUST(mmap(at, NEAR, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

static void give_back(uint8_t *at)
{
	MUST(!madvise(at, NEAR, MADV_DONTNEED));
}

static void without_memory(bool repaired, void (*go)(uint8_t *at))
{
	struct rig r;
	struct ibv_mr *mr;
	uint8_t *at;

	rig_open(&r, NULL);
	at = mmap(NULL, NEAR, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(r.pd, at, NEAR, RIG_ALL);
	MUST(at != MAP_FAILED && mr);
	if (repaired)
		MUST(!ibv_dereg_mr(mr));
	go(at);
	if (!repaired)
		MUST(!ibv_dereg_mr(mr));
	rig_close(&r);
}

static void unmapped_first(bool repaired)
{
	without_memory(repaired, unmap);
}

static void moved_first(bool repaired)
{
	without_memory(repaired, move_away);
}

static void mapped_anew_first(bool repaired)
{
	without_memory(repaired, map_anew);
}

static void given_back_first(bool repaired)
{
	without_memory(repaired, give_back);
}

/* Sends from memory that is not there any more. */
static void send_unmapped(bool repaired)
{
	struct ibv_send_wr *wr;
	struct rig r;
	struct ibv_mr *mr;
	void *at;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	at = mmap(NULL, NEAR, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(r.pd, at, NEAR, RIG_ALL);
	MUST(at != MAP_FAILED && mr);
	if (!repaired)
		munmap(at, NEAR);
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true);
	*wr->sg_list = (struct ibv_sge){ (uintptr_t)at, 64, mr->lkey };
	MUST(!rig_post(r.a, wr));
	MUST(!rig_wait(r.cq).status == repaired);
	MUST(!ibv_dereg_mr(mr));
	if (repaired)
		munmap(at, NEAR);
	rig_close(&r);
}

/* Uses a key, lkey or rkey, after its region is gone. */
static void stale(bool repaired, bool remote)
{
	struct ibv_send_wr *wr;
	struct rig r;
	struct ibv_mr *mr;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	mr = ibv_reg_mr(r.pd, r.buf, RIG_BUF, RIG_ALL);
	MUST(mr);
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true);
	if (remote)
		wr->wr.rdma.rkey = mr->rkey;
	else
		wr->sg_list->lkey = mr->lkey;
	if (!repaired)
		MUST(!ibv_dereg_mr(mr));
	MUST(!rig_post(r.a, wr));
	MUST(!rig_wait(r.cq).status == repaired);
	if (repaired)
		MUST(!ibv_dereg_mr(mr));
	rig_close(&r);
}

static void stale_lkey(bool repaired)
{
	stale(repaired, false);
}

static void stale_rkey(bool repaired)
{
	stale(repaired, true);
}

/* A request of a to b's region, with these rights of region and queue pairs. */
static void with_rights(enum ibv_wr_opcode op, unsigned access, unsigned qp_access,
			bool good)
{
	const struct rig_how how = { .access = access, .qp_access = qp_access };
	struct rig r;

	rig_open(&r, &how);
	rig_connect(&r, &how);
	MUST(!rig_post(r.a, rig_wr(&r, op, 0, 64, true)));
	MUST(!rig_wait(r.cq).status == good);
	rig_close(&r);
}

static void no_remote_write(bool repaired)
{
	with_rights(IBV_WR_RDMA_WRITE,
		    repaired ? RIG_ALL : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
		    RIG_ALL, repaired);
}

static void no_local_write(bool repaired)
{
	with_rights(IBV_WR_RDMA_READ, repaired ? RIG_ALL : IBV_ACCESS_REMOTE_READ,
		    RIG_ALL, repaired);
}

static void qp_without(bool repaired)
{
	with_rights(IBV_WR_RDMA_READ, RIG_ALL,
		    repaired ? RIG_ALL : IBV_ACCESS_REMOTE_WRITE, repaired);
}

static void wrong_pd(bool repaired)
{
	struct ibv_send_wr *wr;
	struct rig r;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	pd = ibv_alloc_pd(r.ctx);
	MUST(pd);
	mr = ibv_reg_mr(repaired ? r.pd : pd, r.buf, RIG_BUF, RIG_ALL);
	MUST(mr);
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true);
	wr->sg_list->lkey = mr->lkey;
	MUST(!rig_post(r.a, wr));
	MUST(!rig_wait(r.cq).status == repaired);
	MUST(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	rig_close(&r);
}

static void region_range(bool repaired)
{
	struct ibv_send_wr *wr;
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	wr = rig_wr(&r, IBV_WR_RDMA_WRITE, 0, 64, true);
	wr->wr.rdma.remote_addr = (uintptr_t)r.buf + RIG_BUF - (repaired ? 64 : 32);
	MUST(!rig_post(r.a, wr));
	MUST(!rig_wait(r.cq).status == repaired);
	rig_close(&r);
}

static void fork_unaligned(bool repaired)
{
	struct rig r;
	struct ibv_mr *mr;
	pid_t child;

	rig_open(&r, NULL);
	mr = ibv_reg_mr(r.pd, r.buf, repaired ? NEAR : 100, RIG_ALL);
	MUST(mr);
	child = fork();
	if (!child)
		_exit(0);
	MUST(child > 0 && waitpid(child, NULL, 0) == child);
	MUST(!ibv_dereg_mr(mr));
	rig_close(&r);
}

static void receive_late(bool repaired)
{
	struct rig r;

	rig_open(&r, NULL);
	rig_connect(&r, NULL);
	if (repaired)
		MUST(!rig_recv(&r, r.b, 0, 64));
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_SEND, 64, 64, true)));
	rig_sleep(50);
	if (!repaired)
		MUST(!rig_recv(&r, r.b, 0, 64));
	MUST(!rig_wait(r.cq).status && !rig_wait(r.cq).status);
	rig_close(&r);
}

static void rnr_retry(bool repaired)
{
	const struct rig_how how = { .rnr_retry = -1 };
	struct rig r;

	rig_open(&r, &how);
	rig_connect(&r, &how);
	if (repaired)
		MUST(!rig_recv(&r, r.b, 0, 64));
	MUST(!rig_post(r.a, rig_wr(&r, IBV_WR_SEND, 64, 64, true)));
	MUST(!rig_wait(r.cq).status == repaired);
	if (repaired)
		MUST(!rig_wait(r.cq).status);
	rig_close(&r);
}

static void ends_differ(bool repaired)
{
	const struct rig_how how = { .mtu_a = repaired ? 0 : IBV_MTU_256 };
	struct rig r;

	rig_open(&r, &how);
	rig_connect(&r, &how);
	rig_close(&r);
}

const struct bug bugs_memory[] = {
	{ "region-in-use", region_in_use },
	{ "unmapped-first", unmapped_first },
	{ "unmapped-first/moved", moved_first },
	{ "unmapped-first/mapped-anew", mapped_anew_first },
	{ "unmapped-first/given-back", given_back_first },
	{ "region-unmapped", send_unmapped },
	{ "stale-key/lkey", stale_lkey },
	{ "stale-key/rkey", stale_rkey },
	{ "access-flag/remote", no_remote_write },
	{ "access-flag/local", no_local_write },
	{ "access-flag/qp", qp_without },
	{ "wrong-pd", wrong_pd },
	{ "region-range", region_range },
	{ "fork-unaligned", fork_unaligned },
	{ "receive-late", receive_late },
	{ "receive-late/rnr-retry", rnr_retry },
	{ "ends-differ", ends_differ },
	{ 0 },
};
