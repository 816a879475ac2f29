/* SPDX-License-Identifier: BSD-2-Clause */
/* A few names; tests/abi/test_abi.py compares all with the distribution's library. */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void known_ones(void **state)
{
	(void)state;
	assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
	assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE),
			    "TM software rendezvous");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_CQ_ERR), "CQ error");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
}

/* Numbers in gaps of the tables and beyond both ends. */
static void unknown_ones(void **state)
{
	(void)state;
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)24), "unknown");
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
	assert_string_equal(ibv_event_type_str((enum ibv_event_type)20), "unknown");
	assert_string_equal(ibv_event_type_str((enum ibv_event_type) - 1), "unknown");
	assert_string_equal(ibv_port_state_str((enum ibv_port_state)6), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_node_type_str((enum ibv_node_type)0), "unknown");
	assert_string_equal(ibv_node_type_str((enum ibv_node_type)8), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_ones),
		cmocka_unit_test(unknown_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
