/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_memory.c - cases of verbs.c about device memory, null regions and
 * ibv_advise_mr(). */
#include "verbs.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
	DM_SIZE = 64,
	DM_ACCESS = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
		    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		    IBV_ACCESS_REMOTE_ATOMIC,
};

static struct ibv_dm *dm_of_size(struct rig *r, size_t size)
{
	return ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){ .length = size });
}

/* Returns the status of the request's completion; for an unsignaled SEND, that of the
 * receive. */
static enum ibv_wc_status do_one(struct rig *r, enum ibv_wr_opcode op, struct ibv_sge sge,
				 uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = op,
		.send_flags = op == IBV_WR_SEND ? 0 : IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = { .remote_addr = to, .compare_add = 7, .rkey = rkey },
	};

	if (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ)
		wr.wr.rdma.rkey = rkey;
	CHECK(!ibv_post_send(r->a, &wr, &bad));
	return take(r).status;
}

/* The other end's device memory holds 64 times '.'; afterwards "to memory", and 7 at
 * offset 16. */
static void reach(struct rig *r, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)r->buf, 12, r->mr->lkey };

	memcpy(r->buf, "to memory...", 12);
	CHECK(!do_one(r, IBV_WR_RDMA_WRITE, sge, 4, rkey));
	memset(r->buf, 0, 8);
	sge.length = 8;
	CHECK(!do_one(r, IBV_WR_RDMA_WRITE, sge, 16, rkey));
	CHECK(!do_one(r, IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 16, rkey));
	CHECK(!do_one(r, IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 16, rkey));
	CHECK(*(uint64_t *)r->buf == 7);
	sge.length = DM_SIZE;
	CHECK(!do_one(r, IBV_WR_RDMA_READ, sge, 0, rkey));
	CHECK(!memcmp(r->buf, "....to memory", 13));
	CHECK(*(uint64_t *)(r->buf + 16) == 14 && r->buf[24] == '.');
}

static void reached(struct ibv_dm *dm)
{
	uint8_t copy[DM_SIZE];

	CHECK(!ibv_memcpy_from_dm(copy, dm, 0, DM_SIZE));
	CHECK(!memcmp(copy, "....to memory", 13) && copy[16] == 14);
	CHECK(copy[24] == '.' && copy[DM_SIZE - 1] == '.');
}

static struct ibv_mr *dotted(struct rig *r, struct ibv_dm *dm)
{
	uint8_t dots[DM_SIZE];
	struct ibv_mr *mr;

	memset(dots, '.', sizeof(dots));
	CHECK(!ibv_memcpy_to_dm(dm, 0, dots, DM_SIZE));
	CHECK((mr = ibv_reg_dm_mr(r->pd, dm, 0, DM_SIZE, DM_ACCESS)));
	return mr;
}

/* A SEND from device memory, by its lkey. */
static void sent_from(struct rig *r, struct ibv_mr *mr)
{
	struct ibv_sge sge = { 4, 9, mr->lkey };

	recv_one(r, 64);
	CHECK(!do_one(r, IBV_WR_SEND, sge, 0, 0));
	CHECK(!memcmp(r->buf + RECV_AT, "to memory", 9));
}

