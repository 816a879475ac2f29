/* SPDX-License-Identifier: BSD-2-Clause */
/* Events that come at the wrong moment. */
#include "shm/fix.h"

/* The receiver was not ready, and then is; the next WRITE is direct: no timer of the RNR
 * wait may still run. */
static void who_was_not_ready_is_forgiven(void **state)
{
	const struct sim_conf c = { .timeout = 10, .retry_cnt = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	pair_run(f, 2 * MS);
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_run(f, 5000 * MS);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

/* B sends requests to QPs that do not exist, reads no answer and ends.  A finds that out
 * when it sends a KICK to B. */
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
		*r = (struct rec){ .kind = REC_SEGMENT,
				   .opcode = SEGMENT_ONLY,
				   .dst = nobody,
				   .src = 1000 + i };
		ring_publish(&b->out, r, REC_HEAD);
	}
	atomic_store(&b->in.s->want_kick, 1);
	while (a->out.head - a->out.tail < RING_SLOTS - 6) {
		r = ring_reserve_answer(&a->out);
		*r = (struct rec){ .kind = REC_SEGMENT, .opcode = SEGMENT_ONLY };
		ring_publish(&a->out, r, REC_HEAD);
	}
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	turn_take(&core->turn);
	peer_heat(a);
	peers_input(peers_of(core), f->s->now);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_was_not_ready_is_forgiven),
		cmocka_unit_test(who_is_woken_has_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
