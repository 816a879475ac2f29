/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/heap.h"
#include "verbs/due.h"
#include "verbs/qp_fixture.h"

#include <stdio.h>

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static int create(struct fix *f, struct ibv_qp_init_attr_ex a)
{
	struct qp *qp = NULL;
	int rc = qp_create(&f->ctx, &a, &fake_transport, &qp);

	if (!rc)
		assert_int_equal(qp_destroy(qp), 0);
	else
		assert_null(qp);
	return rc;
}

static void its_public_face_is_filled(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_UD);
	struct ibv_qp *ibv;
	struct qp *qp;
	uint32_t qpn;

	(void)state;
	a.qp_context = f;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	ibv = &qp->ex.qp_base;
	assert_ptr_equal(qp_of(ibv), qp);
	assert_ptr_equal(qp_of_ex(&qp->ex), qp);
	assert_ptr_equal(ibv->context, &f->ibv);
	assert_ptr_equal(ibv->qp_context, f);
	assert_ptr_equal(ibv->pd, a.pd);
	assert_ptr_equal(ibv->send_cq, a.send_cq);
	assert_ptr_equal(ibv->recv_cq, a.recv_cq);
	assert_int_equal(ibv->qp_num, qp->qpn);
	assert_int_equal(ibv->state, IBV_QPS_RESET);
	assert_int_equal(ibv->qp_type, IBV_QPT_UD);
	qpn = qp->qpn;
	assert_int_equal(qpn >> QPN_INDEX_BITS, FIX_SLOT);
	assert_in_range(qpn & (QPN_INDICES - 1), QPN_FIRST, QPN_INDICES - 1);
	turn_is_held(&f->core);
	assert_ptr_equal(qp_find(&f->core, qp->qpn), qp);
	assert_null(qp_find(&f->core, 2)); /* a number of another slot */
	assert_null(qp_find(&f->core, qp->qpn + 1));
	assert_null(qp_find(&f->core, UINT32_MAX));
	assert_int_equal(pd_free(f->pd), -EBUSY);
	assert_int_equal(cq_destroy(f->scq), -EBUSY);
	assert_int_equal(cq_destroy(f->rcq), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_null(qp_find(&f->core, qpn));
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.closed, 1);
	fix_close(f);
}

