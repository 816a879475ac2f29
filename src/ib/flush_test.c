/* SPDX-License-Identifier: BSD-2-Clause */
/* FLUSH (annex A19): what was written before it is in place; answered as a READ of
 * nothing. */
#include "ib/fix.h"

#include "verbs/flush.h"
#include "verbs/post.h"

static const struct way {
	const char *name;
	struct sim_conf conf;
} ways[] = {
	{ "IPv4", { 0 } },
	{ "IPv6", { .ipv6 = true } },
	{ "with loss", { .fault = "drop=0.1,dup=0.1,seed=9" } },
	{ "one host", { .same_host = true } },
	{ "one host, pipe only", { .same_host = true, .pipe_only = true } },
};

enum { AT = 4096, LEN = 3000 };

/* B's region that may be flushed, whose key a request has unless it is spoiled. */
static struct mr *target;

struct request {
	uint64_t va, len;
	uint32_t rkey;
	uint8_t type, level;
};

static struct request good(const struct fix *f)
{
	return (struct request){ (uintptr_t)f->mem[1] + AT, LEN, target->mkey.key,
				 IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE };
}

static int post(struct fix *f, struct request r)
{
	struct qp *qp = f->p.qp[0];
	struct swqe *w;
	int rc;

	post_start(qp);
	qp->send_ops = IBV_QP_EX_WITH_FLUSH;
	qp->ex.wr_id = 5;
	qp->ex.wr_flags = IBV_SEND_SIGNALED;
	w = post_draft(qp, IBV_WR_FLUSH);
	assert_non_null(w);
	w->rkey = r.rkey;
	w->remote_addr = r.va;
	post_flush(qp, r.len, r.type, r.level);
	rc = post_complete(qp);
	if (!rc)
		due_add(qp->core, qp);
	return rc < 0 ? rc : 0;
}

static void flushed(struct fix *f, struct request r)
{
	struct ibv_wc wc;

	assert_int_equal(post(f, r), 0);
	wc = fix_wc(f, 0, 5, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FLUSH);
}

static void refused(struct fix *f, struct request r, enum ibv_wc_status status, int event)
{
	assert_int_equal(post(f, r), 0);
	fix_wc(f, 0, 5, status);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), event);
}

static void what_was_written_is_there(struct fix *f)
{
	for (uint8_t i = 1; i <= 20; i++) {
		memset(f->mem[0] + AT, i, LEN);
		fix_post(f, IBV_WR_RDMA_WRITE, 4, AT, LEN, 0);
		assert_int_equal(post(f, good(f)), 0);
		fix_wc(f, 0, 4, IBV_WC_SUCCESS);
		fix_wc(f, 0, 5, IBV_WC_SUCCESS);
		assert_memory_equal(f->mem[1] + AT, f->mem[0] + AT, LEN);
	}
}

static void as_many_as_reads(struct fix *f)
{
	for (int i = 0; i < 40; i++)
		assert_int_equal(post(f, good(f)), 0);
	for (int i = 0; i < 40; i++)
		fix_wc(f, 0, 5, IBV_WC_SUCCESS);
}