static void dm_refusals(struct rig *r, struct ibv_dm *dm)
{
	struct ibv_alloc_dm_attr a = { .length = 8, .comp_mask = 2 };
	struct ibv_device_attr_ex ex;
	uint8_t copy[8] = { 0 };

	CHECK(!ibv_query_device_ex(r->ctx, NULL, &ex) && ex.max_dm_size);
	CHECK(!ibv_alloc_dm(r->ctx, &a) && errno == EINVAL);
	CHECK(!dm_of_size(r, 0) && errno == EINVAL);
	CHECK(!dm_of_size(r, ex.max_dm_size + 1) && errno == EINVAL);
	CHECK(!dm_of_size(r, ex.max_dm_size) && errno == ENOMEM);
	CHECK(ibv_memcpy_to_dm(dm, DM_SIZE - 4, copy, 8) == EFAULT);
	CHECK(ibv_memcpy_to_dm(dm, 2, copy, 4) == EINVAL);
	CHECK(ibv_memcpy_from_dm(copy, dm, 0, 3) == EINVAL);
	CHECK(ibv_memcpy_from_dm(copy, dm, UINT64_MAX - 3, 8) == EFAULT);
	CHECK(!ibv_reg_dm_mr(r->pd, dm, 0, 8, IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(r->pd, dm, DM_SIZE, 8, DM_ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dm_mr(r->pd, NULL, 0, 8, DM_ACCESS) && errno == EINVAL);
}

void device_memory(struct rig *r)
{
	struct ibv_dm *dm = dm_of_size(r, DM_SIZE);
	struct ibv_mr *mr;

	CHECK(dm && dm->context == r->ctx);
	mr = dotted(r, dm);
	CHECK(!mr->addr && mr->length == DM_SIZE);
	reach(r, mr->rkey);
	reached(dm);
	sent_from(r, mr);
	dm_refusals(r, dm);
	CHECK(ibv_free_dm(dm) == EBUSY);
	/* At last one byte too many, which ends the connection. */
	CHECK(do_one(r, IBV_WR_RDMA_WRITE,
		     (struct ibv_sge){ (uintptr_t)r->buf, 8, r->mr->lkey }, DM_SIZE - 7,
		     mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
	CHECK(ibv_free_dm(dm) == ENOENT);
}

/* --- between two processes ------------------------------------------------- */

struct word {
	uint32_t qpn, rkey;
};

static struct word swap_words(int fd, struct word mine)
{
	struct word theirs;

	CHECK(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(fd, &theirs, sizeof(theirs)) == sizeof(theirs));
	return theirs;
}

/* Opens a rig whose QP a is connected to the other process's. */
static struct word rig_to(struct rig *r, int fd, struct ibv_mr *mr)
{
	struct ibv_qp_init_attr init = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 2, 2, 32 },
	};
	struct word theirs;

	unpair(r);
	CHECK((r->a = ibv_create_qp(r->pd, &init)));
	theirs = swap_words(fd, (struct word){ r->a->qp_num, mr->rkey });
	up(r, r->a, theirs.qpn);
	swap_words(fd, theirs);
	return theirs;
}

static void owner(int fd)
{
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct rig r;

	rig_open(&r);
	CHECK((dm = dm_of_size(&r, DM_SIZE)));
	mr = dotted(&r, dm);
	rig_to(&r, fd, mr);
	swap_words(fd, (struct word){ 0 }); /* the data has arrived */
	reached(dm);
	CHECK(!ibv_destroy_qp(r.a) && !ibv_dereg_mr(mr) && !ibv_free_dm(dm));
	r.a = NULL;
	rig_close(&r);
}

void device_memory_of_another(struct rig *r)
{
	struct word theirs;
	int fd[2], status;
	pid_t pid;

	rig_close(r);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	pid = fork();
	if (!pid) {
		owner(fd[1]);
		_exit(0);
	}
	close(fd[1]);
	rig_open(r);
	theirs = rig_to(r, fd[0], r->mr);
	reach(r, theirs.rkey);
	swap_words(fd[0], (struct word){ 0 });
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!ibv_destroy_qp(r->a));
	r->a = NULL;
	rig_close(r);
	r->ctx = NULL;
}

/* In a forked child the context is dead, but device memory can be allocated. */
void device_memory_of_a_child(struct rig *r)
{
	struct ibv_dm *dm = dm_of_size(r, DM_SIZE), *own;
	uint32_t word = 0x12345678;
	int status;
	pid_t pid;

	CHECK(dm && !ibv_memcpy_to_dm(dm, 0, &word, 4));
	pid = fork();
	if (!pid) {
		word = 0;
		CHECK(!ibv_memcpy_to_dm(dm, 0, &word, 4) && !ibv_free_dm(dm));
		CHECK((own = dm_of_size(r, DM_SIZE)));
		CHECK(!ibv_reg_dm_mr(r->pd, own, 0, 8, DM_ACCESS) && errno == EIO);
		CHECK(!ibv_free_dm(own));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(!ibv_memcpy_from_dm(&word, dm, 0, 4) && word == 0x12345678);
	CHECK(!ibv_free_dm(dm));
}

/* --- nobody's memory, and advice ------------------------------------------- */

void null_region(struct rig *r)
{
	struct ibv_mr *null = ibv_alloc_null_mr(r->pd);
	struct ibv_sge sge = { 0xdead0000, 64, 0 };
	struct ibv_recv_wr *bad, wr = { .wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1 };
	uint64_t far = (uintptr_t)r->buf + FAR;

	CHECK(null && !null->addr && ibv_dealloc_pd(r->pd) == EBUSY);
	sge.lkey = null->lkey;
	memset(r->buf + FAR, 'x', 65);
	CHECK(!do_one(r, IBV_WR_RDMA_WRITE, sge, far, r->mr->rkey));
	for (unsigned i = 0; i < 64; i++)
		CHECK(!r->buf[FAR + i]);
	CHECK(r->buf[FAR + 64] == 'x');
	memset(r->buf + FAR, 'y', 64);
	CHECK(!do_one(r, IBV_WR_RDMA_READ, sge, far, r->mr->rkey));
	CHECK(!ibv_post_recv(r->b, &wr, &bad));
	CHECK(!do_one(r, IBV_WR_SEND, (struct ibv_sge){ far, 64, r->mr->lkey }, 0, 0));
	CHECK(!do_one(r, IBV_WR_RDMA_WRITE, sge, far, r->mr->rkey));
	for (unsigned i = 0; i < 64; i++)
		CHECK(!r->buf[FAR + i]);
	CHECK(do_one(r, IBV_WR_RDMA_WRITE, (struct ibv_sge){ far, 8, r->mr->lkey }, 0,
		     null->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(null));
}

void advice(struct rig *r)
{
	const int odp = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE;
	const size_t size = 1 << 20;
	unsigned char there[256];
	struct ibv_mr *mr, *all;
	struct ibv_sge sge;
	uint8_t *mem;

	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	CHECK(mem != MAP_FAILED);
	CHECK((mr = ibv_reg_mr(r->pd, mem, size, odp)));
	CHECK((all = ibv_reg_mr(r->pd, NULL, SIZE_MAX, odp)));
	sge = (struct ibv_sge){ (uintptr_t)mem, (uint32_t)size / 2, mr->lkey };
#define ADVISE(what, flags, n)                                                           \
	ibv_advise_mr(r->pd, IBV_ADVISE_MR_ADVICE_##what, flags, &sge, n)
	CHECK(!ADVISE(PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, 1));
	sge = (struct ibv_sge){ (uintptr_t)mem + size / 2, (uint32_t)size / 2,
				all->lkey };
	CHECK(!ADVISE(PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, 1));
	CHECK(!mincore(mem, size, there));
	for (unsigned i = 0; i < size / 4096; i++)
		CHECK(there[i] & 1);
	CHECK(!ADVISE(PREFETCH, 0, 1) && !ADVISE(PREFETCH_NO_FAULT, 0, 1));
	CHECK(ADVISE(PREFETCH, 1u << 31, 1) == EINVAL);
	CHECK(ADVISE(PREFETCH, 0, 0) == EINVAL);
	CHECK(ibv_advise_mr(r->pd, 77, 0, &sge, 1) == EOPNOTSUPP);
	sge.lkey = r->mr->lkey;
	CHECK(ADVISE(PREFETCH, 0, 1) == EINVAL); /* not a region for on-demand paging */
	sge.lkey++;
	CHECK(ADVISE(PREFETCH, 0, 1) == ENOENT);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dereg_mr(all) && !munmap(mem, size));
}
