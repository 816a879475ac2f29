/* SPDX-License-Identifier: BSD-2-Clause */
/* share_random_test.c - handles of target QPs of XRC at random, with messages that are
 * garbage, refused or lost. A seed repeats a run: sys/seeds_testing.h. */
#include <stdio.h>

#include "sys/seeds_testing.h"
#include "verbs/share_fix.h"

enum { RANDOM_HANDLES = 8 };

static void garbage_harms_nobody(void **state)
{
	unsigned seed = (unsigned)seeds_chosen(1).first;
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	seed_show(seed);
	for (int i = 0; i < 20000; i++) {
		struct share_msg m = { .what = (uint8_t)(SHARE_ASK + rand_r(&seed) % 4),
				       .op = (uint8_t)(rand_r(&seed) % 6),
				       .qpn = lab.qp->qpn,
				       .id = (uint32_t)rand_r(&seed) % 3 + 100,
				       .seq = (uint32_t)rand_r(&seed) % 4 };
		uint8_t *byte = (uint8_t *)&m;
		int at = rand_r(&seed) % 2;

		for (int k = rand_r(&seed) % 4; k; k--)
			byte[8 + (size_t)rand_r(&seed) % (sizeof(m) - 8)] ^=
				(uint8_t)(1 << rand_r(&seed) % 8);
		if (m.id == 1)
			continue; /* h's: that may be spoiled */
		turn_take(&lab.f[at]->core.turn);
		share_heard(&lab.f[at]->core, (uint16_t)(FIX_SLOT + !at), &m,
			    rand_r(&seed) % 8 ? sizeof(m) : (size_t)rand_r(&seed) % 40);
		turn_give(&lab.f[at]->core.turn);
		deliver();
	}
	assert_int_equal(to(h, IBV_QPS_INIT), 0);
	assert_int_equal(lab.qp->state, IBV_QPS_INIT);
	opened_destroy(h);
	gone(0, 1);
	gone(1, 0);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* Handles come and go, by both processes; connections are full, messages get lost (as an
 * answer does whose connection is full).  The QP lives as long as there is a handle, each
 * handle shows its state, and each is told of each event once. */
static void handles_come_and_go(unsigned seed)
{
	struct qp *h[RANDOM_HANDLES] = { NULL };
	int who[RANDOM_HANDLES] = { 0 }, left = 0;
	bool creator = true;

	lab_open();
	lab.seed = seed;
	for (int i = 0; creator || left; i++) {
		const int k = rand_r(&seed) % RANDOM_HANDLES, what = rand_r(&seed) % 8;

		lab.spoil = rand_r(&seed) % 3 ? 0 : 2;
		lab.lose = rand_r(&seed) % 3 ? 0 : 2;
		lab.spoiled = 0; /* so the verb below is answered in time */
		if (!h[k] && what < 4 && i < 200) {
			who[k] = rand_r(&seed) % 2;
			h[k] = opened(who[k]);
			left++;
		} else if (h[k] && what < 3) {
			opened_destroy(h[k]);
			h[k] = NULL;
			left--;
		} else if (h[k] && what < 6) {
			/* RTR twice is refused. */
			const enum ibv_qp_state to_state =
				lab.qp->state == IBV_QPS_RESET	? IBV_QPS_INIT
				: lab.qp->state == IBV_QPS_INIT ? IBV_QPS_RTR
								: IBV_QPS_RESET;
			int rc = to(h[k], to_state);

			assert_int_equal(rc, 0);
			assert_int_equal(lab.qp->state, to_state);
			assert_int_equal(state_by(h[k]), to_state);
		} else if (what == 6 && left) {
			lab.lose = 0; /* a message that was taken is not lost */
			turn_take(&lab.f[0]->core.turn);
			qp_raise(lab.qp, IBV_EVENT_COMM_EST);
			turn_give(&lab.f[0]->core.turn);
			settle();
			for (int n = left + creator; n; n--) {
				struct ibv_async_event e;
				int side = async_get(&lab.f[0]->ctx, &e) ? 1 : 0;

				if (side)
					assert_int_equal(async_get(&lab.f[1]->ctx, &e),
							 0);
				assert_int_equal(e.event_type, IBV_EVENT_COMM_EST);
				async_ack(&e);
			}
			assert_int_equal(fix_event(lab.f[0], NULL), -1);
			assert_int_equal(fix_event(lab.f[1], NULL), -1);
		} else if (what == 7 && creator && left) {
			assert_true(shared_leave(lab.qp));
			creator = false;
		}
		lab.lose = lab.spoil = 0;
		settle();
		assert_int_equal(lab.f[0]->core.qps.count, creator || left);
		if (i > 400 && creator && !left) {
			assert_int_equal(qp_destroy(lab.qp), 0);
			creator = false;
		}
	}
	lab_close();
}

static void handles_come_and_go_at_random(void **state)
{
	const struct seeds s = seeds_chosen(40);

	(void)state;
	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		handles_come_and_go((unsigned)seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(garbage_harms_nobody),
		cmocka_unit_test(handles_come_and_go_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