static void a_whole_region(struct fix *f)
{
	struct request r = good(f);

	r.level = IBV_FLUSH_MR;
	r.va = 1; /* not looked at, as is the length */
	r.len = UINT64_MAX;
	flushed(f, r);
	r.rkey ^= 0xff;
	refused(f, r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void a_whole_region_without_the_right(struct fix *f)
{
	struct request r = good(f);

	r.level = IBV_FLUSH_MR;
	r.rkey = f->mr[1]->mkey.key;
	refused(f, r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void of_nothing(struct fix *f)
{
	struct request r = good(f);

	r.len = 0;
	r.rkey ^= 0xff;
	flushed(f, r);
}

static void the_qp_has_to_allow_it(struct fix *f)
{
	f->p.qp[1]->attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_FLUSH_GLOBAL;
	refused(f, good(f), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void no_region_is_persistent(struct fix *f)
{
	struct request r = good(f);

	r.type = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;
	refused(f, r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void keys_count(struct fix *f)
{
	struct request r = good(f);

	r.rkey = f->mr[1]->mkey.key; /* it has all rights but that to be flushed */
	refused(f, r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void ranges_count(struct fix *f)
{
	struct request r = good(f);

	r.len = FIX_MEM - AT + 1;
	refused(f, r, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

static void they_count_as_reads(struct fix *f)
{
	f->p.qp[1]->attr.max_dest_rd_atomic = 0;
	refused(f, good(f), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void who_may_send_none_sends_none(struct fix *f)
{
	f->p.qp[0]->attr.max_rd_atomic = 0;
	assert_int_equal(post(f, good(f)), 0);
	fix_wc(f, 0, 5, IBV_WC_LOC_QP_OP_ERR);
}

static void what_there_is_not_is_not_posted(struct fix *f)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_FLUSH }, *bad;
	struct request r = good(f);

	r.type = 0;
	assert_int_equal(post(f, r), -EINVAL);
	r.type = 4;
	assert_int_equal(post(f, r), -EINVAL);
	r = good(f);
	r.level = 2;
	assert_int_equal(post(f, r), -EINVAL);
	r = good(f);
	r.len = 1ull << 32;
	assert_int_equal(post(f, r), -EINVAL);
	/* ibv_send_wr has no fields for it. */
	assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	flushed(f, good(f));
}

static struct fix *open_fix(const struct sim_conf *conf)
{
	struct fix *f = fix_open(IBV_QPT_RC, conf);

	target = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL | IBV_ACCESS_FLUSH_GLOBAL);
	f->p.qp[1]->attr.qp_access_flags |= ACCESS_FLUSH;
	return f;
}

static void close_fix(struct fix *f)
{
	assert_int_equal(mr_dereg(target), 0);
	fix_close(f);
}

static void run(void (*test)(struct fix *f))
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct fix *f = open_fix(&ways[i].conf);

		print_message("           %s\n", ways[i].name);
		test(f);
		close_fix(f);
	}
}

static void the_answer_is_lost(void **state)
{
	struct fix *f = open_fix(NULL);

	(void)state;
	fix_lose(f, 1, "READ_RESP_ONLY", 1);
	flushed(f, good(f));
	assert_int_equal(fix_count(f, 0, "FLUSH"), 2);
	assert_int_equal(fix_count(f, 1, "READ_RESP_ONLY"), 2);
	close_fix(f);
}

/* A packet as the annex has it: FETH, then RETH. */
static void on_the_wire(void **state)
{
	struct fix *f = open_fix(NULL);
	const struct sim_packet *p;

	(void)state;
	flushed(f, good(f));
	p = fix_saw(f, 0, 0, "FLUSH", 0);
	assert_int_equal(p->f.opcode, 0x1c);
	assert_int_equal(p->f.flush, 0x01);
	assert_int_equal(p->f.va, good(f).va);
	assert_int_equal(p->f.rkey, target->mkey.key);
	assert_int_equal(p->f.dma_len, LEN);
	assert_int_equal(p->payload, 0);
	p = fix_saw(f, 1, 1, "READ_RESP_ONLY", 0);
	assert_int_equal(p->payload, 0);
	close_fix(f);
}

/* From a peer: no placement type, one that there is not, a level that there is not; a
 * payload.  Reserved bits are not looked at. */
static void feths_of_strangers(void **state)
{
	static const struct {
		uint32_t feth, payload;
		const char *answer;
	} v[] = {
		{ 0x00, 0, "ACK" }, { 0x04, 0, "ACK" },
		{ 0x09, 0, "ACK" }, { 0x21, 0, "ACK" },
		{ 0x01, 4, "ACK" }, { 0xffffffc1, 0, "READ_RESP_ONLY" },
	};
	static const uint8_t data[4];

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct fix *f = open_fix(NULL);
		struct ib_fields p = {
			.opcode = ib_opcode(IB_RC, IB_FLUSH, IB_ONLY, IB_NONE),
			.pkey = 0xffff,
			.dest_qp = f->p.qp[1]->qpn,
			.ackreq = true,
			.flush = v[i].feth,
			.va = good(f).va,
			.rkey = target->mkey.key,
			.dma_len = 8,
		};
		const struct sim_packet *seen;

		sim_inject(f->s, 0, &p, data, v[i].payload);
		while (f->n == 0)
			assert_true(sim_step(f->s));
		seen = fix_saw(f, 0, 1, v[i].answer, 0);
		assert_int_equal(seen->f.syndrome,
				 strcmp(v[i].answer, "ACK") ? 0x1f : 0x61);
		close_fix(f);
	}
}

#define TESTS                                                                            \
	X(what_was_written_is_there)                                                     \
	X(as_many_as_reads)                                                              \
	X(a_whole_region)                                                                \
	X(a_whole_region_without_the_right)                                              \
	X(of_nothing)                                                                    \
	X(the_qp_has_to_allow_it)                                                        \
	X(no_region_is_persistent)                                                       \
	X(keys_count)                                                                    \
	X(ranges_count)                                                                  \
	X(they_count_as_reads)                                                           \
	X(who_may_send_none_sends_none)                                                  \
	X(what_there_is_not_is_not_posted)

#define X(name)                                                                          \
	static void test_##name(void **state)                                            \
	{                                                                                \
		(void)state;                                                             \
		run(name);                                                               \
	}
TESTS
#undef X

int main(void)
{
	const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test(test_##name),
		TESTS
#undef X
			cmocka_unit_test(the_answer_is_lost),
		cmocka_unit_test(on_the_wire),
		cmocka_unit_test(feths_of_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
