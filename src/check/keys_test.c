/* SPDX-License-Identifier: BSD-2-Clause */
/* keys_test.c - accesses that a key does not allow. */
#include "check/fix.h"
#include "verbs/mr.h"
#include "verbs/verr.h"

static struct mr mr = {
	.ibv = { .lkey = 0x100, .rkey = 0x100 },
	.mkey = { .base = 0x10000, .length = 4096, .access = IBV_ACCESS_LOCAL_WRITE }
};

static void deny(uint32_t key, int why)
{
	checks->denied(FIX_QPN, true, key, 0x10000, 64, IBV_ACCESS_REMOTE_WRITE, why);
}

static void test_peer(void **state)
{
	(void)state;
	object_made(&mr.live, LIVE_MR);
	FIX_FINDS("access-flag", deny(0x100, MR_ACCESS));
	assert_non_null(strstr(fix.log, "without IBV_ACCESS_REMOTE_WRITE"));
	FIX_FINDS("region-range", deny(0x100, MR_RANGE));
	FIX_FINDS("wrong-pd", deny(0x100, MR_PD));
	FIX_FINDS("access-flag", deny(0, CHECK_DENIED_BY_QP));
	assert_non_null(strstr(fix.log, "qp_access_flags"));
	object_gone(&mr.live, LIVE_MR);
	FIX_FINDS("stale-key", deny(0x100, MR_NO_KEY));
	assert_non_null(strstr(fix.log, "its region was deregistered"));
	FIX_FINDS("stale-key", deny(0x200, MR_NO_KEY));
	assert_non_null(strstr(fix.log, "no region of this process had it"));
}

/* The key is a window's, which is in no table of this room. */
static void test_window(void **state)
{
	(void)state;
	FIX_FINDS("access-flag", deny(0x300, MR_ACCESS));
	assert_non_null(
		strstr(fix.log, "needs IBV_ACCESS_REMOTE_WRITE, which the window"));
	FIX_FINDS("region-range", deny(0x300, MR_RANGE));
	FIX_FINDS("wrong-pd", deny(0x300, MR_QP));
	FIX_FINDS("stale-key", deny(0x300, MR_INVALID));
	assert_non_null(strstr(fix.log, "its window is not bound"));
}

static void reap_refused(uint64_t wr_id)
{
	struct ibv_wc wc;

	fix.wc[0] = (struct ibv_wc){ .wr_id = wr_id,
				     .status = IBV_WC_LOC_PROT_ERR,
				     .vendor_err = VERR_LOCAL_KEY,
				     .qp_num = FIX_QPN };
	fix.n = 1;
	ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc);
}

/* It is reported where the request was posted, when it completes. */
static void test_own_request(void **state)
{
	(void)state;
	fix_send(1, 0);
	FIX_FINDS_NOTHING(checks->denied(FIX_QPN, false, 1, 0x1000, 64, 0, MR_NO_KEY));
	FIX_FINDS("stale-key", reap_refused(1));
	assert_non_null(strstr(fix.log, "test_own_request ("));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peer),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_own_request),
	};

	fix_open("stale-key,access-flag,wrong-pd,region-range");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
