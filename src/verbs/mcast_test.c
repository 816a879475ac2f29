/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_fixture.h"

static const union ibv_gid v4 = { .raw = { [10] = 0xff, 0xff, 239, 1, 1, 1 } };
static const union ibv_gid v6 = { .raw = { 0xff, 0x0e, [15] = 1 } };

static void tally(struct qp *qp, void *arg)
{
	(void)qp;
	++*(int *)arg;
}

static int members(struct fix *f, const union ibv_gid *gid)
{
	int n = 0;

	turn_take(&f->core.turn);
	mcast_for_each(&f->core, gid->raw, tally, &n);
	turn_give(&f->core.turn);
	return n;
}

static void members_come_and_go(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *a = fix_qp(f, IBV_QPT_UD), *b = fix_qp(f, IBV_QPT_UD);

	(void)state;
	assert_int_equal(members(f, &v4), 0);
	assert_int_equal(mcast_attach(a, &v4), 0);
	assert_int_equal(mcast_attach(b, &v4), 0);
	assert_int_equal(mcast_attach(b, &v6), 0);
	assert_int_equal(mcast_attach(b, &v6), 1); /* a second attach adds nothing */
	assert_int_equal(members(f, &v4), 2);
	assert_int_equal(members(f, &v6), 1);
	assert_int_equal(qp_destroy(b), -EBUSY);
	assert_int_equal(mcast_detach(b, &v6), 0);
	assert_int_equal(mcast_detach(b, &v6), -EINVAL);
	assert_int_equal(members(f, &v6), 0);
	assert_int_equal(qp_destroy(b), -EBUSY);
	assert_int_equal(mcast_detach(b, &v4), 0);
	assert_int_equal(qp_destroy(b), 0);
	assert_int_equal(members(f, &v4), 1);
	assert_int_equal(mcast_detach(a, &v4), 0);
	assert_true(list_empty(&f->core.mcast));
	assert_int_equal(qp_destroy(a), 0);
	fix_close(f);
}

static void only_ud_and_only_groups(void **state)
{
	static const union ibv_gid unicast4 = {
		.raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 }
	};
	static const union ibv_gid unicast6 = { .raw = { 0xfe, 0x80, [15] = 1 } };
	/* 239.1.1.1, but without the prefix of a mapped IPv4 address */
	static const union ibv_gid half = { .raw = { [10] = 0xff, 0, 239, 1, 1, 1 } };
	struct fix *f = fix_open(8);
	struct qp *rc = fix_qp(f, IBV_QPT_RC), *ud = fix_qp(f, IBV_QPT_UD);

	(void)state;
	assert_int_equal(mcast_attach(rc, &v4), -EINVAL);
	assert_int_equal(mcast_attach(ud, &unicast4), -EINVAL);
	assert_int_equal(mcast_attach(ud, &unicast6), -EINVAL);
	assert_int_equal(mcast_attach(ud, &half), -EINVAL);
	assert_int_equal(mcast_attach(ud, NULL), -EINVAL);
	assert_int_equal(qp_destroy(rc), 0);
	assert_int_equal(qp_destroy(ud), 0);
	fix_close(f);
}

static void groups_and_members_are_counted(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *first = fix_qp(f, IBV_QPT_UD), **more, *last;
	union ibv_gid gid = v6;
	uint32_t n = caps.max_mcast_qp_attach;

	(void)state;
	more = test_calloc(n, sizeof(*more));
	for (uint32_t i = 0; i < n; i++) {
		more[i] = fix_qp(f, IBV_QPT_UD);
		assert_int_equal(mcast_attach(more[i], &v4), 0);
	}
	last = fix_qp(f, IBV_QPT_UD);
	assert_int_equal(mcast_attach(last, &v4), -ENOMEM);
	assert_int_equal(members(f, &v4), n);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(mcast_detach(more[i], &v4), 0);
		assert_int_equal(qp_destroy(more[i]), 0);
	}
	for (uint32_t i = 0; i < caps.max_mcast_grp; i++) {
		gid.raw[13] = (uint8_t)(i >> 16);
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		assert_int_equal(mcast_attach(first, &gid), 0);
	}
	assert_int_equal(mcast_attach(last, &v4), -ENOMEM);
	assert_int_equal(mcast_attach(last, &gid), 0); /* a group that exists */
	assert_int_equal(mcast_detach(last, &gid), 0);
	for (uint32_t i = 0; i < caps.max_mcast_grp; i++) {
		gid.raw[13] = (uint8_t)(i >> 16);
		gid.raw[14] = (uint8_t)(i >> 8);
		gid.raw[15] = (uint8_t)i;
		assert_int_equal(mcast_detach(first, &gid), 0);
	}
	test_free(more);
	assert_int_equal(qp_destroy(last), 0);
	assert_int_equal(qp_destroy(first), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_come_and_go),
		cmocka_unit_test(only_ud_and_only_groups),
		cmocka_unit_test(groups_and_members_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
