/* SPDX-License-Identifier: BSD-2-Clause */
/* A requester that hears nothing for a second says so, and to whom it has sent what. */
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

static bool lose_all(void *arg, const struct sim_packet *p)
{
	(void)arg;
	(void)p;
	return false;
}

static void silence_is_said(void **state)
{
	static const struct sim_conf c = { .timeout = 21 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	char want[160];

	(void)state;
	f->s->tap = lose_all;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 900 * MS));
	assert_string_equal(text, "");
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	snprintf(want, sizeof(want),
		 "warn: QP 0x%06x: for 1 s nothing has come from QP 0x%06x at ",
		 f->p.qp[0]->qpn, f->p.qp[1]->qpn);
	assert_int_equal(lines(want), 1);
	assert_int_equal(lines("to which a request (SEND, PSN 0) was sent again"), 1);
	assert_int_equal(lines("timeout 0"), 0);
	assert_int_equal(lines("\n"), 1);
	f->s->tap = NULL;
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void a_qp_without_a_timeout_says_so(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &for_ever);

	(void)state;
	f->p.qp[0]->attr.timeout = 0;
	f->s->tap = lose_all;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 60000 * MS));
	assert_int_equal(lines("a request (RDMA_WRITE, PSN 0) was sent again"), 1);
	assert_int_equal(lines("(timeout 0: this QP never gives up)\n"), 1);
	assert_int_equal(lines("\n"), 1);
	fix_close(f);
}

/* It may be busy: with the READs of other QPs, say. */
static void a_peer_that_has_answered_is_not_said(void **state)
{
	const struct sim_conf c = { .timeout = 21 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	f->s->tap = lose_all;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	assert_string_equal(text, "");
	f->s->tap = NULL;
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static void retries_that_end_sooner_say_the_failure_alone(void **state)
{
	const struct sim_conf c = { .timeout = 14, .retry_cnt = 2 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	f->s->tap = lose_all;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 4000 * MS));
	assert_int_equal(lines("nothing has come"), 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* The peer answers each time that it has no receive: it is not silent. */
static void a_peer_that_answers_is_not_silent(void **state)
{
	const struct sim_conf c = { .min_rnr_timer = 31, .timeout = 18 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	LOGGED(text, "warn", sim_run(f->s, 8000 * MS));
	assert_int_equal(lines("nothing has come"), 0);
	assert_int_equal(lines("(RNR)"), 1);
	fix_recv(f, 8, 0, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_said),
		cmocka_unit_test(a_qp_without_a_timeout_says_so),
		cmocka_unit_test(a_peer_that_has_answered_is_not_said),
		cmocka_unit_test(retries_that_end_sooner_say_the_failure_alone),
		cmocka_unit_test(a_peer_that_answers_is_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
