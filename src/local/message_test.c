/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs of one segment are taken in by a shortcut.  Special cases take the general way,
 * with the same result. */
#include "local/fix.h"

static void send_and_look(struct fix *f, uint64_t id, uint32_t len)
{
	fix_post(f, IBV_WR_SEND, id, 0, len, 0);
	assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
	fix_wc(f, 0, id, IBV_WC_SUCCESS);
}

static uint32_t remembers(const struct fix *f)
{
	return pair_shm(f, 1)->dst.into.key;
}

static void into_one_sge(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) {
		fix_recv(f, id, 4096 * id, 64);
		send_and_look(f, id, 8);
		assert_memory_equal(f->mem[1] + 4096 * id, f->mem[0], 8);
	}
	assert_int_equal(remembers(f), f->mr[1]->mkey.key);
	fix_close(f);
}

static void into_two_or_none(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge two[2] = { sim_sge(f->mr[1], 100, 3), sim_sge(f->mr[1], 200, 5) };

	(void)state;
	sim_recv(f->p.qp[1], 1, two, 2);
	send_and_look(f, 1, 8);
	assert_memory_equal(f->mem[1] + 100, f->mem[0], 3);
	assert_memory_equal(f->mem[1] + 200, f->mem[0] + 3, 5);
	sim_recv(f->p.qp[1], 2, NULL, 0);
	send_and_look(f, 2, 0);
	fix_recv(f, 3, 0, 8);
	send_and_look(f, 3, 0);
	assert_int_equal(remembers(f), 0);
	fix_close(f);
}

/* The first message in RTR raises an event, so it takes the general way. */
static void the_first_in_rtr(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.qp[1]->state = IBV_QPS_RTR;
	for (uint64_t id = 1; id <= 3; id++) {
		fix_recv(f, id, 0, 8);
		send_and_look(f, id, 8);
	}
	pair_event(f, 1, IBV_EVENT_COMM_EST);
	f->p.qp[1]->state = IBV_QPS_RTS;
	fix_close(f);
}

static void must_fail(struct fix *f, enum ibv_wc_status here, enum ibv_wc_status there)
{
	fix_wc(f, 1, 9, there);
	fix_wc(f, 0, 9, here);
	fix_quiet(f);
}

static void a_region_that_has_gone(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 1, 0, 8);
	send_and_look(f, 1, 8);
	fix_recv(f, 9, 0, 8);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	must_fail(f, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

static void a_region_that_may_not_be_written(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 1, 0, 8);
	send_and_look(f, 1, 8);
	fix_recv(f, 9, 0, 8);
	assert_int_equal(mr_rereg(f->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 0);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	must_fail(f, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

static void a_receive_that_is_short(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 9, 0, 7);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	must_fail(f, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(into_one_sge),
		cmocka_unit_test(into_two_or_none),
		cmocka_unit_test(the_first_in_rtr),
		cmocka_unit_test(a_region_that_has_gone),
		cmocka_unit_test(a_region_that_may_not_be_written),
		cmocka_unit_test(a_receive_that_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
