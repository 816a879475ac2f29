/* SPDX-License-Identifier: BSD-2-Clause */
/* lists_test.c - lists that are posted again from their head. */
#include "check/fix.h"
#include "check/queue.h"

static struct ibv_send_wr wr[3];

/* Posts from that request on; the NIC takes the first two. */
static int post_list(unsigned from)
{
	struct ibv_send_wr *bad;

	for (unsigned i = 0; i < 3; i++) {
		wr[i].wr_id = 10 + i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	return ibv_post_send(&fix.qp.ex.qp_base, &wr[from], &bad);
}

static void refuse(void)
{
	fix.rc = ENOMEM;
	fix.good = 2;
	assert_int_equal(post_list(0), ENOMEM);
	fix.rc = 0;
}

static void empty(void)
{
	check_queue_clear(&fix_qp()->sq);
	check_queue_clear(&fix_qp()->rq);
}

static void test_from_the_head(void **state)
{
	(void)state;
	refuse();
	FIX_FINDS("bad-wr-ignored", post_list(0));
	empty();
}

static void test_from_bad_wr(void **state)
{
	(void)state;
	refuse();
	FIX_FINDS_NOTHING(post_list(2));
	FIX_FINDS_NOTHING(fix_send(1, 0));
	empty();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_from_the_head),
		cmocka_unit_test(test_from_bad_wr),
	};

	fix_open("bad-wr-ignored");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
