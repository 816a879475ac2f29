/* SPDX-License-Identifier: BSD-2-Clause */
/* flush.c - FLUSH (IBTA annex A19). */
#include "feature.h"

enum {
	SIZE = 4096,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	RANGE = IBV_FLUSH_RANGE,
	REGION = IBV_FLUSH_MR,
};

/* A FLUSH that A posts. */
struct flush {
	uint64_t off, len;
	uint32_t rkey_xor;
	uint8_t type, level;
};

static struct ibv_qp *flusher(struct side *s)
{
	return end_qp(s, s->pd, s->rcq, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH);
}

static void ask(struct side *s, uint64_t id, struct flush f)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);

	x->wr_id = id;
	x->wr_flags = IBV_SEND_SIGNALED;
	newer(x).wr_flush(x, s->theirs.rkey ^ f.rkey_xor, s->theirs.addr + f.off, f.len,
			  f.type, f.level);
}

static int post_flush(struct side *s, struct flush f)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);

	ibv_wr_start(x);
	ask(s, 2, f);
	return ibv_wr_complete(x);
}

/* A WRITE with a FLUSH behind it: when the FLUSH completes, B's program sees the bytes
 * without being told. */
static void write_and_flush(struct side *s)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(s->qp);

	for (unsigned i = 0; i < SIZE; i++)
		s->buf[i] = (uint8_t)(i * 7 + 3);
	ibv_wr_start(x);
	x->wr_id = 1;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, s->theirs.rkey, s->theirs.addr);
	ibv_wr_set_sge(x, s->mr->lkey, (uintptr_t)s->buf, SIZE);
	ask(s, 2, (struct flush){ 0, SIZE, 0, IBV_FLUSH_GLOBAL, RANGE });
	CHECK(!ibv_wr_complete(x));
	expect(s->scq, 1, IBV_WC_SUCCESS, V_NONE);
	CHECK(expect(s->scq, 2, IBV_WC_SUCCESS, V_NONE).opcode == IBV_WC_FLUSH);
}

static void bad_posts(struct side *s)
{
	const struct flush good = { 0, SIZE, 0, IBV_FLUSH_GLOBAL, RANGE };
	struct flush f = good;

	f.type = 0;
	CHECK(post_flush(s, f) == EINVAL);
	f.type = 4;
	CHECK(post_flush(s, f) == EINVAL);
	f = good;
	f.level = 2;
	CHECK(post_flush(s, f) == EINVAL);
	f = good;
	f.len = 1ull << 32;
	CHECK(post_flush(s, f) == EINVAL);
	expect_none(s->scq);
}

/* B refuses the FLUSH, and both QPs fail; then they are replaced. */
static void refused(struct flush f, enum ibv_wc_status status, unsigned verr)
{
	sync_sides();
	ON_A(s)
	{
		CHECK(!post_flush(s, f));
		expect(s->scq, 2, (int)status, verr);
	}
	down();
	up_with(flusher);
}

static void refusals(void)
{
	const struct flush good = { 0, SIZE, 0, IBV_FLUSH_GLOBAL, RANGE };
	struct flush f = good;

	f.len++;
	refused(f, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	f = good;
	f.rkey_xor = 0x5a5a5a5a;
	refused(f, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	f.level = REGION;
	refused(f, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	f = good;
	f.type = IBV_FLUSH_PERSISTENT; /* no region grants it */
	refused(f, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
}

/* B's region, or B's QP, does not grant FLUSH. */
static void ungranted(void)
{
	const struct flush good = { 0, 64, 0, IBV_FLUSH_GLOBAL, RANGE };

	ON_B(s) s->mine.rkey = s->mr->rkey;
	down();
	up_with(flusher);
	refused(good, IBV_WC_REM_ACCESS_ERR, V_REM_ACCESS);
	more_rights = 0;
	down();
	up_with(flusher);
	refused(good, IBV_WC_REM_INV_REQ_ERR, V_REM_INVALID);
}

static void flush(void)
{
	struct ibv_mr *mr = NULL;

	more_rights = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
	ON_B(s)
	{
		REFUSED_PTR(EOPNOTSUPP, ibv_reg_mr(s->pd, s->buf + TARGET_AT, SIZE,
						   ALL | IBV_ACCESS_FLUSH_PERSISTENT));
		CHECK((mr = ibv_reg_mr(s->pd, s->buf + TARGET_AT, SIZE,
				       ALL | IBV_ACCESS_FLUSH_GLOBAL)));
		s->mine.addr = (uintptr_t)s->buf + TARGET_AT;
		s->mine.rkey = mr->rkey;
	}
	up_with(flusher);
	ON_A(s)
	{
		write_and_flush(s);
		CHECK(!post_flush(s,
				  (struct flush){ 1, 0, 0, IBV_FLUSH_GLOBAL, REGION }));
		expect(s->scq, 2, IBV_WC_SUCCESS, V_NONE);
		bad_posts(s);
	}
	sync_sides();
	ON_B(s)
	for (unsigned i = 0; i < SIZE; i++)
		CHECK(s->buf[TARGET_AT + i] == (uint8_t)(i * 7 + 3));
	refusals();
	ungranted();
	down();
	ON_B(s) CHECK(!ibv_dereg_mr(mr));
}

const struct feature flush_rows[] = {
	{ "flush", flush, true },
	{ NULL, NULL, false },
};
