/* SPDX-License-Identifier: BSD-2-Clause */
/* limits_test.c - posts beyond what was asked for. */
#include "check/fix.h"

static int post(unsigned sges, uint32_t length, unsigned flags)
{
	struct ibv_sge sge[3] = { { 0, length, 1 } };
	struct ibv_send_wr wr = { .sg_list = sge,
				  .num_sge = (int)sges,
				  .send_flags = flags },
			   *bad;

	fix.rc = EINVAL;
	return ibv_post_send(&fix.qp.ex.qp_base, &wr, &bad);
}

static void test_sges(void **state)
{
	(void)state;
	FIX_FINDS_NOTHING(post(2, 64, 0)); /* refused for another reason */
	FIX_FINDS("post-limit", post(3, 64, 0));
}

static void test_inline(void **state)
{
	(void)state;
	FIX_FINDS("post-limit", post(1, 1, IBV_SEND_INLINE));
}

static void test_receives(void **state)
{
	(void)state;
	fix.rc = ENOMEM;
	FIX_FINDS("post-limit", fix_recv(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sges),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_receives),
	};

	fix_open("post-limit");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
