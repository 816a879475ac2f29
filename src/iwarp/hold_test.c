/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion of a request that is always answered waits for the answer. */
#include "iwarp/fix.h"
#include "verbs/due.h"

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
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.sg_list = &out,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	assert_int_equal(qp_post_recv(f->p.qp[!side], &rwr, &bad), 0);
	fix_send(f, side, &wr);
}

/* The next completion of that side, within 400 us, has this opcode. */
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

/* A has sent a message whose completion waits. */
static struct fix *holding(void)
{
	struct fix *f = proved();

	say(f, 0);
	sim_run(f->s, 1 * US);
	fix_no_wc(f, 0);
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

/* The held completion comes before the answer's. */
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
	/* The next completion does not wait, since no answer came. */
	next_is(f, 1, IBV_WC_RECV);
	say(f, 0);
	sim_run(f->s, 1 * US);
	next_is(f, 0, IBV_WC_SEND);
	fix_close(f);
}

static void not_if_there_is_more(void **state)
{
	struct fix *f = holding();

	(void)state;
	say(f, 0);
	sim_run(f->s, 1 * US);
	next_is(f, 0, IBV_WC_SEND);
	next_is(f, 0, IBV_WC_SEND);
	fix_close(f);
}

/* A message that was sent is not flushed. */
static void until_the_end(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct fix *f = holding();

		if (how == 0)
			sim_modify(f->s, f->p.qp[0], IBV_QPS_SQD);
		else if (how == 1)
			sim_modify(f->s, f->p.qp[1], IBV_QPS_ERR);
		else
			f->s->node[0].core.round.hurry = true;
		due_add(&f->s->node[0].core, f->p.qp[0]);
		sim_run(f->s, 50 * US);
		next_is(f, 0, IBV_WC_SEND);
		f->s->node[0].core.round.hurry = false;
		fix_close(f);
	}
}

/* A later work request fails: the held one was sent and succeeds, those behind it are
 * flushed. */
static void before_one_that_fails(void **state)
{
	static const enum ibv_wc_status status[] = {
		IBV_WC_SUCCESS,
		IBV_WC_LOC_PROT_ERR,
		IBV_WC_WR_FLUSH_ERR,
		IBV_WC_WR_FLUSH_ERR,
	};
	struct ibv_sge sge = { 1, LEN, 0xdead };
	struct ibv_send_wr bad = {
		.wr_id = 9,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	};

	(void)state;
	for (unsigned behind = 0; behind <= 2; behind += 2) {
		struct fix *f = holding();
		struct ibv_wc wc;

		fix_send(f, 0, &bad);
		for (unsigned i = 0; i < behind; i++)
			say(f, 0);
		sim_run(f->s, 50 * US);
		for (unsigned i = 0; i < 2 + behind; i++) {
			assert_int_equal(cq_poll(f->p.cq[0], 1, &wc), 1);
			assert_int_equal(wc.status, status[i]);
		}
		fix_close(f);
	}
}

/* A bind waits for all work requests before it, and those behind it wait for the bind. */
static void before_a_bind(void **state)
{
	struct fix *f = holding();
	struct mr *mr = sim_mr(f->s, 0, f->mem[0], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };
	uint64_t start = f->s->now;
	struct mw *mw;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[0].pd, IBV_MW_TYPE_2, &mw), 0);
	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &mr->ibv,
		.addr = (uintptr_t)f->mem[0],
		.length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	fix_send(f, 0, &wr);
	say(f, 0);
	next_is(f, 1, IBV_WC_RECV);
	next_is(f, 1, IBV_WC_RECV);
	assert_in_range(f->s->now - start, 0, 50 * US);
	sim_run(f->s, 1000 * US);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* That READs are answered proves nothing about WRITEs. */
static void reads_prove_nothing(void **state)
{
	struct fix *f = joined();

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		uint64_t start;

		for (unsigned j = 0; j < 8; j++) {
			fix_post(f, IBV_WR_RDMA_READ, 1, 0, LEN, 0);
			next_is(f, 0, IBV_WC_RDMA_READ);
		}
		start = f->s->now;
		fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, LEN, 0);
		next_is(f, 0, IBV_WC_RDMA_WRITE);
		assert_in_range(f->s->now - start, 0, 10 * US);
	}
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_once_until_it_is_proved),
		cmocka_unit_test(waits_for_the_answer),
		cmocka_unit_test(not_for_ever),
		cmocka_unit_test(not_if_there_is_more),
		cmocka_unit_test(until_the_end),
		cmocka_unit_test(before_one_that_fails),
		cmocka_unit_test(before_a_bind),
		cmocka_unit_test(reads_prove_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
