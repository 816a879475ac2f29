/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of raw packet QPs, and counters: which objects the calls take, and how they fail.
 * (What the rules do is in raw/packet_test.c.) */
#include "abi/fix.h"
#include "abi/packet_fix.h"

/* --- rules ----------------------------------------------------------------- */

static void rules_are_made_and_destroyed(void **state)
{
	struct ibv_qp *qp = raw_qp();
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_SNIFFER,
				      .size = sizeof(attr),
				      .port = 1 };
	struct ibv_flow *flow = abi_create_flow(qp, &attr);

	(void)state;
	assert_non_null(flow);
	assert_ptr_equal(flow->context, fix.ibv);
	fix_errno(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(abi_destroy_flow(flow), 0);
	fix_errno(abi_destroy_flow(flow), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void rules_that_are_refused(void **state)
{
	struct ibv_qp *raw = raw_qp(), *rc = fix_qp(IBV_QPT_RC), *ud = fix_qp(IBV_QPT_UD);
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_SNIFFER,
				      .size = sizeof(attr),
				      .port = 1 };

	(void)state;
	fix_null(abi_create_flow(raw, NULL), EINVAL);
	fix_null(abi_create_flow(NULL, &attr), EINVAL);
	fix_null(abi_create_flow(rc, &attr), EINVAL);
	fix_null(abi_create_flow(ud, &attr), EOPNOTSUPP);
	attr.port = 2;
	fix_null(abi_create_flow(raw, &attr), EINVAL);
	attr.port = 1;
	attr.flags = 1u << 31;
	fix_null(abi_create_flow(raw, &attr), EOPNOTSUPP);
	fix_errno(abi_destroy_flow(NULL), EINVAL);
	assert_int_equal(ibv_destroy_qp(raw), 0);
	fix_null(abi_create_flow(raw, &attr), EINVAL);
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(ud), 0);
}

/* --- counters -------------------------------------------------------------- */

static struct ibv_counters *make_counters(void)
{
	struct ibv_counters_init_attr attr = { 0 };
	struct ibv_counters *c = abi_create_counters(fix.ibv, &attr);

	assert_non_null(c);
	return c;
}

static void counters_are_read_by_a_rule(void **state)
{
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_counters *c = make_counters();
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_counter_action count;
	} __attribute__((packed, aligned(8))) how = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL,
			  .size = sizeof(how),
			  .num_of_specs = 1,
			  .port = 1 },
		.count = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
			   .size = sizeof(how.count),
			   .counters = c },
	};
	struct ibv_qp *qp = raw_qp();
	struct ibv_flow *flow;
	uint64_t value = 7;

	(void)state;
	assert_int_equal(abi_attach_counters_point_flow(c, &packets, NULL), 0);
	fix_errno(abi_read_counters(c, &value, 1, 0), EINVAL); /* no rule counts there */
	flow = abi_create_flow(qp, &how.attr);
	assert_non_null(flow);
	assert_int_equal(abi_read_counters(c, &value, 1, 0), 0);
	assert_int_equal(value, 0);
	fix_errno(abi_read_counters(c, &value, 0, 0), EINVAL);
	fix_errno(abi_attach_counters_point_flow(c, &packets, NULL), EBUSY);
	fix_errno(abi_destroy_counters(c), EBUSY);
	assert_int_equal(abi_destroy_flow(flow), 0);
	assert_int_equal(abi_destroy_counters(c), 0);
	fix_errno(abi_destroy_counters(c), ENOENT);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Nothing is attached to a rule that exists. */
static void counters_of_a_rule_that_exists(void **state)
{
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_SNIFFER,
				      .size = sizeof(attr),
				      .port = 1 };
	struct ibv_counters *c = make_counters();
	struct ibv_qp *qp = raw_qp();
	struct ibv_flow *flow = abi_create_flow(qp, &attr);

	(void)state;
	fix_errno(abi_attach_counters_point_flow(c, &packets, flow), EOPNOTSUPP);
	assert_int_equal(abi_destroy_flow(flow), 0);
	fix_errno(abi_attach_counters_point_flow(c, &packets, flow), EINVAL);
	assert_int_equal(abi_destroy_counters(c), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void counters_that_are_refused(void **state)
{
	struct ibv_counter_attach_attr packets = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_counters_init_attr attr = { .comp_mask = 1 };
	struct ibv_counters *c = make_counters();
	uint64_t value;

	(void)state;
	fix_null(abi_create_counters(fix.ibv, NULL), EINVAL);
	fix_null(abi_create_counters(NULL, &attr), EBADF);
	fix_null(abi_create_counters(fix.ibv, &attr), EOPNOTSUPP);
	fix_errno(abi_attach_counters_point_flow(c, NULL, NULL), EINVAL);
	fix_errno(abi_attach_counters_point_flow(NULL, &packets, NULL), EINVAL);
	fix_errno(abi_read_counters(c, NULL, 1, 0), EINVAL);
	fix_errno(abi_read_counters(NULL, &value, 1, 0), EINVAL);
	fix_errno(abi_destroy_counters(NULL), ENOENT);
	assert_int_equal(abi_destroy_counters(c), 0);
	fix_errno(abi_read_counters(c, &value, 1, 0), EINVAL);
	fix_errno(abi_attach_counters_point_flow(c, &packets, NULL), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rules_are_made_and_destroyed,
						open_packets, close_packets),
		cmocka_unit_test_setup_teardown(rules_that_are_refused, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(counters_are_read_by_a_rule, open_packets,
						close_packets),
		cmocka_unit_test_setup_teardown(counters_of_a_rule_that_exists,
						open_packets, close_packets),
		cmocka_unit_test_setup_teardown(counters_that_are_refused, open_packets,
						close_packets),
	};

	return may_have_packets() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
