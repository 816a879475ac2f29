/* SPDX-License-Identifier: BSD-2-Clause */
/* carry.c - what the process of the SRQ does with what was passed on to it. */
#include "ib/relay_fix.h"

static void allow(struct lab *x, unsigned rights)
{
	struct ibv_qp_attr a = { .qp_access_flags = rights };

	assert_int_equal(qp_modify(x->to, &a, IBV_QP_ACCESS_FLAGS, x->s->now), 0);
}

/* ... and not those that it had with its first request. */
static void rights_of_the_target_qp_count_as_they_are_now(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	receive(x, 9, 100000, 4000);
	allow(x, 0);
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	allow(x, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	post(x, IBV_WR_RDMA_WRITE, 2, 0, 100, 120000);
	expect(x, x->scq, 2, IBV_WC_SUCCESS);
	allow(x, IBV_ACCESS_REMOTE_READ);
	post(x, IBV_WR_RDMA_READ, 3, 0, 100, 120000);
	expect(x, x->scq, 3, IBV_WC_SUCCESS);
	post(x, IBV_WR_RDMA_WRITE, 4, 0, 100, 120000);
	expect(x, x->scq, 4, IBV_WC_REM_INV_REQ_ERR);
	lab_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_of_the_target_qp_count_as_they_are_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
