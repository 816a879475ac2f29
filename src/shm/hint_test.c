/* SPDX-License-Identifier: BSD-2-Clause */
/* What keeps a program waiting for a second is a line of its log. */
#include "shm/fix.h"
#include "sys/log_testing.h"

#define DROPPED	 "for 1 s packets from QP"
#define SILENT	 "for 1 s nothing has come from QP"
#define ASTRAY	 "for 1 s PSNs have been refused"
#define NO_RECV	 "for 1 s there has been no receive here"
#define RNR	 "for 1 s the peer has had no receive"
#define FOR_EVER 31 /* timeout: hours */

static char text[4096];

static void run_for_long(struct fix *f)
{
	LOGGED(text, "warn", post_at(f, 0, 1, 0, 8, 0);
	       for (unsigned i = 0; i < 30; i++) pair_run(f, 100 * MS););
}

static void says(const char *first, const char *second)
{
	static const char *const all[] = { DROPPED, SILENT, ASTRAY, NO_RECV, RNR };

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *at = strstr(text, all[i]);
		const bool should =
			!strcmp(all[i], first) || (second && !strcmp(all[i], second));

		if (!at != !should)
			print_error("%s: %s\n", all[i], text);
		assert_int_equal(!at, !should);
		if (at) /* once */
			assert_null(strstr(at + 1, all[i]));
	}
}

static void a_target_that_is_not_ready(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = FOR_EVER });

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	run_for_long(f);
	says(DROPPED, SILENT);
	assert_non_null(strstr(text, "from RTR on"));
	assert_true(ib_counter(&f->s->node[1].core, IB_RX_STATE) > 3);
	fix_close(f);
}

static void a_qp_that_there_is_not(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = FOR_EVER });

	(void)state;
	shm_qp(f->p.qp[0])->head.dst += 5;
	run_for_long(f);
	says(DROPPED, SILENT);
	assert_non_null(strstr(text, "no such QP"));
	fix_close(f);
}

static void a_qp_of_another(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = FOR_EVER });

	(void)state;
	shm_qp(f->p.qp[1])->dest++;
	run_for_long(f);
	says(DROPPED, SILENT);
	assert_non_null(strstr(text, "connected to another QP"));
	assert_true(ib_counter(&f->s->node[1].core, IB_RX_NO_ADDR) > 3);
	fix_close(f);
}

static void no_receive(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = FOR_EVER });

	(void)state;
	run_for_long(f);
	says(NO_RECV, RNR);
	fix_close(f);
}

/* Behind or before what is expected. */
static void another_number(void **state)
{
	(void)state;
	for (int ahead = 0; ahead < 2; ahead++) {
		struct fix *f = open_pair(
			(struct sim_conf){ .timeout = FOR_EVER, .psn = { 1000, 0 } });

		f->conf.psn[0] = ahead ? 900 : 1100;
		pair_again(f, 1);
		run_for_long(f);
		says(ASTRAY, NULL);
		fix_close(f);
	}
}

/* What goes as it should says nothing. */
static void nothing(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .timeout = FOR_EVER });

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	run_for_long(f);
	says("", NULL);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_that_is_not_ready),
		cmocka_unit_test(a_qp_that_there_is_not),
		cmocka_unit_test(a_qp_of_another),
		cmocka_unit_test(no_receive),
		cmocka_unit_test(another_number),
		cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
