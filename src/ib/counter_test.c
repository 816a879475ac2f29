/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <unistd.h>

#include "ib/fix.h"
#include "sys/log_testing.h"
#include "verbs/gsi.h"

static void counters_have_names(void **state)
{
	struct core core;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(ib_open(&core, 1), 0);
	for (int c = 0; c < IB_COUNTERS; c++) {
		assert_non_null(ib_counter_name((enum ib_counter)c));
		assert_int_equal(ib_counter(&core, (enum ib_counter)c), 0);
		for (int d = 0; d < c; d++)
			assert_string_not_equal(ib_counter_name((enum ib_counter)c),
						ib_counter_name((enum ib_counter)d));
	}
	assert_null(ib_counter_name(IB_COUNTERS));
	ib_close(&core);
	core_fini(&core);
}

static void those_that_count_are_logged(void **state)
{
	struct core core;
	char line[2048], want[80];

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(ib_open(&core, 1), 0);
	LOGGED(line, "info", ib_log_counters(&core));
	assert_string_equal(line, "");
	ib_of(&core)->counter[IB_RX] = 12;
	ib_of(&core)->counter[IB_RX_RNR] = UINT64_MAX;
	LOGGED(line, "warn", ib_log_counters(&core));
	assert_string_equal(line, "");
	LOGGED(line, "info", ib_log_counters(&core));
	snprintf(want, sizeof(want),
		 "urnic[%d] info: counters: rx 12, rx_rnr "
		 "18446744073709551615\n",
		 (int)getpid());
	assert_string_equal(line, want);
	ib_close(&core);
	core_fini(&core);
}

static void the_longest_line_has_room(void **state)
{
	struct core core;
	char line[2048];

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(ib_open(&core, 1), 0);
	for (int c = 0; c < IB_COUNTERS; c++)
		ib_of(&core)->counter[c] = UINT64_MAX;
	LOGGED(line, "info", ib_log_counters(&core));
	assert_non_null(strstr(line, ", rx_rnr 18446744073709551615\n"));
	ib_close(&core);
	core_fini(&core);
}

/* A full link takes some datagrams later: each counts once. */
static void what_is_taken_back_does_not_count(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct core *from = &f->s->node[0].core, *to = &f->s->node[1].core;

	(void)state;
	f->s->take_every = 3;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(ib_counter(from, IB_TX), ib_counter(to, IB_RX));
	assert_int_equal(ib_counter(from, IB_TX_BYTES), ib_counter(to, IB_RX_BYTES));
	assert_int_equal(ib_counter(from, IB_TX_RETRANSMIT), 0);
	fix_close(f);
}

/* What connection management sends counts, although it is no QP's. */
static void mads_count(void **state)
{
	struct gsi g = { .packets = 3, .bytes = 3 * 276 };
	struct core core;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(ib_open(&core, 1), 0);
	list_add_tail(&core.gsis, &g.node);
	ib_of(&core)->counter[IB_TX] = 1;
	assert_int_equal(ib_counter(&core, IB_TX), 4);
	assert_int_equal(ib_counter(&core, IB_TX_BYTES), 3 * 276);
	assert_int_equal(ib_counter(&core, IB_RX), 0);
	list_del(&g.node);
	ib_close(&core);
	core_fini(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_have_names),
		cmocka_unit_test(those_that_count_are_logged),
		cmocka_unit_test(the_longest_line_has_room),
		cmocka_unit_test(what_is_taken_back_does_not_count),
		cmocka_unit_test(mads_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
