/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.c - each kind of memory at B: A reaches it, but not without the rights. */
#include "feature.h"

#include <sys/mman.h>

enum {
	SIZE = 4096,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC,
	HUGE = 2 << 20,
};

/* Tells A which memory it is to reach. */
static void offer(struct side *s, const struct ibv_mr *mr, uint64_t addr)
{
	s->mine.addr = addr;
	s->mine.rkey = mr->rkey;
}

/* A reads when both sides are ready. */
static void reads(enum ibv_wc_status want, uint64_t off)
{
	sync_sides();
	ON_A(s)
	{
		enum ibv_wc_status got = read_64(s, s->theirs.addr + off, s->theirs.rkey);

		if (got != want)
			say("READ: %s, not %s", ibv_wc_status_str(got),
			    ibv_wc_status_str(want));
		CHECK(got == want);
	}
	sync_sides();
}

static void exchanges(void)
{
	sync_sides();
	ON_A(s) exchange(s, s->theirs.addr, s->theirs.rkey);
	sync_sides();
}

static void drop_mr(struct ibv_mr *mr)
{
	ON_B(s) CHECK(!ibv_dereg_mr(mr));
}

/* --- device memory ------------------------------------------------------- */

static void check_dm(struct ibv_dm *dm)
{
	uint8_t copy[SIZE];

	CHECK(!ibv_memcpy_from_dm(copy, dm, 0, SIZE));
	written_is_right(copy + 128);
	CHECK(copy[128 + 64] == 14 && !copy[128 + 72] && !copy[127]);
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	static uint8_t zeroes[SIZE];
	struct ibv_mr *mr = NULL;
	struct ibv_dm *dm = NULL;

	ON_B(s)
	{
		CHECK((dm = ibv_alloc_dm(s->ctx, &attr)));
		CHECK(!ibv_memcpy_to_dm(dm, 0, zeroes, SIZE));
		CHECK((mr = ibv_reg_dm_mr(s->pd, dm, 0, SIZE,
					  ALL | IBV_ACCESS_ZERO_BASED)));
		offer(s, mr, 128);
	}
	up();
	exchanges();
	ON_B(s) check_dm(dm);
	reads(IBV_WC_REM_ACCESS_ERR, SIZE - 128 - 63);
	again();
	ON_B(s) CHECK(ibv_free_dm(dm) == EBUSY);
	drop_mr(mr);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	ON_B(s) CHECK(!ibv_free_dm(dm));
	down();
}

/* A sends from its own device memory, and gets an answer there. */
static void device_memory_of_the_sender(void)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	uint8_t there[64];

	ON_B(s)
	{
		memset(s->buf + TARGET_AT, 0x5a, 64);
		offer(s, s->mr, (uintptr_t)s->buf + TARGET_AT);
	}
	up();
	ON_A(s)
	{
		struct ibv_dm *dm = ibv_alloc_dm(s->ctx, &attr);
		struct ibv_mr *mr;
		struct ibv_sge sge = { 8, 64, 0 };

		CHECK(dm && (mr = ibv_reg_dm_mr(s->pd, dm, 0, SIZE,
						ALL | IBV_ACCESS_ZERO_BASED)));
		sge.lkey = mr->lkey;
		CHECK(!one(s, IBV_WR_RDMA_READ, sge, s->theirs.addr, s->theirs.rkey));
		CHECK(!ibv_memcpy_from_dm(there, dm, 8, 64));
		CHECK(there[0] == 0x5a && there[63] == 0x5a);
		sge.addr = SIZE - 63;
		CHECK(one(s, IBV_WR_RDMA_WRITE, sge, s->theirs.addr, s->theirs.rkey) ==
		      IBV_WC_LOC_PROT_ERR);
		CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
	}
	down();
}

/* --- nobody's memory ------------------------------------------------------ */

static void null_memory(void)
{
	struct ibv_mr *null[2], *other[2];

	for (int b = 0; b < 2; b++) {
		if (!plays(b))
			continue;
		CHECK((null[b] = ibv_alloc_null_mr(side(b)->pd)));
		CHECK((other[b] = ibv_alloc_null_mr(side(b)->pd2)));
	}
	ON_B(s)
	{
		memset(s->buf + TARGET_AT, 0x5a, 128);
		offer(s, s->mr, (uintptr_t)s->buf + TARGET_AT);
	}
	up();
	ON_B(s)
	{
		struct ibv_sge sge = { 0, 4096, null[1]->lkey };
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		CHECK(!ibv_post_recv(s->qp, &wr, &bad));
	}
	sync_sides();
	ON_A(s)
	{
		struct ibv_sge sge = { 0, 64, null[0]->lkey };

		CHECK(!one(s, IBV_WR_RDMA_READ, sge, s->theirs.addr, s->theirs.rkey));
		CHECK(!one(s, IBV_WR_RDMA_WRITE, sge, s->theirs.addr, s->theirs.rkey));
		CHECK(!one(s, IBV_WR_SEND, local(s, 0, 3000), 0, 0));
		sge.lkey = other[0]->lkey;
		CHECK(one(s, IBV_WR_RDMA_READ, sge, s->theirs.addr, s->theirs.rkey) ==
		      IBV_WC_LOC_PROT_ERR);
	}
	sync_sides();
	ON_B(s)
	{
		struct ibv_wc wc;

		CHECK(poll_one(s->rcq, &wc, 10000) && !wc.status && wc.byte_len == 3000);
		CHECK(!s->buf[TARGET_AT] && !s->buf[TARGET_AT + 63]);
		CHECK(s->buf[TARGET_AT + 64] == 0x5a);
	}
	down();
	for (int b = 0; b < 2; b++)
		if (plays(b))
			CHECK(!ibv_dereg_mr(null[b]) && !ibv_dereg_mr(other[b]));
}

