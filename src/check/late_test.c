/* SPDX-License-Identifier: BSD-2-Clause */
/* late_test.c - messages that find no receive. */
#include "check/fix.h"
#include "check/queue.h"

static void test_first_receive(void **state)
{
	(void)state;
	checks->starves(1);
	checks->starves(FIX_QPN);
	FIX_FINDS("receive-late", fix_recv(1));
	FIX_FINDS_NOTHING(fix_recv(2));
}

static void test_rnr(void **state)
{
	(void)state;
	fix_send(1, 0);
	FIX_FINDS("receive-late", fix_reap(1, IBV_WC_SEND, IBV_WC_RNR_RETRY_EXC_ERR));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_receive),
		cmocka_unit_test(test_rnr),
	};

	fix_open("receive-late");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
