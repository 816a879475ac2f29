/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs of one packet on a lane take shortcuts: out (ib/lane_send.c) and in
 * (ib/lane_in.c).  Special cases take the general way, with the same result. */
#include "local/fix.h"

static void send_and_look(struct fix *f, uint64_t id, uint32_t len)
{
	fix_post(f, IBV_WR_SEND, id, 0, len, 0);
	assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
	fix_wc(f, 0, id, IBV_WC_SUCCESS);
}

static uint32_t remembers(const struct fix *f)
{
	return pair_is_shm(f, 1) ? shm_qp(f->p.qp[1])->dst.into.key
				 : pair_q(f, 1)->into.key;
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
		if (!pair_is_shm(f, 1))
			assert_int_equal(remembers(f) != 0, id > 1);
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

/* --- out, by the thread that posts ------------------------------------------ */

static const struct fix *clocked;

static uint64_t the_time(void)
{
	return clocked->s->now;
}

/* What an earlier call may leave on the stack: every byte is 1, which makes a bool true.
 */
enum { ONES = 0x01010101 };

__attribute__((noinline)) static void leave_on_the_stack(void)
{
	volatile uint8_t here[8192];

	for (size_t i = 0; i < sizeof(here); i++)
		here[i] = 1;
}

static bool posted(struct fix *f, uint64_t *next)
{
	struct core *core = &f->s->node[0].core;
	struct qp *qp = f->p.qp[0];
	bool all;

	clocked = f;
	core->round.clock = the_time;
	turn_take(&core->turn);
	lock_take(&qp->lock);
	leave_on_the_stack();
	all = qp->transport->posted(qp, next);
	lock_give(&qp->lock);
	local_flush(local_of(core));
	turn_give(&core->turn);
	core->round.clock = NULL;
	return all;
}

static void it_goes_without_a_time(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint64_t next = 0;

	(void)state;
	for (uint64_t id = 1; id <= 4; id++) {
		fix_recv(f, id, 0, 8);
		fix_post(f, IBV_WR_SEND, id, 0, 8, 0);
	}
	assert_true(posted(f, &next));
	assert_int_equal(pair_q(f, 0)->req.at.cur, f->p.qp[0]->sq.head);
	assert_true(next > f->s->now && next != NEVER);
	assert_int_equal(next, pair_q(f, 0)->req.probe_at);
	for (uint64_t id = 1; id <= 4; id++) {
		fix_wc(f, 1, id, IBV_WC_SUCCESS);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

/* A message from two SGEs: their regions are looked up each time. */
static void it_goes_from_two_sges(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge two[2] = { sim_sge(f->mr[0], 100, 3), sim_sge(f->mr[0], 200, 5) };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = two,
		.num_sge = 2,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct sq *sq = &f->p.qp[0]->sq;
	uint64_t next;

	(void)state;
	sq->head = sq->tail = sq->draft = ONES;
	pair_q(f, 0)->req.at.cur = pair_q(f, 0)->req.at.fresh = ONES;
	fix_recv(f, 1, 0, 8);
	sim_send(f->p.qp[0], &wr);
	assert_true(posted(f, &next));
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1], f->mem[0] + 100, 3);
	assert_memory_equal(f->mem[1] + 3, f->mem[0] + 200, 5);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The shortcut stops at the first other kind of request, where output() takes over. */
static void it_goes_as_far_as_it_can(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint64_t next;

	(void)state;
	fix_recv(f, 1, 0, 8);
	fix_recv(f, 2, 0, 8);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	fix_post(f, IBV_WR_SEND_WITH_IMM, 2, 0, 8, 0);
	assert_false(posted(f, &next));
	assert_int_equal(f->p.qp[0]->sq.head - pair_q(f, 0)->req.at.cur, 1);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The receiver is not ready: only run() knows until when. */
static void it_waits_where_there_is_a_time(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint64_t next;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	pair_run(f, 50000);
	assert_true(pair_q(f, 0)->req.s.rnr_until > 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 8, 0);
	assert_false(posted(f, &next));
	assert_int_equal(pair_q(f, 0)->req.at.cur, f->p.qp[0]->sq.tail);
	fix_recv(f, 1, 0, 8);
	fix_recv(f, 2, 0, 8);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
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
	const struct CMUnitTest packets[] = {
		cmocka_unit_test(it_goes_without_a_time),
		cmocka_unit_test(it_goes_from_two_sges),
		cmocka_unit_test(it_goes_as_far_as_it_can),
		cmocka_unit_test(it_waits_where_there_is_a_time),
	};

	return cmocka_run_group_tests(packets, NULL, NULL) +
	       cmocka_run_group_tests_name("packets", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("segments", tests, by_segments, NULL);
}