static void sizes_are_kept_and_returned(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct qp *qp;

	(void)state;
	a.cap = (struct ibv_qp_cap){ .max_send_wr = 100,
				     .max_recv_wr = 3,
				     .max_send_sge = 5,
				     .max_inline_data = 77 };
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	assert_int_equal(a.cap.max_send_wr, 100);
	assert_int_equal(a.cap.max_recv_wr, 3);
	assert_int_equal(a.cap.max_send_sge, 5);
	assert_int_equal(a.cap.max_recv_sge, 1);
	assert_int_equal(a.cap.max_inline_data, 77);
	assert_int_equal(qp_destroy(qp), 0);

	a.cap = (struct ibv_qp_cap){ .max_send_wr = caps.max_qp_wr,
				     .max_recv_wr = caps.max_qp_wr,
				     .max_send_sge = caps.max_sge,
				     .max_recv_sge = caps.max_sge,
				     .max_inline_data = caps.max_inline };
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	assert_int_equal(a.cap.max_send_wr, caps.max_qp_wr);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void every_cap_is_enforced(void **state)
{
	struct fix *f = fix_open(8);
	const struct ibv_qp_init_attr_ex ok = fix_init(f, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex a;

	(void)state;
	a = ok, a.cap.max_send_wr = caps.max_qp_wr + 1;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.cap.max_recv_wr = UINT32_MAX;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.cap.max_send_sge = caps.max_sge + 1;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.cap.max_recv_sge = caps.max_sge + 1;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.cap.max_inline_data = caps.max_inline + 1;
	assert_int_equal(create(f, a), -EINVAL);
	assert_int_equal(create(f, ok), 0);
	fix_close(f);
}

static void what_is_not_supported_is_said_so(void **state)
{
	struct fix *f = fix_open(8);
	const struct ibv_qp_init_attr_ex ok = fix_init(f, IBV_QPT_UD);
	struct ibv_qp_init_attr_ex a;

	(void)state;
	a = ok, a.qp_type = IBV_QPT_DRIVER;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a = ok, a.qp_type = 0;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a = ok, a.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.comp_mask |= 1u << 20;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	assert_int_equal(create(f, a), 0);
	a.create_flags = IBV_QP_CREATE_SOURCE_QPN;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING | IBV_QP_CREATE_SCATTER_FCS;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a.create_flags = 1u << 31;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a.create_flags = IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	assert_int_equal(create(f, a), 0);
	a.create_flags |= IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_int_equal(create(f, a), 0);
	a.qp_type = IBV_QPT_RC;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING | IBV_QP_CREATE_SCATTER_FCS;
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	a = ok, a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = IBV_QP_EX_WITH_SEND;
	assert_int_equal(create(f, a), 0);
	a.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ; /* READ is not for UD */
	assert_int_equal(create(f, a), -EOPNOTSUPP);
	fix_close(f);
}

static void objects_must_be_there(void **state)
{
	struct fix *f = fix_open(8);
	const struct ibv_qp_init_attr_ex ok = fix_init(f, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex a;

	(void)state;
	a = ok, a.send_cq = NULL;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.recv_cq = NULL;
	assert_int_equal(create(f, a), -EINVAL);
	a = ok, a.pd = NULL;
	assert_int_equal(create(f, a), -EINVAL);
	f->ctx.dead = true;
	assert_int_equal(create(f, ok), -EIO);
	f->ctx.dead = false;
	fix_close(f);
}

static void a_transport_that_refuses_leaves_nothing_behind(void **state)
{
	struct fix *f = fix_open(8);

	(void)state;
	fake.open_rc = -ENOMEM;
	assert_int_equal(create(f, fix_init(f, IBV_QPT_RC)), -ENOMEM);
	assert_int_equal(fake.closed, 0);
	assert_int_equal(f->core.qps.count, 0);
	fake.open_rc = 0;
	fix_close(f); /* fix_close() checks that no object of the context is still used */
}

static uint32_t make_and_break(struct fix *f)
{
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct qp *qp;
	uint32_t qpn;
	int rc = qp_create(&f->ctx, &a, &fake_transport, &qp);

	if (rc) {
		assert_int_equal(rc, -ENOMEM);
		return 0;
	}
	qpn = qp->qpn;
	assert_int_equal(qp_destroy(qp), 0);
	return qpn & (QPN_INDICES - 1);
}

/* A QP number comes back only after all others, at whatever rate QPs are created and
 * destroyed. */
static void a_number_comes_back_after_all_others(void **state)
{
	static uint32_t last[QPN_INDICES];
	struct fix *f = fix_open(8);
	const uint32_t span = QPN_INDICES - 2;

	(void)state;
	for (uint32_t i = 1; i <= 5 * span; i++) {
		uint32_t index = make_and_break(f);

		assert_true(index >= 2);
		assert_true(i <= span ? !last[index] : last[index] == i - span);
		last[index] = i;
	}
	fix_close(f);
}

/* There are QPN_REST more numbers than there may be QPs, so a freed number is unused for
 * that long. */
static void a_number_rests_beside_as_many_qps_as_there_may_be(void **state)
{
	static struct qp *qp[QPN_INDICES];
	static uint32_t last[QPN_INDICES];
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a;
	struct qp *none;

	(void)state;
	for (uint32_t i = 0; i < caps.max_qp; i++)
		qp[i] = fix_qp(f, IBV_QPT_RC);
	a = fix_init(f, IBV_QPT_RC);
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &none), -ENOMEM);
	assert_int_equal(qp_destroy(qp[0]), 0);
	for (uint32_t i = 1; i <= 5 * QPN_REST; i++) {
		uint32_t index = make_and_break(f);

		assert_true(index >= 2);
		assert_true(!last[index] || i - last[index] > QPN_REST);
		last[index] = i;
	}
	for (uint32_t i = 1; i < caps.max_qp; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	fix_close(f);
}

static void numbers_cannot_be_guessed(void **state)
{
	struct fix *f = fix_open(8);
	uint32_t before = make_and_break(f);
	unsigned near = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint32_t index = make_and_break(f);

		near += index - before + 2 < 5;
		before = index;
	}
	assert_true(near < 20);
	fix_close(f);
}

static void what_is_destroyed_is_nowhere_any_more(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC), *other = fix_qp(f, IBV_QPT_RC);
	struct heap timers;

	(void)state;
	heap_init(&timers);
	f->core.timers = &timers;
	fix_bring(qp, IBV_QPS_RTS);
	fix_bring(other, IBV_QPS_RTS);
	assert_int_equal(fix_send(qp, 1, 0), 0);
	assert_int_equal(fix_send(other, 2, 0), 0);
	due_add(&f->core, qp);
	due_add(&f->core, other);
	assert_int_equal(heap_set(&timers, &qp->sched.timer, 100), 0);
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fix_step(other, IBV_QPS_ERR), 0);
	lock_take(&qp->lock);
	async_raise(&f->ctx, IBV_EVENT_QP_FATAL, &qp->ex.qp_base);
	lock_give(&qp->lock);

	assert_int_equal(qp_destroy(qp), 0);
	assert_null(heap_top(&timers));
	turn_is_held(&f->core);
	assert_ptr_equal(due_next(&f->core), other);
	/* The completion of 1 was removed with its QP. */
	fix_wc(f->scq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_true(cq_empty(f->scq));
	assert_int_equal(fix_event(f, NULL), -1);
	assert_int_equal(qp_destroy(other), 0);
	f->core.timers = NULL;
	heap_fini(&timers);
	fix_close(f);
}

