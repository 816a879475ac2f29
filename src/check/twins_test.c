/* SPDX-License-Identifier: BSD-2-Clause */
/* twins_test.c - the same work twice. */
#include "check/fix.h"
#include "check/queue.h"

static void empty(void)
{
	check_queue_clear(&fix_qp()->sq);
	check_queue_clear(&fix_qp()->rq);
}

static void test_same_memory(void **state)
{
	(void)state;
	FIX_FINDS_NOTHING(fix_recv(1));
	FIX_FINDS("posted-twice", fix_recv(2));
	empty();
	FIX_FINDS_NOTHING(fix_send(1, 0));
	FIX_FINDS_NOTHING(fix_send(2, 0));
	FIX_FINDS("posted-twice", fix_send(1, 0));
	empty();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_memory),
	};

	fix_open("posted-twice");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
