/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion of what is always answered waits for the answer. */
#include "core/due.h"
#include "iwarp/fix.h"

enum { LEN = 64, PROOF = 33, US = 1000 };

static struct fix *joined(void)
{
	return fix_open(&(struct sim_conf){ .stream.latency = 5 * US });
}

static void say(struct fix *f, int side)
{
	struct ibv_sge in = fix_sge(f->mr[!side], 4096, LEN);
	struct ibv_sge out = fix_sge(f->mr[side], 0, LEN);
	struct ibv_recv_wr rwr = { .wr_id = 2, .sg_list = &in, .num_sge = 1 }, *bad;
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &out, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	assert_int_equal(qp_post_recv(f->p.qp[!side], &rwr, &bad), 0);
	fix_send(f, side, &wr);
}

/* The next completion of that side, within 400 us, is of that kind. */
static void next_is(struct fix *f, int side, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	assert_true(sim_wait(f->s, f->p.cq[side], 400 * US, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, opcode);
}

static void ping_pong(struct fix *f, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		say(f, 0);
		next_is(f, 1, i ? IBV_WC_SEND : IBV_WC_RECV);
		if (i)
			next_is(f, 1, IBV_WC_RECV);
		say(f, 1);
		next_is(f, 0, IBV_WC_SEND);
		next_is(f, 0, IBV_WC_RECV);
	}
	next_is(f, 1, IBV_WC_SEND);
}

static struct fix *proved(void)
{
	struct fix *f = joined();

	ping_pong(f, PROOF);
	return f;
}

static void at_once_until_it_is_proved(void **state)
{
	struct fix *f = joined();

	(void)state;
	ping_pong(f, PROOF - 1);
	say(f, 0);
	sim_run(f->s, 1 * US);
	next_is(f, 0, IBV_WC_SEND);
	fix_close(f);
}

/* And comes first. */
static void waits_for_the_answer(void **state)
{
	struct fix *f = proved();

	(void)state;
	say(f, 0);
	next_is(f, 1, IBV_WC_RECV);
	sim_run(f->s, 100 * US);
	fix_no_wc(f, 0);
	say(f, 1);
	next_is(f, 0, IBV_WC_SEND);
	next_is(f, 0, IBV_WC_RECV);
	fix_close(f);
}

static void not_for_ever(void **state)
{
	struct fix *f = proved();
	uint64_t start = f->s->now;

	(void)state;
	say(f, 0);
	next_is(f, 0, IBV_WC_SEND);
	assert_in_range(f->s->now - start, 200 * US, 210 * US);
	/* The next one is not, since that was none. */
	next_is(f, 1, IBV_WC_RECV);
	say(f, 0);
	sim_run(f->s, 1 * US);
	next_is(f, 0, IBV_WC_SEND);
	fix_close(f);
}

static void not_if_there_is_more(void **state)
{
	struct fix *f = proved();

	(void)state;
	say(f, 0);
	sim_run(f->s, 1 * US);
	fix_no_wc(f, 0);
	say(f, 0);
	sim_run(f->s, 1 * US);
	next_is(f, 0, IBV_WC_SEND);
	next_is(f, 0, IBV_WC_SEND);
	fix_close(f);
}

/* What has gone has gone: it is not flushed. */
static void until_the_end(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct fix *f = proved();

		say(f, 0);
		sim_run(f->s, 1 * US);
		fix_no_wc(f, 0);
		if (how == 0)
			sim_modify(f->s, f->p.qp[0], IBV_QPS_SQD);
		else if (how == 1)
			sim_modify(f->s, f->p.qp[1], IBV_QPS_ERR);
		else
			f->s->node[0].core.hurry = true;
		due_add(&f->s->node[0].core, f->p.qp[0]);
		sim_run(f->s, 50 * US);
		next_is(f, 0, IBV_WC_SEND);
		f->s->node[0].core.hurry = false;
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_once_until_it_is_proved),
		cmocka_unit_test(waits_for_the_answer),
		cmocka_unit_test(not_for_ever),
		cmocka_unit_test(not_if_there_is_more),
		cmocka_unit_test(until_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
