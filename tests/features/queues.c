/* SPDX-License-Identifier: BSD-2-Clause */
/* queues.c - queues of each kind: domains with the program's allocators, posts by
 * ibv_wr_*(), times of completions. */
#include "feature.h"

static enum { WELL, REFUSES, BY_ITSELF } allocator;
static unsigned taken, given;
static struct ibv_pd *parent[2];
static struct ibv_cq_ex *timed;

/* --- parent domains -------------------------------------------------------- */

static void *take(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		  uint64_t type)
{
	void *at = NULL;

	(void)type;
	CHECK(context == &taken && (pd == parent[0] || pd == parent[1]));
	if (allocator == REFUSES)
		return NULL;
	if (allocator == BY_ITSELF)
		return IBV_ALLOCATOR_USE_DEFAULT;
	CHECK(!posix_memalign(&at, alignment, size));
	taken++;
	return memset(at, 0xee, size);
}

static void give(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)type;
	CHECK(context == &taken && (pd == parent[0] || pd == parent[1]));
	given++;
	free(at);
}

static struct ibv_qp *on_parent(struct side *s)
{
	return end_qp(s, parent[s->is_b], s->rcq, 0);
}

static void refused_by_the_allocator(struct side *s)
{
	struct ibv_qp_init_attr init = { .send_cq = s->scq,
					 .recv_cq = s->rcq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 4, 4, 64 } };
	struct ibv_srq_init_attr srq = { .attr = { 16, 4, 0 } };

	allocator = REFUSES;
	REFUSED_PTR(ENOMEM, ibv_create_qp(parent[s->is_b], &init));
	REFUSED_PTR(ENOMEM, ibv_create_srq(parent[s->is_b], &srq));
}

/* A WRITEs and SENDs to memory and queues that B's QP of a parent domain has. */
static void exchange_on_parents(void)
{
	up_with(on_parent);
	ON_B(s) CHECK(!post_recv(s, 5, 4096));
	sync_sides();
	ON_A(s)
	{
		exchange(s, s->theirs.addr, s->theirs.rkey);
		CHECK(!one(s, IBV_WR_SEND, local(s, 0, 64), 0, 0));
	}
	ON_B(s)
	{
		expect(s->rcq, 5, IBV_WC_SUCCESS, V_NONE);
		written_is_right(s->buf + RECV_AT);
	}
	sync_sides();
	ON_B(s) written_is_right(s->buf + TARGET_AT);
	ON_A(s)
	CHECK(read_64(s, s->theirs.addr, s->theirs.rkey ^ 0x5a5a5a5a) ==
	      IBV_WC_REM_ACCESS_ERR);
	down();
}

static void domains_open(struct ibv_td *td[2])
{
	for (int b = 0; b < 2; b++) {
		struct ibv_parent_domain_init_attr a = {
			.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
			.alloc = take,
			.free = give,
			.pd_context = &taken,
		};
		struct ibv_td_init_attr none = { 0 };

		if (!plays(b))
			continue;
		CHECK((a.td = td[b] = ibv_alloc_td(side(b)->ctx, &none)));
		a.pd = side(b)->pd;
		CHECK((parent[b] = ibv_alloc_parent_domain(side(b)->ctx, &a)));
	}
}

static void domains(void)
{
	struct ibv_td *td[2];

	domains_open(td);
	ON_B(s)
	{
		s->mine.addr = (uintptr_t)s->buf + TARGET_AT;
		s->mine.rkey = s->mr->rkey;
	}
	allocator = WELL;
	exchange_on_parents();
	CHECK(taken && taken == given);
	allocator = BY_ITSELF;
	exchange_on_parents();
	CHECK(taken == given);
	each(refused_by_the_allocator);
	CHECK(taken == given);
	for (int b = 0; b < 2; b++) {
		if (!plays(b))
			continue;
		CHECK(ibv_dealloc_td(td[b]) == EBUSY);
		CHECK(!ibv_dealloc_pd(parent[b]) && !ibv_dealloc_td(td[b]));
	}
}

/* --- ibv_wr_*() -------------------------------------------------------------- */

static struct ibv_qp *extended(struct side *s)
{
	return end_qp(s, s->pd, s->rcq,
		      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
			      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			      (is_iwarp() ? IBV_QP_EX_WITH_SEND
					  : IBV_QP_EX_WITH_SEND_WITH_IMM));
}

static void begin_write(struct side *s, struct ibv_qp_ex *x, uint64_t id, uint32_t rkey)
{
	x->wr_id = id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, rkey, s->theirs.addr);
	ibv_wr_set_sge(x, s->mr->lkey, (uintptr_t)s->buf, 64);
}

/* Begins a request that B refuses: a WRITE, or a READ where WRITEs complete when they
 * are sent. */
static void begin_bad(struct side *s, struct ibv_qp_ex *x, uint64_t id, uint32_t rkey)
{
	if (!is_iwarp()) {
		begin_write(s, x, id, rkey);
		return;
	}
	x->wr_id = id;
	ibv_wr_rdma_read(x, rkey, s->theirs.addr);
	ibv_wr_set_sge(x, s->mr->lkey, (uintptr_t)s->buf + 4096, 64);
}

