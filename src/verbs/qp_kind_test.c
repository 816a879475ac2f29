/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Objects that are only compared. */
static int pd, xrcd, cq[2], srq;

static struct ibv_qp_init_attr_ex full(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = (void *)&cq[0],
		.recv_cq = (void *)&cq[1],
		.srq = (void *)&srq,
		.cap = { 1, 2, 3, 4, 5 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD,
		.pd = (void *)&pd,
		.xrcd = (void *)&xrcd,
	};
}

static void a_type_keeps_what_it_uses(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		bool pd, sends, receives, xrcd;
	} want[] = {
		{ IBV_QPT_RC, true, true, true, false },
		{ IBV_QPT_UC, true, true, true, false },
		{ IBV_QPT_UD, true, true, true, false },
		{ IBV_QPT_RAW_PACKET, true, true, true, false },
		{ IBV_QPT_XRC_SEND, true, true, false, false },
		{ IBV_QPT_XRC_RECV, false, false, false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct ibv_qp_init_attr_ex a = full(want[i].type), p = qp_proper_attr(&a);

		assert_int_equal(!!p.pd, want[i].pd);
		assert_int_equal(!!p.xrcd, want[i].xrcd);
		assert_int_equal(!!p.send_cq, want[i].sends);
		assert_int_equal(p.cap.max_send_wr, want[i].sends ? 1 : 0);
		assert_int_equal(!!p.recv_cq, want[i].receives);
		assert_int_equal(!!p.srq, want[i].receives);
		assert_int_equal(p.cap.max_recv_wr, want[i].receives ? 2 : 0);
		assert_null(qp_attr_lacks(&p));
	}
}

/* A field that comp_mask does not name is not read. */
static void what_is_not_named_is_missing(void **state)
{
	struct ibv_qp_init_attr_ex a = full(IBV_QPT_RC), p;

	(void)state;
	a.comp_mask = 0;
	p = qp_proper_attr(&a);
	assert_null(p.pd);
	assert_string_equal(qp_attr_lacks(&p), "a PD or CQ");
	a = full(IBV_QPT_XRC_RECV);
	a.comp_mask = 0;
	p = qp_proper_attr(&a);
	assert_string_equal(qp_attr_lacks(&p), "an XRC domain");
	a = full(IBV_QPT_UD);
	a.recv_cq = NULL;
	assert_string_equal(qp_attr_lacks(&a), "a PD or CQ");
}

static void a_number_that_is_no_type(void **state)
{
	(void)state;
	assert_string_equal(qp_kind_of((enum ibv_qp_type)0)->name, "?");
	assert_string_equal(qp_kind_of((enum ibv_qp_type)1000)->name, "?");
	assert_string_equal(qp_kind_of(IBV_QPT_XRC_SEND)->name, "XRC_SEND");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_type_keeps_what_it_uses),
		cmocka_unit_test(what_is_not_named_is_missing),
		cmocka_unit_test(a_number_that_is_no_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
