/* SPDX-License-Identifier: BSD-2-Clause */
/* peers_test.c - ends that do not fit. */
#include "check/fix.h"

static struct qp other;

static void to_rtr(struct qp *qp)
{
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	qp->state = attr.qp_state;
	checks->modified(&qp->live, &attr, IBV_QP_STATE);
}

static void test_ends(void **state)
{
	(void)state;
	other = fix.qp;
	other.qpn = FIX_QPN + 1;
	object_made(&other.live, LIVE_QP);
	fix.qp.attr = (struct ibv_qp_attr){ .dest_qp_num = other.qpn,
					    .path_mtu = IBV_MTU_1024 };
	other.attr =
		(struct ibv_qp_attr){ .dest_qp_num = FIX_QPN, .path_mtu = IBV_MTU_256 };
	FIX_FINDS_NOTHING(to_rtr(&other));
	FIX_FINDS("ends-differ", to_rtr(&fix.qp));
	assert_non_null(strstr(fix.log, "path_mtu is 1024 here, 256 there"));
	other.attr.path_mtu = IBV_MTU_1024;
	FIX_FINDS_NOTHING(to_rtr(&fix.qp));
}

static void to_rts(struct qp *qp)
{
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	qp->state = attr.qp_state;
	checks->modified(&qp->live, &attr, IBV_QP_STATE);
}

static void to_reset(struct qp *qp)
{
	const struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	qp->state = attr.qp_state;
	checks->modified(&qp->live, &attr, IBV_QP_STATE);
}

static void test_first_numbers(void **state)
{
	(void)state;
	to_reset(&fix.qp);
	to_reset(&other);
	fix.qp.attr.rq_psn = other.attr.sq_psn = 7;
	fix.qp.attr.sq_psn = 8;
	other.attr.rq_psn = 9;
	to_rtr(&fix.qp);
	FIX_FINDS_NOTHING(to_rtr(&other)); /* sq_psn is not known yet */
	FIX_FINDS_NOTHING(to_rts(&other));
	FIX_FINDS("ends-differ", to_rts(&fix.qp));
	assert_non_null(
		strstr(fix.log, "(sq_psn here, rq_psn there) is 8 here, 9 there"));
	other.attr.rq_psn = 8;
	FIX_FINDS_NOTHING(to_rts(&fix.qp));
}

/* One end goes on to the next connection first. */
static void test_again(void **state)
{
	(void)state;
	to_reset(&fix.qp);
	fix.qp.attr.rq_psn = 99;
	FIX_FINDS_NOTHING(to_rtr(&fix.qp));
	FIX_FINDS_NOTHING(to_rts(&fix.qp));
	fix.qp.attr.rq_psn = 7;
	to_reset(&fix.qp);
	to_reset(&other);
	to_rtr(&fix.qp);
	to_rtr(&other);
	to_rts(&other);
}

static void test_reads_under_way(void **state)
{
	(void)state;
	fix.qp.attr.max_rd_atomic = 4;
	other.attr.max_dest_rd_atomic = 2;
	FIX_FINDS("ends-differ", to_rts(&fix.qp));
	FIX_FINDS("ends-differ", to_rts(&other));
	other.attr.max_dest_rd_atomic = 0; /* gets none */
	FIX_FINDS_NOTHING(to_rts(&fix.qp));
	other.attr.max_dest_rd_atomic = 4;
	FIX_FINDS_NOTHING(to_rts(&fix.qp));
}

/* The other process has told of its end. */
static void test_of_another_process(void **state)
{
	struct check_end end = { .sq_psn = 7,
				 .rq_psn = 8,
				 .mtu = IBV_MTU_1024,
				 .sends = true,
				 .rtr_at = UINT64_MAX };

	(void)state;
	FIX_FINDS_NOTHING(checks->meets(FIX_QPN, 5, &end));
	end.mtu = IBV_MTU_2048;
	FIX_FINDS("ends-differ", checks->meets(FIX_QPN, 5, &end));
	assert_non_null(strstr(
		fix.log,
		"its peer QP 0x000005 do not fit: path_mtu is 1024 here, 2048 there"));
	end.reset_at = UINT64_MAX; /* of its next connection */
	FIX_FINDS_NOTHING(checks->meets(FIX_QPN, 5, &end));
	end.reset_at = end.rtr_at = 0; /* of its last one */
	FIX_FINDS_NOTHING(checks->meets(FIX_QPN, 5, &end));
	end.rtr_at = UINT64_MAX;
	end.mtu = 255;
	FIX_FINDS("ends-differ", checks->meets(FIX_QPN, 5, &end));
	to_reset(&fix.qp);
	FIX_FINDS_NOTHING(checks->meets(FIX_QPN, 5, &end));
	FIX_FINDS_NOTHING(checks->meets(FIX_QPN + 99, 5, &end));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_first_numbers),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_reads_under_way),
		cmocka_unit_test(test_of_another_process),
	};

	fix_open("ends-differ");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
