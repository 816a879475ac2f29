/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program learns of its peer's requests, and the peer of what was executed
 * here. */
#include "shm/fix.h"

enum { LOOK = 64 };
static void only_what_is_solicited_wakes(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_SEND,
						 IBV_WR_RDMA_WRITE_WITH_IMM };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 0, 20000);
		fix_recv(f, 9, 0, 20000);
		cq_arm(f->p.cq[1], true);
		fix_post(f, op[i], 1, 0, 20000, 0);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		assert_int_equal(f->p.cq[1]->armed, CQ_SOLICITED);
		fix_post(f, op[i], 2, 0, 20000, IBV_SEND_SOLICITED);
		fix_wc(f, 1, 9, IBV_WC_SUCCESS);
		assert_int_equal(f->p.cq[1]->armed, CQ_IDLE);
		fix_close(f);
	}
}

static void the_first_request_in_rtr_is_told(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.qp[1]->state = IBV_QPS_RTR;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	pair_event(f, 1, IBV_EVENT_COMM_EST);
	f->p.qp[1]->state = IBV_QPS_RTS;
	fix_close(f);
}

static void immediate_and_length(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 8; i < 12; i++)
		fix_recv(f, i, 50000, 20000);
	fix_post(f, IBV_WR_SEND_WITH_IMM, 1, 0, 20000, 0);
	wc = fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(wc.byte_len, 20000);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.src_qp, f->p.qp[0]->qpn);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 40000, 0);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 40000);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	fix_post(f, IBV_WR_SEND, 3, 0, 0, 0);
	wc = fix_wc(f, 1, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(wc.imm_data, 0);
	assert_int_equal(wc.byte_len, 0);
	fix_close(f);
}

/* Requests are acknowledged without records. */
static void no_acks(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct rec rec[LOOK];

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 20; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(pair_look(f, 1, rec, LOOK), 0);
	pair_go(f, 0);
	for (unsigned i = 0; i < 20; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A program that receives an answer may rely on its own SEND being complete. */
static void who_is_answered_has_completed(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_wc wc[2];

	(void)state;
	fix_recv(f, 8, 0, 8);
	sim_recv(f->p.qp[0], 9, NULL, 0);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	pair_run(f, 1000);
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	pair_go(f, 1);
	pair_run(f, 1000);
	pair_go(f, 0);
	pair_run(f, 1000);
	assert_int_equal(cq_poll(f->p.cq[0], 2, wc), 2);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[1].wr_id, 9);
	fix_close(f);
}

/* The completion that the peer's word brings overruns the CQ, which fails the QP: then
 * the WRITE behind it is refused. */
static void overrun_by_what_the_word_says(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge sge = sim_sge(f->mr[1], 16, 8);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma.remote_addr = f->mr[0]->mkey.base + 512,
		.wr.rdma.rkey = f->mr[0]->mkey.key,
	};

	(void)state;
	fix_recv(f, 8, 0, 8);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	pair_run(f, 1000);
	pair_stop(f, 0);
	f->p.cq[0]->overrun = true;
	memset(f->mem[0] + 512, 0x11, 8);
	memset(f->mem[1] + 16, 0x22, 8);
	sim_send(f->p.qp[1], &wr);
	pair_go(f, 1);
	pair_run(f, 1000);
	pair_go(f, 0);
	pair_run(f, 1000);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->mem[0][512], 0x11);
	fix_close(f);
}

