/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/upset.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sys/upset.h"

static struct upset_spec spec;
static char wire[256], err[256];

static int parse(const char *text)
{
	*err = '\0';
	return upset_parse(&spec, wire, text, err, sizeof(err));
}

static void items_are_taken(void **state)
{
	(void)state;
	assert_int_equal(parse("fail=reg_mr:3,wc=2+:IBV_WC_RETRY_EXC_ERR:0x12,"
			       "async=gid_change;port=down,fail=post_send:1:EAGAIN"),
			 0);
	assert_string_equal(wire, "");
	assert_int_equal(spec.n, 5);
	assert_int_equal(spec.rule[0].kind, UPSET_FAIL);
	assert_int_equal(spec.rule[0].call, UPSET_REG_MR);
	assert_int_equal(spec.rule[0].n, 3);
	assert_int_equal(spec.rule[0].code, ENOMEM);
	assert_false(spec.rule[0].onwards);
	assert_int_equal(spec.rule[1].kind, UPSET_WC);
	assert_int_equal(spec.rule[1].code, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(spec.rule[1].qpn, 0x12);
	assert_true(spec.rule[1].onwards);
	assert_int_equal(spec.rule[2].code, IBV_EVENT_GID_CHANGE);
	assert_int_equal(spec.rule[3].code, 0);
	assert_int_equal(spec.rule[4].code, EAGAIN);
}

static void those_of_the_wire_are_left(void **state)
{
	static const struct {
		const char *text, *wire;
	} row[] = {
		{ "drop=0.1", "drop=0.1" },
		{ "drop=0.1,fail=reg_mr:1,dup=1", "drop=0.1,dup=1" },
		{ "fail=reg_mr:1,drop=1;qp=5,dup=1", "drop=1;qp=5,dup=1" },
		{ "drop=1;fail=reg_mr:1;dup=1", "drop=1;dup=1" },
		{ "drop=1;fail=reg_mr:1,qp=5,dup=1", "drop=1;qp=5,dup=1" },
		{ "drop=1,fail=reg_mr:1;port=up,dup=1,qp=5", "drop=1;dup=1,qp=5" },
		{ "drop=1,", "drop=1," },
		{ "melt=1", "melt=1" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(parse(row[i].text), 0);
		assert_string_equal(wire, row[i].wire);
	}
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *names;
	} row[] = {
		{ "fail=reg_mrs:1", "did you mean reg_mr?" },
		{ "fail=reg_mr", "a count from 1" },
		{ "fail=reg_mr:0", "a count from 1" },
		{ "fail=reg_mr:1x", "a count from 1" },
		{ "fail=reg_mr:1:ENOMEMM", "did you mean ENOMEM?" },
		{ "fail=reg_mr:1:EIO:5", "too much" },
		{ "fail=", "CALL:N" },
		{ "wc=1", "N:STATUS" },
		{ "wc=1:success", "no status" },
		{ "wc=1:fatal_err:0", "no QP's number" },
		{ "async=melted", "no event" },
		{ "async=qp_fatal", "of which?" },
		{ "async=port_err:7", "no QP's event" },
		{ "port=", "down or up" },
		{ "fial=reg_mr:1", "did you mean fail?" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_int_equal(parse(row[i].text), -EINVAL);
		if (!strstr(err, row[i].names))
			fail_msg("%s: %s", row[i].text, err);
	}
}

static void too_many_are_refused(void **state)
{
	char text[UPSET_RULES * 16 + 32] = "fail=reg_mr:1";

	(void)state;
	for (int i = 1; i < UPSET_RULES; i++)
		strcat(text, ",fail=reg_mr:1");
	assert_int_equal(parse(text), 0);
	strcat(text, ",fail=reg_mr:1");
	assert_int_equal(parse(text), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_are_taken),
		cmocka_unit_test(those_of_the_wire_are_left),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(too_many_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
