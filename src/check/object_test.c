/* SPDX-License-Identifier: BSD-2-Clause */
/* object_test.c - the table of objects. */
#include "check/object.h"

#include "check/fix.h"
#include "verbs/mr.h"

static void test_gone_objects_are_known(void **state)
{
	struct check_qp *old = fix_qp();

	(void)state;
	assert_non_null(old);
	assert_int_equal(old->qpn, FIX_QPN);
	assert_ptr_equal(check_qp_of_number(FIX_QPN), old);
	assert_null(check_qp_of_number(1));
	object_gone(&fix.qp.live, LIVE_QP);
	assert_true(old->o.gone && old->o.ended);
	assert_ptr_equal(fix_qp(), old);
	object_made(&fix.qp.live, LIVE_QP);
	assert_ptr_not_equal(fix_qp(), old);
	assert_false(fix_qp()->o.gone);
}

static void make_mr(struct mr *mr, uint32_t key)
{
	mr->ibv.lkey = key;
	mr->ibv.rkey = key;
	mr->mkey = (struct mkey){ .base = 0x10000, .length = 4096, .access = 7 };
	object_made(&mr->live, LIVE_MR);
}

static void test_regions_by_key(void **state)
{
	static struct mr mr[2];
	struct check_mr *found;

	(void)state;
	make_mr(&mr[0], 16);
	make_mr(&mr[1], 32);
	found = check_mr_of_key(16);
	assert_ptr_equal(found->o.live, &mr[0].live);
	assert_int_equal(found->length, 4096);
	object_gone(&mr[0].live, LIVE_MR);
	assert_true(check_mr_of_key(16)->o.gone);
	assert_null(check_mr_of_key(99));
}

static bool count(struct check_object *o, void *arg)
{
	*(unsigned *)arg += !o->gone;
	return true;
}

/* Of those that are gone the oldest are forgotten. */
static void test_many(void **state)
{
	static struct mr mr[OBJECT_GONE + 10];
	unsigned n = 0;

	(void)state;
	for (uint32_t i = 0; i < OBJECT_GONE + 10; i++) {
		make_mr(&mr[i], 1000 + 2 * i);
		object_gone(&mr[i].live, LIVE_MR);
	}
	assert_null(check_mr_of_key(1000));
	assert_non_null(check_mr_of_key(1000 + 2 * OBJECT_GONE));
	check_each(LIVE_MR, count, &n);
	assert_int_equal(n, 1);
}

/* Queue pairs, too; those that live stay. */
static void test_many_queues(void **state)
{
	enum { QPN = 1000, ROUNDS = 3 * OBJECT_GONE };
	static struct qp stays, comes;
	unsigned n = 0;

	(void)state;
	stays.qpn = QPN - 1;
	object_made(&stays.live, LIVE_QP);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		comes.qpn = QPN + i;
		object_made(&comes.live, LIVE_QP);
		assert_false(object_qp(&comes.ex.qp_base)->o.gone);
		object_gone(&comes.live, LIVE_QP);
	}
	assert_null(check_qp_of_number(QPN));
	assert_null(check_qp_of_number(QPN + ROUNDS - OBJECT_GONE - 1));
	assert_true(check_qp_of_number(QPN + ROUNDS - OBJECT_GONE)->o.gone);
	assert_true(object_qp(&comes.ex.qp_base)->o.gone);
	assert_false(check_qp_of_number(QPN - 1)->o.gone);
	assert_ptr_equal(object_qp(&stays.ex.qp_base), check_qp_of_number(QPN - 1));
	check_each(LIVE_QP, count, &n);
	assert_int_equal(n, 2); /* and fix.qp */
}

static void test_changed_region(void **state)
{
	static struct mr mr;

	(void)state;
	make_mr(&mr, 64);
	mr.mkey.length = 8192;
	object_changed(&mr.live);
	assert_int_equal(check_mr_of_key(64)->length, 8192);
}

static void test_kept_memory(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * OBJECT_GONE; i++)
		object_keep(malloc(16));
	for (int i = 0; i < OBJECT_GONE; i++)
		object_keep(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gone_objects_are_known),
		cmocka_unit_test(test_regions_by_key),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_changed_region),
		cmocka_unit_test(test_kept_memory),
	};

	fix_open("off");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