/* A QP that is reset, destroyed or fails has acknowledged what it executed before. */
static void who_leaves_has_told_what_it_did(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 0, 8);
		pair_stop(f, 1);
		fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
		pair_run(f, 1000);
		pair_stop(f, 0);
		pair_go(f, 1);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		if (i == 2) {
			sim_destroy(f->s, f->p.qp[1]);
			f->p.qp[1] = NULL;
		} else {
			fix_modify(f, 1, i ? IBV_QPS_ERR : IBV_QPS_RESET);
		}
		pair_run(f, 1000);
		pair_go(f, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* The word of a former QP is no ACK of the next one with its number and PSNs. */
static void what_it_did_before_is_no_answer(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 8);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_modify(f, 1, IBV_QPS_RESET);
	pair_run(f, 1000);
	pair_again(f, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 8, 0);
	pair_run(f, 1000);
	fix_no_wc(f, 0);
	pair_again(f, 1);
	fix_no_wc(f, 0);
	fix_recv(f, 8, 0, 8);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* --- the count and the last words ---------------------------------------- */

/* If many requests are executed at once, the words are found beside the count, or by
 * looking at each QP. */
static void news_of_any_number(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_wc wc[LOOK];

	(void)state;
	for (unsigned n = 1; n <= 2 * ANSWERS + 1; n++) {
		pair_stop(f, 1);
		for (unsigned i = 0; i < n; i++)
			fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
		pair_run(f, 1000);
		pair_stop(f, 0);
		pair_go(f, 1);
		pair_run(f, 1000);
		pair_go(f, 0);
		pair_run(f, 1000);
		assert_int_equal(cq_poll(f->p.cq[0], LOOK, wc), n);
	}
	fix_close(f);
}

/* Makes side's word say that requests were executed, although none was. */
static void say_executed(struct fix *f, int side, uint64_t word)
{
	struct core *core = &f->s->node[side].core;

	turn_take(&core->turn);
	peer_nudge(pair_peer(f, side), word);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
	pair_run(f, 1000);
}

/* Stops B with a WRITE of A in its ring, and returns the word that would acknowledge the
 * WRITE. */
static uint64_t word_of_a_write(struct fix *f)
{
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 8, 0);
	pair_run(f, 1000);
	return pair_word(f, 0, pair_psn(f, 0));
}

/* The same word for another QP. */
static uint64_t another(uint64_t word)
{
	return word ^ UINT64_C(1) << 60;
}

/* The word of a QP that is not the peer, or an old word, completes nothing. */
static void news_of_another(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint64_t right;

	(void)state;
	right = word_of_a_write(f);
	say_executed(f, 1, another(right));
	say_executed(f, 1, right - 1);
	say_executed(f, 1, right + 1);
	fix_no_wc(f, 0);
	say_executed(f, 1, right);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The words of other QPs have overwritten the QP's word beside the count: each QP's own
 * word is read. */
static void news_that_was_written_over(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = pair_peer(f, 1);
	uint64_t right;

	(void)state;
	right = word_of_a_write(f);
	atomic_store(&p->executed[qpn_index(pair_qp(f, 1)->qpn)], right);
	peer_nudge(p, right);
	for (unsigned i = 1; i < ANSWERS; i++)
		peer_nudge(p, another(right));
	say_executed(f, 1, another(right));
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void overrun_of_the_receives(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.cq[1]->overrun = true;
	fix_recv(f, 8, 0, 8);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	fix_close(f);
}

/* Would a poller of side, to which all rings are left, find nothing? */
static bool quiet(struct fix *f, int side)
{
	struct core *core = &f->s->node[side].core;
	struct source *rings = peers_source(peers_of(core));
	bool is;

	turn_take(&core->turn);
	(void)rings->ops->sleeps(rings, false);
	is = !rings->ops->input(rings, SOURCE_QUICK, NULL, 0);
	turn_give(&core->turn);
	return is;
}

/* A record, an ACK and a QP that waits for room are for a turn, which makes it quiet. */
static void quiet_or_not(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 20000);
	assert_true(quiet(f, 0) && quiet(f, 1));
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, IBV_SEND_SIGNALED);
	pair_run(f, 1000);
	assert_true(quiet(f, 0));
	assert_false(quiet(f, 1));
	pair_stop(f, 0);
	pair_go(f, 1);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_true(quiet(f, 1));
	assert_false(quiet(f, 0)); /* an ACK */
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_true(quiet(f, 0));
	pair_stop(f, 1);
	pair_fill(f, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 8, 0);
	pair_run(f, 1000);
	assert_false(quiet(f, 0)); /* it may have room by now */
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_solicited_wakes),
		cmocka_unit_test(the_first_request_in_rtr_is_told),
		cmocka_unit_test(immediate_and_length),
		cmocka_unit_test(no_acks),
		cmocka_unit_test(who_is_answered_has_completed),
		cmocka_unit_test(overrun_by_what_the_word_says),
		cmocka_unit_test(who_leaves_has_told_what_it_did),
		cmocka_unit_test(what_it_did_before_is_no_answer),
		cmocka_unit_test(news_of_any_number),
		cmocka_unit_test(news_of_another),
		cmocka_unit_test(news_that_was_written_over),
		cmocka_unit_test(overrun_of_the_receives),
		cmocka_unit_test(quiet_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
