/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching between two QPs: what matches, what does not, and rendezvous. */
#include "ib/tm_fix.h"

static void messages_that_match_leave_their_header(struct tags *t)
{
	static const uint32_t len[] = { 16, 17, 1024, 1040, 1041, 50000 };

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		uint32_t n = len[i] - 16;

		add(t, i + 1, 4096, n);
		send_tagged(t, IBV_TMH_EAGER, i + 1, len[i]);
		sent(t);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID,
		       n, i + 1);
		assert_memory_equal(t->f->mem[1] + 4096, t->f->mem[0] + 16, n);
	}
	add(t, 9, 4096, 100); /* with immediate, and a longer buffer */
	send_tagged(t, IBV_TMH_EAGER, 9, 50);
	sent(t);
	expect(t, 509, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 34, 9);
	add(t, 9, 4096, 100);
	send_raw(t, NULL, 0, 50, IBV_WR_SEND_WITH_IMM);
	sent(t);
	assert_int_equal(wc_of(t, 1, 509, IBV_WC_SUCCESS, NULL).wc_flags,
			 IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID | IBV_WC_WITH_IMM);
}

static void what_does_not_match_keeps_it(struct tags *t)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
		enum ibv_wc_opcode wc;
	} m[] = {
		{ IBV_TMH_EAGER, 16, IBV_WC_TM_RECV },
		{ IBV_TMH_EAGER, 5000, IBV_WC_TM_RECV },
		{ IBV_TMH_RNDV, 16, IBV_WC_TM_RECV }, /* without RVH */
		{ IBV_TMH_RNDV, 65, IBV_WC_TM_RECV }, /* too long for one */
		{ IBV_TMH_NO_TAG, 5000, IBV_WC_TM_NO_TAG },
		{ IBV_TMH_FIN, 16, IBV_WC_TM_NO_TAG },
		{ 200, 16, IBV_WC_TM_NO_TAG },
		{ IBV_TMH_EAGER, 15, IBV_WC_TM_NO_TAG }, /* without TMH */
		{ IBV_TMH_EAGER, 0, IBV_WC_TM_NO_TAG },
	};

	add(t, 1, 0, 100);
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		uint64_t tag = m[i].opcode == IBV_TMH_RNDV || m[i].len < 16 ? 1 : 2;

		receive(t, i);
		send_tagged(t, m[i].opcode, tag, m[i].len);
		sent(t);
		expect(t, i, m[i].wc, 0, m[i].len, 0);
		assert_memory_equal(t->f->mem[1] + FIX_MEM - 8192, t->f->mem[0],
				    m[i].len);
	}
	assert_int_equal(tm_list_of(t->srq)->unexpected, 4);
	send_tagged(t, IBV_TMH_EAGER, 1, 20); /* it has waited all the time */
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 4, 1);
}

static void a_write_takes_a_receive(struct tags *t)
{
	struct ibv_sge sge = sim_sge(t->f->mr[0], 0, 64);
	struct ibv_send_wr wr = { .wr_id = 7,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = t->f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = t->f->mr[1]->mkey.key;
	receive(t, 1); /* no message before left anything behind */
	send_tagged(t, IBV_TMH_EAGER, 5, 20);
	receive(t, 3);
	sim_send(t->qp[0], &wr);
	sent(t);
	sent(t);
	expect(t, 1, IBV_WC_TM_RECV, 0, 20, 0);
	expect(t, 3, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, 64, 0);
	assert_int_equal(tm_list_of(t->srq)->unexpected, 1);
}

static void a_message_without_a_receive_waits(struct tags *t)
{
	send_tagged(t, IBV_TMH_EAGER, 5, 20);
	assert_false(sim_run(t->f->s, 20 * MS));
	assert_true(cq_empty(t->cq[0]));
	add(t, 5, 0, 100);
	sent(t);
	expect(t, 505, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 4, 5);
	assert_int_equal(tm_list_of(t->srq)->unexpected, 0);
}

static void a_rendezvous_fetches_its_data(struct tags *t)
{
	static const uint32_t len[] = { 0, 1, 1000, 1024, 1025, BIG };

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct request r = request(t, i + 1, 8192 + i, len[i]);

		take_fin(t, 77);
		add(t, i + 1, 8192, len[i] + 3);
		send_raw(t, &r, sizeof(r), i == 3 ? 64 : sizeof(r), IBV_WR_SEND);
		sent(t);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, len[i], i + 1);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, len[i], 0);
		assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192 + i, len[i]);
		fin_came(t, 77, i + 1);
	}
	sim_run(t->f->s, SEC);
	assert_int_equal(used(t), 0);
	assert_int_equal(tm_list_of(t->srq)->unexpected, 0);
}

