/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_fixture.h"

static struct srq *make(struct fix *f, uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr a = {
		.srq_context = f,
		.attr = { .max_wr = max_wr, .max_sge = max_sge },
	};
	struct srq *srq;

	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), 0);
	assert_true(a.attr.max_wr >= max_wr);
	assert_true(a.attr.max_sge >= max_sge);
	return srq;
}

static int post(struct srq *srq, uint64_t id)
{
	struct ibv_sge sge = { .addr = id, .length = 1 };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return srq_post(srq, &wr, &bad);
}

static void its_public_face_is_filled(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *a = make(f, 4, 1), *b = make(f, 4, 1);

	(void)state;
	assert_ptr_equal(srq_of(&a->ibv), a);
	assert_ptr_equal(a->ibv.context, &f->ibv);
	assert_ptr_equal(a->ibv.pd, &f->pd->ibv);
	assert_ptr_equal(a->ibv.srq_context, f);
	assert_int_equal(a->num >> QPN_INDEX_BITS, FIX_SLOT);
	assert_int_not_equal(a->num, b->num);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	assert_int_equal(srq_destroy(a), 0);
	assert_int_equal(srq_destroy(b), 0);
	fix_close(f);
}

static void limits_are_enforced(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 0, .max_sge = 1 } };
	struct srq *srq;

	(void)state;
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), -EINVAL);
	a.attr.max_wr = caps.max_srq_wr + 1;
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), -EINVAL);
	a.attr.max_wr = UINT32_MAX;
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), -EINVAL);
	a.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = caps.max_srq_sge + 1 };
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), -EINVAL);
	fix_close(f);
}

static void a_chain_is_taken_up_to_the_bad_one(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *srq = make(f, 4, 1);
	/* clang-format off */
	struct ibv_recv_wr wr[3] = {
		{ .wr_id = 1, .next = &wr[1] },
		{ .wr_id = 2, .next = &wr[2], .num_sge = -1 },
		{ .wr_id = 3 },
	}, *bad = NULL;
	struct rwqe w;

	(void)state;
	assert_int_equal(srq_post(srq, wr, &bad), -EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(w.wr_id, 1);
	assert_false(srq_pop(srq, &w));
	srq->rq.returned++; /* its completion has been polled */
	wr[1].num_sge = 2;
	assert_int_equal(srq_post(srq, wr, NULL), -EINVAL);
	assert_int_equal(srq_post(srq, NULL, &bad), 0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post(srq, i), 0);
	assert_int_equal(post(srq, 9), -ENOMEM);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

static void the_limit_event_comes_once_each_time_armed(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *srq = make(f, 8, 1);
	struct ibv_srq_attr a = { .srq_limit = 3 };
	struct rwqe w;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post(srq, i), 0);
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_true(srq_pop(srq, &w));
	assert_true(srq_pop(srq, &w));
	/* Three receives remain: the limit is not yet reached. */
	assert_int_equal(fix_event(f, &srq->ibv), -1);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(fix_event(f, &srq->ibv), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(srq_query(srq, &a), 0);
	assert_int_equal(a.srq_limit, 0);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(fix_event(f, &srq->ibv), -1);
	a.srq_limit = 1;
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_int_equal(fix_event(f, &srq->ibv), -1);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(fix_event(f, &srq->ibv), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

/* Armed too late, the event would not come before another message does. */
static void an_undercut_limit_is_told_of_at_once(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *srq = make(f, 8, 1);
	struct ibv_srq_attr a = { .srq_limit = 2, .max_wr = 16 };

	(void)state;
	assert_int_equal(post(srq, 0), 0);
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_LIMIT), 0);
	assert_int_equal(fix_event(f, &srq->ibv), IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(srq_query(srq, &a), 0);
	assert_int_equal(a.srq_limit, 0);
	a.srq_limit = 17;
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_LIMIT), -EINVAL);
	assert_int_equal(fix_event(f, &srq->ibv), -1); /* refused: not armed */
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

static void resizing_keeps_what_is_posted(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *srq = make(f, 4, 1);
	struct ibv_srq_attr a = { .max_wr = 16 };
	struct rwqe w;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(post(srq, i), 0);
	assert_true(srq_pop(srq, &w));
	assert_int_equal(post(srq, 4), -ENOMEM);
	srq->rq.returned++;
	assert_int_equal(post(srq, 4), 0);
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(post(srq, 5), 0);
	a.max_wr = 4;			/* five receives are posted */
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_MAX_WR), -EINVAL);
	a.max_wr = 0;
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_MAX_WR), -EINVAL);
	a.max_wr = UINT32_MAX;
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_MAX_WR), -EINVAL);
	a.srq_limit = 17;
	assert_int_equal(srq_modify(srq, &a, IBV_SRQ_LIMIT), -EINVAL);
	assert_int_equal(srq_modify(srq, &a, 1 << 7), -EINVAL);
	for (uint64_t i = 1; i < 6; i++) {
		assert_true(srq_pop(srq, &w));
		assert_int_equal(w.wr_id, i);
		assert_int_equal(w.sge[0].addr, i);
	}
	assert_int_equal(srq_query(srq, &a), 0);
	assert_int_equal(a.max_wr, 16);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

static void it_stays_while_a_qp_uses_it(void **state)
{
	struct fix *f = fix_open(8);
	struct srq *srq = make(f, 4, 1);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct qp *qp;

	(void)state;
	a.srq = &srq->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	assert_int_equal(srq_destroy(srq), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_public_face_is_filled),
		cmocka_unit_test(limits_are_enforced),
		cmocka_unit_test(a_chain_is_taken_up_to_the_bad_one),
		cmocka_unit_test(the_limit_event_comes_once_each_time_armed),
		cmocka_unit_test(an_undercut_limit_is_told_of_at_once),
		cmocka_unit_test(resizing_keeps_what_is_posted),
		cmocka_unit_test(it_stays_while_a_qp_uses_it),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
