/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.c - a life of a target QP ends while its connection is full. */
#include "ib/relay_fix.h"

/* A message whose first packet has taken a receive in the other process. */
static struct lab *half_a_message(void)
{
	struct lab *x = lab_open(NULL);

	receive(x, 9, 100000, 6000);
	post(x, IBV_WR_SEND, 1, 0, 5000, 0);
	while (x->last == 0)
		sim_run(x->s, 20000);
	assert_true(deliver(x)); /* FIRST; the rest is never delivered */
	while (x->first != x->last)
		free(x->queue[x->first++ % QUEUE].bytes);
	assert_false(list_empty(&x->s->node[0].core.xrc.stand_ins));
	return x;
}

/* The connection is full, and then takes the XRC_END. */
static void expect_the_end(struct lab *x)
{
	struct ibv_wc wc;

	run_timers(x);
	x->s->now += 2 * MS;
	run_timers(x);
	while (deliver(x))
		;
	assert_true(list_empty(&x->s->node[0].core.xrc.stand_ins));
	assert_int_equal(cq_poll(x->rcq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void the_end_of_a_qp_is_said_until_it_is_taken(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	sim_destroy(x->s, x->from);
	x->full = 1;
	sim_destroy(x->s, x->to);
	assert_int_equal(x->full, 0);
	expect_the_end(x);
	lab_close_but_qps(x);
}

static void modify(struct lab *x, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	assert_int_equal(qp_modify(x->to, &a, IBV_QP_STATE, x->s->now), 0);
}

/* The stand-in sees one life after another, and knows which one ended. */
static void a_reset_is_said_until_it_is_taken(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	x->full = 1;
	modify(x, IBV_QPS_RESET);
	assert_int_equal(x->full, 0);
	expect_the_end(x);
	lab_close(x);
}

/* After its last process has ended an ending has nobody to tell, and is freed. */
static void a_process_that_has_ended_need_not_hear_it(void **state)
{
	struct lab *x = half_a_message();

	(void)state;
	x->full = 1;
	sim_destroy(x->s, x->from);
	sim_destroy(x->s, x->to);
	assert_false(list_empty(&ib_of(&x->s->node[1].core)->xrc.endings));
	gone(x, 1, 1);
	assert_true(list_empty(&ib_of(&x->s->node[1].core)->xrc.endings));
	gone(x, 0, 2);
	lab_close_but_qps(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_of_a_qp_is_said_until_it_is_taken),
		cmocka_unit_test(a_reset_is_said_until_it_is_taken),
		cmocka_unit_test(a_process_that_has_ended_need_not_hear_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
