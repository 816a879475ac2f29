/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults that are asked for while a NIC runs, around a loop. */
#include "driver/world_fix.h"

static int ask(const char *text)
{
	return faults_ask(&w.nic, &w.by, (const uint8_t *)text, strlen(text), 1000);
}

static bool passes(void)
{
	struct test_dgram t;
	struct dgram v;

	assert_int_equal(w.outer->ops->send(w.outer,
					    test_dgram(&t, "0123456789abcdef", 16), 1,
					    2000),
			 1);
	return w.far->ops->recv(w.far, &v, 1, 2000) == 1;
}

static void they_begin_and_end(void **state)
{
	(void)state;
	open_world(0);
	assert_true(passes());
	assert_int_equal(w.outer->run_max, 4);
	assert_int_equal(ask("set drop=1"), 0);
	assert_int_equal(w.outer->run_max, 1);
	assert_string_equal(w.nic.faults->text, "drop=1");
	assert_true(peers_may_avoid(peers_of(&w.nic.core)));
	assert_false(passes());
	assert_int_equal(ask("set dup=1"), 0);
	assert_true(passes());
	assert_int_equal(ask("show"), 0);
	assert_int_equal(ask("clear"), 0);
	assert_int_equal(w.outer->run_max, 4);
	assert_null(w.nic.faults->text);
	assert_int_equal(ask("clear"), 0);
	close_world();
}

/* What is wrong changes nothing, and is answered with a text. */
static void what_is_wrong_changes_nothing(void **state)
{
	static const char *const wrong[] = { "set drop=2", "set events=/etc/passwd",
					     "set melt=1", "set drop=1;",
					     "set drop=1,async=qp_fatal:7" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		open_world(-EINVAL);
		assert_int_equal(ask(wrong[i]), 0);
		assert_null(w.nic.faults->text);
		assert_null(w.nic.faults->at[0].fault);
		assert_true(passes());
		close_world();
	}
}

static void other_questions_are_not_known(void **state)
{
	(void)state;
	open_world(0);
	assert_int_equal(ask(""), -EOPNOTSUPP);
	assert_int_equal(ask("shows"), -EOPNOTSUPP);
	assert_int_equal(ask("setdrop=1"), -EOPNOTSUPP);
	assert_int_equal(ask("show"), 0);
	close_world();
}

/* A link that keeps order refuses for all. */
static void an_ordered_link_refuses(void **state)
{
	(void)state;
	open_world(-EINVAL);
	w.nic.faults->at[0].ordered = true;
	assert_int_equal(ask("set reorder=1"), 0);
	assert_null(w.nic.faults->text);
	close_world();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_begin_and_end),
		cmocka_unit_test(what_is_wrong_changes_nothing),
		cmocka_unit_test(other_questions_are_not_known),
		cmocka_unit_test(an_ordered_link_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