struct seen {
	unsigned matched, valid, fins, sends;
};

static void look(struct tags *t, struct seen *s)
{
	struct cqe e;

	while (cq_pop(t->cq[1], &e) || cq_pop(t->cq[0], &e)) {
		assert_int_equal(e.status, IBV_WC_SUCCESS);
		s->matched += e.flags == IBV_WC_TM_MATCH;
		s->valid += e.flags == IBV_WC_TM_DATA_VALID;
		s->fins += e.wr_id == 77;
		s->sends += e.wr_id == 7;
	}
}

/* More rendezvous than the send queue has places, mixed with the program's own work. */
static void many_rendezvous_at_once(struct tags *t)
{
	enum { N = 30, LEN = 3000 };
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 8);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct seen seen = { 0 };

	wr.wr.rdma.remote_addr = t->f->mr[0]->mkey.base;
	wr.wr.rdma.rkey = t->f->mr[0]->mkey.key;
	for (unsigned i = 0; i < N; i++) {
		take_fin(t, 77);
		add(t, i + 1, 8192 + i * LEN, LEN);
	}
	for (unsigned i = 0; i < N; i++) {
		struct request r = request(t, i + 1, 8192 + i * LEN, LEN);

		if (i % 8 == 0) /* the program posts all that it may, at the worst time */
			for (int j = 0; j < 4; j++)
				sim_send(t->qp[1], &wr);
		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		look(t, &seen);
		while (seen.sends <= i) { /* the request lies in A's memory */
			assert_true(sim_step(t->f->s));
			look(t, &seen);
		}
	}
	while (seen.valid < N || seen.fins < N) {
		assert_true(sim_step(t->f->s));
		look(t, &seen);
	}
	assert_int_equal(seen.matched, N);
	assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192, N * LEN);
}

static void a_full_send_queue_keeps_no_rendezvous_out(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr_id = 3 }, *bad;
	unsigned n = 0;

	/* A has no receive, so B's SENDs wait and fill the queue. */
	while (qp_post_send(t->qp[1], &wr, &bad) == 0)
		n++;
	assert_true(n >= 16);
	due_add(t->qp[1]->core, t->qp[1]);
	add(t, 1, 8192, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	assert_int_not_equal(qp_post_send(t->qp[1], &wr, &bad), 0);
	for (unsigned i = 0; i < n + 1; i++) {
		take_fin(t, i);
		wc_of(t, 0, i, IBV_WC_SUCCESS, NULL);
	}
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192, 100);
}

static void a_rendezvous_waits_for_who_builds(struct tags *t, bool completes)
{
	struct request r = request(t, 1, 8192, 100);

	add(t, 1, 8192, 100);
	take_fin(t, 77);
	post_start(t->qp[1]);
	t->qp[1]->ex.wr_id = 1;
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	sim_run(t->f->s, 10 * MS);
	assert_true(cq_empty(t->cq[1]));
	if (completes)
		assert_int_equal(post_complete(t->qp[1]), 0);
	else
		assert_true(post_abort(t->qp[1]));
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	fin_came(t, 77, 1);
}

static void a_rendezvous_waits_for_its_builder(struct tags *t)
{
	a_rendezvous_waits_for_who_builds(t, true);
	a_rendezvous_waits_for_who_builds(t, false);
}

static void a_rendezvous_that_the_qp_cannot_do_is_the_programs(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_ops_wr del = { .opcode = IBV_WR_TAG_DEL };
	uint32_t handle;

	t->qp[1]->attr.max_rd_atomic = 0; /* or B's QP may not READ */
	handle = add(t, 1, 8192, 100);
	receive(t, 4);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 4, IBV_WC_TM_RECV, 0, sizeof(r), 0);
	assert_memory_equal(t->f->mem[1] + FIX_MEM - 8192, &r, sizeof(r));
	del.tm.handle = handle;
	assert_int_equal(tm_post(t->srq, &del, NULL), 0);
}

#define TESTS                                                                            \
	X(messages_that_match_leave_their_header)                                        \
	X(what_does_not_match_keeps_it)                                                  \
	X(a_write_takes_a_receive)                                                       \
	X(a_message_without_a_receive_waits)                                             \
	X(a_rendezvous_fetches_its_data)                                                 \
	X(many_rendezvous_at_once)                                                       \
	X(a_full_send_queue_keeps_no_rendezvous_out)                                     \
	X(a_rendezvous_waits_for_its_builder)                                            \
	X(a_rendezvous_that_the_qp_cannot_do_is_the_programs)

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
