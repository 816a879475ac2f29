/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes at the wrong moment. */
#include "local/fix.h"

#define MS 1000000ull

/* A peer that was not ready is, and is then written to directly: no timer of
 * before runs on. */
static void who_was_not_ready_is_forgiven(void **state)
{
	const struct sim_conf c = { .timeout = 10, .retry_cnt = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	pair_run(f, MS / 2);
	assert_true(pair_q(f, 0)->req.lost);
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_false(pair_q(f, 0)->req.lost);
	pair_run(f, 5000 * MS);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

/* Behind what was answered NOT_READY lay another; both come again, and are met
 * all at once by a QP that is ready now.  What it says of the stale one does not
 * take the place of its ACK. */
static void not_ready_is_no_ack(void **state)
{
	const struct sim_conf c = { .pipe_only = true, .timeout = 10, .retry_cnt = 7 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);
	struct rec stale = { .op = REC_SEND,
			     .psn = 1,
			     .flags = REC_FIRST | REC_LAST | REC_ASKS };

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(f, MS / 10);
	pair_stop(f, 1);
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	fix_recv(f, 8, 0, 100);
	fix_recv(f, 9, 0, 100);
	assert_true(pair_q(f, 0)->req.lost);
	pair_write(f, 0, &stale, f->mem[0], 100);
	pair_run(f, 2 * MS);
	pair_go(f, 1);
	pair_run(f, 1 * MS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* B asks QPs that do not exist, reads no answer and goes, which A notices when
 * it wants to wake B. */
static void who_is_woken_has_gone(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct core *core = &f->s->node[0].core;
	struct peer *a = pair_peer(f, 0), *b = pair_peer(f, 1);
	uint32_t nobody = f->p.qp[0]->qpn + 5;
	struct rec *r;

	(void)state;
	sim_destroy(f->s, f->p.qp[0]);
	f->p.qp[0] = NULL;
	pair_stop(f, 0);
	for (uint32_t i = 0; i < 40; i++) {
		r = ring_reserve(&b->out, REC_HEAD);
		*r = (struct rec){ .op = REC_SEND,
				   .flags = REC_FIRST | REC_LAST,
				   .dst = nobody,
				   .src = 1000 + i };
		ring_publish(&b->out, r, REC_HEAD);
	}
	atomic_store(&b->in.s->want_kick, 1);
	while (a->out.head - a->out.tail < RING_SLOTS - 6) {
		r = ring_reserve_answer(&a->out);
		*r = (struct rec){ .op = REC_ACK };
		ring_publish(&a->out, r, REC_HEAD);
	}
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	turn_take(&core->turn);
	peer_heat(a);
	local_input(core->local, f->s->now);
	local_flush(core->local);
	turn_give(&core->turn);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_not_ready_is_forgiven),
		cmocka_unit_test(not_ready_is_no_ack),
		cmocka_unit_test(who_is_woken_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
