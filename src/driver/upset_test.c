/* SPDX-License-Identifier: BSD-2-Clause */
/* Which call is refused; the rest tests/faults/test_verb_faults.py shows. */
#include "driver/upset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "driver/nic_own.h"
#include "sys/upset.h"

/* Each rule counts calls of its kind, from when it was set. */
static void the_nth_call_is_refused(void **state)
{
	static struct upset_spec spec;
	static struct nic nic;
	char wire[64], err[64];

	(void)state;
	list_init(&nic.core.contexts);
	assert_int_equal(upset_refuses(UPSET_REG_MR), 0);
	assert_int_equal(upset_parse(&spec, wire, "fail=reg_mr:2,fail=create_qp:2+:EBUSY",
				     err, sizeof(err)),
			 0);
	upset_set(&nic, &spec, 0);
	for (int round = 1; round <= 4; round++) {
		assert_int_equal(upset_refuses(UPSET_REG_MR), round == 2 ? -ENOMEM : 0);
		assert_int_equal(upset_refuses(UPSET_CREATE_QP), round >= 2 ? -EBUSY : 0);
		assert_int_equal(upset_refuses(UPSET_CREATE_CQ), 0);
	}
	spec.n = 0;
	upset_set(&nic, &spec, 0);
	assert_null(atomic_load(&upset));
	assert_int_equal(upset_refuses(UPSET_CREATE_QP), 0);
}

/* A NIC that is opened anew has none of the faults that the last one had. */
static void they_end_with_the_nic(void **state)
{
	static struct upset_spec spec;
	static struct nic nic;
	char wire[64], err[64];

	(void)state;
	list_init(&nic.core.contexts);
	assert_int_equal(upset_parse(&spec, wire, "fail=reg_mr:1+,port=down", err,
				     sizeof(err)),
			 0);
	upset_set(&nic, &spec, 0);
	assert_int_equal(upset_refuses(UPSET_REG_MR), -ENOMEM);
	upset_end();
	assert_int_equal(upset_refuses(UPSET_REG_MR), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_call_is_refused),
		cmocka_unit_test(they_end_with_the_nic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