/* --- regions that change --------------------------------------------------- */

static void rereg(struct side *s, struct ibv_mr *mr, int flags, uint8_t *at, int access)
{
	CHECK(!ibv_rereg_mr(mr, flags, s->pd2, at, SIZE, access));
	offer(s, mr, (uintptr_t)at);
}

/* While a window is bound to B's region the region cannot change: it keeps its key and
 * rights. */
static void bound_region(struct side *s, struct ibv_mr *mr)
{
	struct ibv_mw_bind bind = {
		.wr_id = 9,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)mr->addr, 64, IBV_ACCESS_REMOTE_READ },
	};
	struct ibv_mw *mw = ibv_alloc_mw(s->pd, IBV_MW_TYPE_1);

	CHECK(mw && !ibv_bind_mw(s->qp, mw, &bind));
	expect(s->scq, 9, IBV_WC_SUCCESS, V_NONE);
	errno = 0;
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			   IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD);
	CHECK(errno == EBUSY);
	CHECK(!ibv_dealloc_mw(mw));
}

static void changed_regions(void)
{
	const int all = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS |
			IBV_REREG_MR_CHANGE_PD;
	struct ibv_mr *mr = NULL;

	ON_B(s)
	{
		CHECK((mr = ibv_reg_mr(s->pd, s->buf + TARGET_AT, SIZE,
				       ALL | IBV_ACCESS_MW_BIND)));
		offer(s, mr, (uintptr_t)s->buf + TARGET_AT);
	}
	up();
	exchanges();
	ON_B(s) bound_region(s, mr);
	exchanges();
	ON_B(s)
	rereg(s, mr, IBV_REREG_MR_CHANGE_ACCESS, s->buf + TARGET_AT,
	      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	again();
	ON_B(s)
	rereg(s, mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
	      s->buf + TARGET_AT + 2 * SIZE, ALL);
	exchanges();
	ON_B(s) written_is_right(s->buf + TARGET_AT + 2 * SIZE);
	reads(IBV_WC_REM_ACCESS_ERR, (uint64_t)-2 * SIZE);
	again();
	ON_B(s) rereg(s, mr, IBV_REREG_MR_CHANGE_TRANSLATION, s->buf + TARGET_AT, 0);
	exchanges();
	reads(IBV_WC_REM_ACCESS_ERR, 2 * SIZE);
	again();
	ON_B(s) rereg(s, mr, IBV_REREG_MR_CHANGE_PD, s->buf + TARGET_AT, 0);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	again();
	ON_B(s)
	{
		uint8_t *at = s->buf + TARGET_AT + SIZE;

		CHECK(!ibv_rereg_mr(mr, all, s->pd, at, SIZE, ALL));
		offer(s, mr, (uintptr_t)at);
	}
	exchanges();
	ON_B(s) written_is_right(s->buf + TARGET_AT + SIZE);
	down();
	drop_mr(mr);
}

/* --- on demand ------------------------------------------------------------ */

static void implicit(void)
{
	struct ibv_mr *mr = NULL;
	uint8_t *fresh = NULL;

	ON_B(s)
	{
		fresh = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(fresh != MAP_FAILED);
		CHECK((mr = ibv_reg_mr(s->pd, NULL, SIZE_MAX,
				       ALL | IBV_ACCESS_ON_DEMAND)));
		offer(s, mr, (uintptr_t)fresh);
	}
	up();
	exchanges();
	ON_B(s)
	{
		written_is_right(fresh);
		CHECK(!munmap(fresh, 2 * SIZE));
	}
	/* iWARP's Terminate says that B failed, but not for which request (RFC 5040,
	 * 4.8). */
	reads(is_iwarp() ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_OP_ERR, 0);
	again();
	drop_mr(mr);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	down();
}

static void advice_refused(struct side *s, const struct ibv_mr *mr, uint8_t *at)
{
	const enum ibv_advise_mr_advice advice = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	struct ibv_sge sge = { (uintptr_t)at, SIZE, mr->lkey };

	REFUSED(EPERM, ibv_advise_mr(s->pd2, advice, flush, &sge, 1));
	sge.length = 5 * SIZE;
	REFUSED(EFAULT, ibv_advise_mr(s->pd, advice, flush, &sge, 1));
	sge = local(s, 0, 64);
	/* Not a region for on-demand paging. */
	REFUSED(EINVAL, ibv_advise_mr(s->pd, advice, flush, &sge, 1));
	sge.lkey ^= 0x5a5a5a5a;
	REFUSED(ENOENT, ibv_advise_mr(s->pd, advice, flush, &sge, 1));
	REFUSED(EOPNOTSUPP,
		ibv_advise_mr(s->pd, (enum ibv_advise_mr_advice)77, flush, &sge, 1));
}

static void prefetch(void)
{
	unsigned char in[4] = { 0 };
	struct ibv_mr *mr = NULL;
	uint8_t *fresh = NULL;

	ON_B(s)
	{
		struct ibv_sge sge = { .length = 4 * SIZE };

		fresh = mmap(NULL, 4 * SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(fresh != MAP_FAILED);
		CHECK((mr = ibv_reg_mr(s->pd, fresh, 4 * SIZE,
				       ALL | IBV_ACCESS_ON_DEMAND)));
		sge.addr = (uintptr_t)fresh;
		sge.lkey = mr->lkey;
		CHECK(!ibv_advise_mr(s->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1));
		CHECK(!mincore(fresh, 4 * SIZE, in) && (in[0] & in[3] & 1));
		advice_refused(s, mr, fresh);
		offer(s, mr, (uintptr_t)fresh);
	}
	up();
	exchanges();
	ON_B(s) written_is_right(fresh);
	reads(IBV_WC_REM_ACCESS_ERR, 4 * SIZE - 63);
	down();
	drop_mr(mr);
	ON_B(s) munmap(fresh, 4 * SIZE);
}

/* --- pages and their order -------------------------------------------------- */

static void huge_pages(void)
{
	uint8_t *huge = MAP_FAILED;
	struct ibv_mr *mr = NULL;
	bool none = false;

	ON_B(s)
	{
		huge = mmap(NULL, HUGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
		s->mine.addr = 0;
		if (huge != MAP_FAILED) {
			CHECK((mr = ibv_reg_mr(s->pd, huge, HUGE,
					       ALL | IBV_ACCESS_HUGETLB)));
			offer(s, mr, (uintptr_t)huge + HUGE - 128);
		}
	}
	up();
	ON_A(s) none = !s->theirs.addr;
	ON_B(s) none = !s->mine.addr;
	if (none) {
		down();
		left_out("no huge page is reserved");
		return;
	}
	exchanges();
	ON_B(s) written_is_right(huge + HUGE - 128);
	reads(IBV_WC_REM_ACCESS_ERR, 65);
	down();
	drop_mr(mr);
	ON_B(s) munmap(huge, HUGE);
}

static void relaxed_ordering(void)
{
	const int ordered = ALL & ~IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *mr = NULL, *unread = NULL;
	uint32_t all = 0;

	ON_B(s)
	{
		uint8_t *at = s->buf + TARGET_AT;

		CHECK((mr = ibv_reg_mr(s->pd, at, SIZE,
				       ALL | IBV_ACCESS_RELAXED_ORDERING)));
		CHECK((unread = ibv_reg_mr(s->pd, at, SIZE,
					   ordered | IBV_ACCESS_RELAXED_ORDERING)));
		offer(s, mr, (uintptr_t)at);
	}
	up();
	ON_A(s) all = s->theirs.rkey;
	ON_B(s) offer(s, unread, s->mine.addr);
	sync_sides();
	ON_A(s) exchange(s, s->theirs.addr, all);
	sync_sides();
	ON_B(s) written_is_right(s->buf + TARGET_AT);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	down();
	drop_mr(mr);
	drop_mr(unread);
}

/* --- import ----------------------------------------------------------------- */

static void imported(void)
{
	struct ibv_context *ctx = NULL;
	struct ibv_mr *mr = NULL, *twin = NULL;
	struct ibv_pd *pd = NULL;

	ON_B(s)
	{
		CHECK((mr = ibv_reg_mr(s->pd, s->buf + TARGET_AT, SIZE, ALL)));
		CHECK((ctx = ibv_import_device(dup(s->ctx->cmd_fd))));
		CHECK((pd = ibv_import_pd(ctx, s->pd->handle)));
		CHECK((twin = ibv_import_mr(pd, mr->handle)));
		CHECK(twin->rkey == mr->rkey && twin->lkey == mr->lkey);
		offer(s, twin, (uintptr_t)s->buf + TARGET_AT);
	}
	up();
	exchanges();
	ON_B(s)
	{
		written_is_right(s->buf + TARGET_AT);
		ibv_unimport_mr(twin);
		ibv_unimport_pd(pd);
		CHECK(!ibv_close_device(ctx));
	}
	reads(IBV_WC_SUCCESS, 0);
	drop_mr(mr);
	reads(IBV_WC_REM_ACCESS_ERR, 0);
	down();
}

const struct feature memory_rows[] = {
	{ "device_memory", device_memory, false },
	{ "device_memory_of_the_sender", device_memory_of_the_sender, false },
	{ "null_memory", null_memory, false },
	{ "changed_regions", changed_regions, false },
	{ "implicit", implicit, false },
	{ "prefetch", prefetch, false },
	{ "huge_pages", huge_pages, false },
	{ "relaxed_ordering", relaxed_ordering, false },
	{ "imported", imported, false },
	{ NULL, NULL, false },
};