/* Nothing of an aborted list arrives; a completed list arrives as a whole, in order. */
static void batch(struct side *s)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);
	static const char text[] = "sent inline";

	CHECK(x);
	memset(s->buf, 0xaa, 64);
	ibv_wr_start(x);
	begin_write(s, x, 1, s->theirs.rkey);
	ibv_wr_abort(x);
	expect_none(s->scq);
	CHECK(!read_64(s, s->theirs.addr, s->theirs.rkey) && s->buf[4096] == 0x5a);

	memset(s->buf, 0xbb, 64);
	memset(s->buf + 8192, 0, 8);
	ibv_wr_start(x);
	begin_write(s, x, 2, s->theirs.rkey);
	x->wr_id = 3;
	ibv_wr_atomic_fetch_add(x, s->theirs.rkey, s->theirs.addr + 64, 5);
	ibv_wr_set_sge(x, s->mr->lkey, (uintptr_t)s->buf + 8192, 8);
	x->wr_id = 4;
	if (is_iwarp()) /* iWARP has no SEND with immediate */
		ibv_wr_send(x);
	else
		ibv_wr_send_imm(x, 0x01020304);
	ibv_wr_set_inline_data(x, (void *)(uintptr_t)text, sizeof(text));
	CHECK(!ibv_wr_complete(x));
	for (uint64_t id = 2; id <= 4; id++)
		expect(s->scq, id, IBV_WC_SUCCESS, V_NONE);
	CHECK(*(uint64_t *)(s->buf + 8192) == 0x5a5a5a5a5a5a5a5a);
}

static void batch_that_fails(struct side *s)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);

	memset(s->buf, 0xcc, 64);
	ibv_wr_start(x);
	begin_write(s, x, 5, s->theirs.rkey);
	begin_bad(s, x, 6, s->theirs.rkey ^ 0x5a5a5a5a);
	begin_write(s, x, 7, s->theirs.rkey);
	CHECK(!ibv_wr_complete(x));
	expect(s->scq, 5, IBV_WC_SUCCESS, V_NONE);
	expect(s->scq, 6, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	expect(s->scq, 7, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
}

static void built_posts(void)
{
	ON_B(s)
	{
		memset(s->buf + TARGET_AT, 0x5a, 72);
		s->mine.addr = (uintptr_t)s->buf + TARGET_AT;
		s->mine.rkey = s->mr->rkey;
	}
	up_with(extended);
	ON_B(s) CHECK(!post_recv(s, 9, 64));
	sync_sides();
	ON_A(s) batch(s);
	sync_sides();
	ON_B(s)
	{
		struct ibv_wc wc = expect(s->rcq, 9, IBV_WC_SUCCESS, V_NONE);

		CHECK(is_iwarp() ||
		      (wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == 0x01020304));
		CHECK(!strcmp((char *)s->buf + RECV_AT, "sent inline"));
		CHECK(s->buf[TARGET_AT] == 0xbb && s->buf[TARGET_AT + 63] == 0xbb);
		CHECK(s->buf[TARGET_AT + 64] == 0x5f);
	}
	sync_sides();
	ON_A(s) batch_that_fails(s);
	sync_sides();
	ON_B(s) CHECK(s->buf[TARGET_AT] == 0xcc);
	down();
}

/* --- times ------------------------------------------------------------------- */

static uint64_t raw_clock(struct side *s)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(!ibv_query_rt_values_ex(s->ctx, &v));
	CHECK(v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)v.raw_clock.tv_sec * 1000000000 + (uint64_t)v.raw_clock.tv_nsec;
}

static struct ibv_qp *with_timed_cq(struct side *s)
{
	return end_qp(s, s->pd, s->is_b ? ibv_cq_ex_to_cq(timed) : s->rcq, 0);
}

static void at_its_time(struct side *s, uint64_t before)
{
	struct ibv_poll_cq_attr none = { 0 };
	uint64_t end = now_ms() + 10000;
	int rc;

	do {
		rc = ibv_start_poll(timed, &none);
	} while (rc == ENOENT && now_ms() < end);
	CHECK(!rc && timed->status == IBV_WC_SUCCESS && timed->wr_id == 8);
	CHECK(ibv_wc_read_byte_len(timed) == 64);
	CHECK(ibv_wc_read_completion_ts(timed) >= before);
	CHECK(ibv_wc_read_completion_ts(timed) <= raw_clock(s));
	CHECK(ibv_next_poll(timed) == ENOENT);
	ibv_end_poll(timed);
}

/* A message's timestamp lies between two readings of B's clock. */
static void times(void)
{
	uint64_t before = 0;

	ON_B(s)
	{
		struct ibv_cq_init_attr_ex a = {
			.cqe = 16,
			.wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
				    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
		};
		CHECK((timed = ibv_create_cq_ex(s->ctx, &a)));
	}
	up_with(with_timed_cq);
	ON_B(s)
	{
		CHECK(!post_recv(s, 8, 4096));
		before = raw_clock(s);
		CHECK(before);
	}
	sync_sides();
	ON_A(s) CHECK(!one(s, IBV_WR_SEND, local(s, 0, 64), 0, 0));
	ON_B(s) at_its_time(s, before);
	down();
	ON_B(s) CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(timed)));
}

const struct feature queue_rows_ex[] = {
	{ "domains", domains, false },
	{ "built_posts", built_posts, false },
	{ "times", times, false },
	{ NULL, NULL, false },
};
