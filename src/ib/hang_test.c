/* SPDX-License-Identifier: BSD-2-Clause */
/* What keeps a program waiting for a second has a line of the log, and only that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ib/fix.h"
#include "sys/log_testing.h"

static const struct sim_conf for_ever = { .timeout = 31 };
static char text[4096];

static unsigned lines(const char *words)
{
	unsigned n = 0;

	for (const char *p = text; (p = strstr(p, words)); p++)
		n++;
	return n;
}

static void both_ends_say_that_a_receive_is_missing(void **state)
{
	const struct sim_conf c = { .min_rnr_timer = 20 }; /* 10 ms */
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 900 * MS));
	assert_string_equal(text, "");
	LOGGED(text, "warn", sim_run(f->s, 2000 * MS));
	assert_int_equal(lines("\n"), 2);
	assert_int_equal(lines("there has been no receive here"), 1);
	assert_int_equal(lines("the peer has had no receive for PSN 0 (RNR), and 1 send"),
			 1);
	fix_recv(f, 8, 0, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The sender is at PSN 50, and the receiver waits for another. */
static void wrong_psn(uint32_t expected)
{
	const struct sim_conf c = { .timeout = 31, .psn = { 50, 0 } };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	char want[80];

	fix_ib(f, 1)->rsp.epsn = expected;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 900 * MS));
	assert_string_equal(text, "");
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	snprintf(want, sizeof(want), "%u is expected here, and 50 came from QP 0x%06x",
		 expected, f->p.qp[0]->qpn);
	assert_int_equal(lines(want), 1);
	assert_int_equal(lines("\n") - lines("nothing has come"), 1);
	fix_close(f);
}

static void psns_that_do_not_fit_are_said(void **state)
{
	(void)state;
	wrong_psn(40);
	wrong_psn(60);
}

static void a_qp_in_another_state_is_said(void **state)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct fix *f = fix_open(IBV_QPT_RC, &for_ever);
	char want[80];

	(void)state;
	assert_int_equal(qp_modify(f->p.qp[1], &a, IBV_QP_STATE, f->s->now), 0);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	snprintf(want, sizeof(want), "warn: QP 0x%06x: for 1 s packets from ",
		 f->p.qp[1]->qpn);
	assert_int_equal(lines(want), 1);
	assert_int_equal(lines("the QP takes packets from RTR on, and not in ERR"), 1);
	fix_close(f);
}

static void a_number_that_nobody_has_is_said(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &for_ever);
	uint32_t qpn = f->p.qp[0]->attr.dest_qp_num ^ 0x10;
	char want[80];

	(void)state;
	f->p.qp[0]->attr.dest_qp_num = qpn;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	snprintf(want, sizeof(want), "warn: QP 0x%06x: for 1 s packets from ", qpn);
	assert_int_equal(lines(want), 1);
	assert_int_equal(lines("this process has no such QP"), 1);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_say_that_a_receive_is_missing),
		cmocka_unit_test(psns_that_do_not_fit_are_said),
		cmocka_unit_test(a_qp_in_another_state_is_said),
		cmocka_unit_test(a_number_that_nobody_has_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