/* A thousand idle QPs, as an MPI program creates them. */
static void a_qp_at_rest_costs_little(void **state)
{
	enum { MANY = 1000 };
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	static struct qp *qp[MANY];
	long before, after, page = sysconf(_SC_PAGESIZE);
	FILE *statm = fopen("/proc/self/statm", "r");

	(void)state;
	assert_non_null(statm);
	setvbuf(statm, NULL, _IONBF, 0);
	assert_int_equal(fscanf(statm, "%*d %ld", &before), 1);
	a.cap = (struct ibv_qp_cap){ .max_send_wr = 128,
				     .max_recv_wr = 512,
				     .max_send_sge = 1,
				     .max_recv_sge = 1 };
	for (int i = 0; i < MANY; i++) {
		struct ibv_qp_init_attr_ex each = a;

		assert_int_equal(qp_create(&f->ctx, &each, &fake_transport, &qp[i]), 0);
	}
	rewind(statm);
	assert_int_equal(fscanf(statm, "%*d %ld", &after), 1);
	fclose(statm);
	print_message("%ld bytes of RSS for each QP\n", (after - before) * page / MANY);
	if (!SANITIZED)
		assert_true((after - before) * page / MANY < 16 << 10);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_public_face_is_filled),
		cmocka_unit_test(sizes_are_kept_and_returned),
		cmocka_unit_test(every_cap_is_enforced),
		cmocka_unit_test(what_is_not_supported_is_said_so),
		cmocka_unit_test(objects_must_be_there),
		cmocka_unit_test(a_transport_that_refuses_leaves_nothing_behind),
		cmocka_unit_test(a_number_comes_back_after_all_others),
		cmocka_unit_test(a_number_rests_beside_as_many_qps_as_there_may_be),
		cmocka_unit_test(numbers_cannot_be_guessed),
		cmocka_unit_test(what_is_destroyed_is_nowhere_any_more),
		cmocka_unit_test(a_qp_at_rest_costs_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
