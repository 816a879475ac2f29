/* SPDX-License-Identifier: BSD-2-Clause */
/* A completion that failed has a line of the log. */
#include <stdio.h>

#include "sys/log_testing.h"
#include "verbs/failure.h"
#include "verbs/qp_fixture.h"

static char text[4096], want[1024];

static void fails(struct qp *qp, enum ibv_wc_status status, enum verr verr)
{
	lock_take(&qp->lock);
	sq_complete(qp, status, verr, 5);
	lock_give(&qp->lock);
}

static struct qp *ready(struct fix *f)
{
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	fix_bring(qp, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 5; i++)
		assert_int_equal(fix_send(qp, i, IBV_SEND_SIGNALED), 0);
	return qp;
}

static void the_first_one_is_said_at_the_default_level(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = ready(f);

	(void)state;
	LOGGED(text, "error", fails(qp, IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT));
	assert_string_equal(text, "");
	/* what a program has flushed is no news */
	LOGGED(text, "warn", fails(qp, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED));
	assert_string_equal(text, "");
	LOGGED(text, "warn", fails(qp, IBV_WC_RETRY_EXC_ERR, VERR_PEER_ENDED));
	assert_string_equal(text, ""); /* of two programs one ends first */
	LOGGED(text, "warn", fails(qp, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS));
	snprintf(
		want, sizeof(want),
		"urnic[%d] warn: QP 0x%06x: IBV_WC_REM_ACCESS_ERR: SEND of 0 bytes, work "
		"request 0x4: %s (later failures are not shown: for a line about each, "
		"use `urnic run --log info' or URNIC_LOG=info)\n",
		(int)getpid(), qp->qpn, verr_text(VERR_REMOTE_ACCESS)->what);
	assert_string_equal(text, want);
	LOGGED(text, "warn", fails(qp, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS));
	assert_string_equal(text, "");
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void each_is_said_at_level_info(void **state)
{
	struct fix *f = fix_open(16);
	struct qp *qp = ready(f);

	(void)state;
	for (unsigned i = 1; i <= 2; i++) {
		LOGGED(text, "info", fails(qp, IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT));
		snprintf(
			want, sizeof(want),
			"urnic[%d] info: QP 0x%06x: IBV_WC_RETRY_EXC_ERR: SEND of 0 bytes, work "
			"request 0x%x: %s\n",
			(int)getpid(), qp->qpn, i, verr_text(VERR_TIMEOUT)->what);
		assert_string_equal(text, want);
	}
	LOGGED(text, "info", fails(qp, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED));
	assert_string_equal(text, "");
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_receive_names_no_operation(void **state)
{
	const struct cqe cqe = { .wr_id = 9,
				 .status = IBV_WC_LOC_LEN_ERR,
				 .vendor_err = VERR_LOCAL_LENGTH };
	struct fix *f = fix_open(16);
	struct qp *qp = ready(f);

	(void)state;
	qp_is_held(qp);
	LOGGED(text, "info", failure_of_recv(qp, &cqe));
	snprintf(
		want, sizeof(want),
		"urnic[%d] info: QP 0x%06x: IBV_WC_LOC_LEN_ERR: receive, work request 0x9: %s\n",
		(int)getpid(), qp->qpn, verr_text(VERR_LOCAL_LENGTH)->what);
	assert_string_equal(text, want);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_one_is_said_at_the_default_level),
		cmocka_unit_test(each_is_said_at_level_info),
		cmocka_unit_test(a_receive_names_no_operation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
