/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching: messages, data and keys that are refused, and QPs that end. */
#include "ib/tm_fix.h"

static void failed(struct tags *t, int side)
{
	sim_run(t->f->s, SEC);
	assert_int_equal(t->qp[side]->state, IBV_QPS_ERR);
}

static void a_message_too_long_for_its_tag_fails(struct tags *t)
{
	add(t, 1, 0, 100);
	send_tagged(t, IBV_TMH_EAGER, 1, 117);
	wc_of(t, 0, 7, IBV_WC_REM_INV_REQ_ERR, NULL);
	wc_of(t, 1, 501, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
}

static void data_too_long_for_its_tag_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 101);

	add(t, 1, 0, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	wc_of(t, 0, 7, IBV_WC_REM_INV_REQ_ERR, NULL);
	wc_of(t, 1, 501, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
	assert_int_equal(used(t), 0);
}

static void data_that_may_not_be_read_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);

	add(t, 1, 0, 100);
	r.r.rkey ^= 0xff;
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	wc_of(t, 1, 501, IBV_WC_REM_ACCESS_ERR, NULL);
	failed(t, 1);
	assert_int_equal(used(t), 0);
}

static void a_buffer_with_a_wrong_key_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 100);
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD,
				 .tm.add = { .recv_wr_id = 501,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .tag = 1,
					     .mask = ~0ull } };

	sge.lkey ^= 0xff;
	assert_int_equal(tm_post(t->srq, &wr, NULL), 0);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	wc_of(t, 1, 501, IBV_WC_LOC_PROT_ERR, NULL);
	failed(t, 1);
}

static void a_fin_that_is_refused_is_an_event(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_sge none = sim_sge(t->f->mr[0], 0, 4); /* FIN is longer */

	sim_recv(t->qp[0], 3, &none, 1);
	add(t, 1, 0, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	wc_of(t, 0, 3, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
	assert_int_equal(sim_event(t->f->s, 1), IBV_EVENT_QP_FATAL);
	assert_int_equal(used(t), 0);
}

/* One READ is outstanding and other rendezvous wait for it; then the QP fails or is
 * destroyed. */
static void begin_many(struct tags *t)
{
	for (unsigned i = 1; i <= 12; i++) {
		struct request r = request(t, i, 8192, 100);

		add(t, i, 8192, 100);
		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		sent(t);
	}
}

static unsigned statuses(struct tags *t, uint8_t status)
{
	unsigned n = 0;
	struct cqe e;

	while (cq_pop(t->cq[1], &e))
		n += e.status == status;
	return n;
}

static void a_qp_that_ends_flushes(struct tags *t)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	unsigned there;

	begin_many(t); /* A posted no receive for FIN: at most eight pass */
	assert_int_equal(qp_modify(t->qp[1], &a, IBV_QP_STATE, t->f->s->now), 0);
	there = used(t);
	assert_int_equal(there, 0);
	there = statuses(t, IBV_WC_WR_FLUSH_ERR);
	assert_true(there >= 4 && there <= 12);
}

static void a_qp_that_is_reset_frees_its_tags(struct tags *t)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	begin_many(t);
	assert_true(used(t) >= 4); /* eight FINs are outstanding */
	assert_int_equal(qp_modify(t->qp[1], &a, IBV_QP_STATE, t->f->s->now), 0);
	assert_int_equal(used(t), 0);
	assert_int_equal(statuses(t, IBV_WC_WR_FLUSH_ERR), 0);
}

static void a_qp_that_is_destroyed_frees_its_tags(struct tags *t)
{
	begin_many(t); /* close_tags() checks */
}

#define TESTS                                                                            \
	X(a_message_too_long_for_its_tag_fails)                                          \
	X(data_too_long_for_its_tag_fails)                                               \
	X(data_that_may_not_be_read_fails)                                               \
	X(a_buffer_with_a_wrong_key_fails)                                               \
	X(a_fin_that_is_refused_is_an_event)                                             \
	X(a_qp_that_ends_flushes)                                                        \
	X(a_qp_that_is_reset_frees_its_tags)                                             \
	X(a_qp_that_is_destroyed_frees_its_tags)

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
