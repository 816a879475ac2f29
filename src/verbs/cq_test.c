/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "sys/rand.h"
#include "verbs/cq.h"
#include "verbs/test_ctx.h"
#include "verbs/verr.h"

static struct test_ctx t;

static struct cqe entry(uint64_t wr_id, uint32_t qpn)
{
	return (struct cqe){ .wr_id = wr_id, .qp_num = qpn };
}

static bool push(struct cq *cq, uint64_t wr_id, uint32_t qpn)
{
	struct cqe e = entry(wr_id, qpn);

	return cq_push(cq, &e, false);
}

static uint64_t poll_one(struct cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	return wc.wr_id;
}

static struct cq *create(int cqe, struct channel *ch)
{
	struct cq *cq = NULL;

	assert_int_equal(cq_create(&t.ctx, cqe, ch, &t, &cq), 0);
	return cq;
}

static void sizes_are_judged(void **state)
{
	struct cq *cq = NULL;

	(void)state;
	test_open(&t);
	assert_int_equal(cq_create(&t.ctx, 0, NULL, NULL, &cq), -EINVAL);
	assert_int_equal(cq_create(&t.ctx, -1, NULL, NULL, &cq), -EINVAL);
	assert_int_equal(cq_create(&t.ctx, (int)caps.max_cqe + 1, NULL, NULL, &cq),
			 -EINVAL);
	assert_null(cq);
	cq = create((int)caps.max_cqe, NULL);
	assert_int_equal(cq->ex.cqe, caps.max_cqe);
	assert_ptr_equal(cq->ex.cq_context, &t);
	assert_ptr_equal(cq->ex.context, &t.ibv);
	assert_ptr_equal(cq_of((struct ibv_cq *)&cq->ex), cq);
	cq->users++;
	assert_int_equal(cq_destroy(cq), -EBUSY);
	cq->users--;
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(t.core.counts.cqs, 0);
	test_close(&t);
}

static void an_entry_is_told_in_full(void **state)
{
	const struct cqe e = {
		.wr_id = 0x1122334455667788,
		.byte_len = 1000,
		.imm = 0xa1b2c3d4,
		.qp_num = 0x4001,
		.src_qp = 0x8002,
		.vendor_err = VERR_LOCAL_KEY,
		.pkey_index = 1,
		.status = IBV_WC_LOC_PROT_ERR,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.flags = IBV_WC_GRH | IBV_WC_WITH_IMM,
		.sl = 5,
		.now = 99,
	};
	struct cqe out;
	struct ibv_wc wc;
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(4, NULL);
	memset(&wc, 0xee, sizeof(wc));
	assert_int_equal(cq_poll(cq, 1, &wc), 0);
	assert_true(cq_push(cq, &e, false));
	assert_true(cq_push(cq, &e, false));
	assert_int_equal(cq_poll(cq, -1, &wc), -EINVAL);
	assert_int_equal(cq_poll(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, e.wr_id);
	assert_int_equal(wc.status, e.status);
	assert_int_equal(wc.opcode, e.opcode);
	assert_int_equal(wc.vendor_err, e.vendor_err);
	assert_int_equal(wc.byte_len, e.byte_len);
	assert_int_equal(wc.imm_data, e.imm);
	assert_int_equal(wc.qp_num, e.qp_num);
	assert_int_equal(wc.src_qp, e.src_qp);
	assert_int_equal(wc.wc_flags, e.flags);
	assert_int_equal(wc.pkey_index, e.pkey_index);
	assert_int_equal(wc.slid, 0);
	assert_int_equal(wc.sl, e.sl);
	assert_int_equal(wc.dlid_path_bits, 0);
	assert_true(cq_pop(cq, &out));
	assert_memory_equal(&out, &e, sizeof(e));
	assert_false(cq_pop(cq, &out));
	cq_destroy(cq);
	test_close(&t);
}

static void entries_keep_their_order_around_the_ring(void **state)
{
	struct ibv_wc wc[8];
	uint64_t in = 0, out = 0;
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(5, NULL);
	cq->head = cq->tail = UINT32_MAX - 7; /* as after 4 billion completions */
	assert_true(cq_empty(cq));
	for (int round = 0; round < 20; round++) {
		int n;

		for (int i = 0; i < 5; i++)
			assert_true(push(cq, in++, 1));
		n = cq_poll(cq, 3, wc);
		assert_int_equal(n, 3);
		n += cq_poll(cq, 8, wc + 3);
		assert_int_equal(n, 5);
		for (int i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, out++);
	}
	assert_true(cq_empty(cq));
	cq_destroy(cq);
	test_close(&t);
}

static void an_overrun_is_told_once_and_lasts(void **state)
{
	struct ibv_async_event event;
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(3, NULL); /* the ring has room for 4 */
	for (unsigned i = 0; i < 3; i++)
		assert_true(push(cq, i, 1));
	assert_false(cq->overrun);
	assert_true(list_empty(&t.ctx.async.waiting));
	assert_false(push(cq, 3, 1));
	assert_false(push(cq, 4, 1));
	assert_true(cq->overrun);
	assert_int_equal(poll_one(cq), 0);
	assert_false(push(cq, 5, 1));
	assert_int_equal(poll_one(cq), 1);
	assert_int_equal(poll_one(cq), 2);
	assert_true(cq_empty(cq));
	assert_int_equal(async_get(&t.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, &cq->ex);
	assert_true(list_empty(&t.ctx.async.waiting));
	async_ack(&event);
	assert_int_equal(cq->ex.async_events_completed, 1);
	cq_destroy(cq);
	test_close(&t);
}

static void a_promise_not_to_overrun_is_believed(void **state)
{
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(4, NULL);
	cq->ignore_overrun = true;
	for (unsigned i = 0; i < 6; i++)
		assert_true(push(cq, i, 1));
	assert_false(cq->overrun);
	for (unsigned i = 2; i < 6; i++)
		assert_int_equal(poll_one(cq), i);
	assert_true(cq_empty(cq));
	cq_destroy(cq);
	test_close(&t);
}

static void resize_keeps_what_waits(void **state)
{
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(4, NULL);
	cq->head = cq->tail = 3;
	for (unsigned i = 0; i < 4; i++)
		assert_true(push(cq, i, 1));
	assert_int_equal(cq_resize(cq, 3), -EINVAL);
	assert_int_equal(cq_resize(cq, 0), -EINVAL);
	assert_int_equal(cq_resize(cq, (int)caps.max_cqe + 1), -EINVAL);
	assert_int_equal(cq->ex.cqe, 4);
	assert_int_equal(cq_resize(cq, 9), 0);
	assert_int_equal(cq->ex.cqe, 9);
	for (unsigned i = 4; i < 9; i++)
		assert_true(push(cq, i, 1));
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(poll_one(cq), i);
	assert_int_equal(cq_resize(cq, 2), 0);
	assert_int_equal(poll_one(cq), 7);
	assert_int_equal(poll_one(cq), 8);
	assert_true(push(cq, 9, 1) && push(cq, 10, 1));
	assert_false(push(cq, 11, 1));
	cq_destroy(cq);
	test_close(&t);
}

static void a_qp_is_forgotten_others_are_not(void **state)
{
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(8, NULL);
	cq->head = cq->tail = 5;
	for (unsigned i = 0; i < 8; i++)
		assert_true(push(cq, i, i % 3));
	cq_forget(cq, 1); /* 1, 4, 7 */
	assert_int_equal(poll_one(cq), 0);
	assert_int_equal(poll_one(cq), 2);
	assert_true(push(cq, 100, 1));
	assert_int_equal(poll_one(cq), 3);
	assert_int_equal(poll_one(cq), 5);
	assert_int_equal(poll_one(cq), 6);
	assert_int_equal(poll_one(cq), 100);
	assert_true(cq_empty(cq));
	cq_destroy(cq);
	test_close(&t);
}

static bool woken(struct cq *cq)
{
	bool was = cq->events_queued > 0;

	channel_drop(cq->channel, cq);
	return was;
}

/* Adds an entry that holds places of a queue. */
static void hold(struct cq *cq, uint16_t places, _Atomic uint32_t *queue, uint32_t qpn)
{
	struct cqe e = { .qp_num = qpn, .places = places, .queue = queue };

	assert_true(cq_push(cq, &e, false));
}

static void places_return_as_entries_leave(void **state)
{
	_Atomic uint32_t own = UINT32_MAX, srq = 7;
	struct ibv_wc wc[4];
	struct cqe out;
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(4, NULL);
	hold(cq, 3, &own, 1);
	hold(cq, PLACE_SHARED, &srq, 1);
	hold(cq, 0, NULL, 1); /* of a tag */
	assert_int_equal(cq_poll(cq, 2, wc), 2);
	assert_int_equal(own, 2);
	assert_int_equal(srq, 8);
	assert_int_equal(cq_poll(cq, 2, wc), 1);
	hold(cq, 2, &own, 1);
	assert_true(cq_pop(cq, &out));
	assert_int_equal(own, 4);
	/* A QP that is forgotten leaves the SRQ's receives to others. */
	hold(cq, PLACE_SHARED, &srq, 1);
	hold(cq, PLACE_SHARED, &srq, 2);
	cq_forget(cq, 1);
	assert_int_equal(srq, 9);
	/* An SRQ that is destroyed: its entry stays, its count is gone. */
	cq_disown(cq, &srq);
	assert_int_equal(cq_poll(cq, 2, wc), 1);
	assert_int_equal(srq, 9);
	/* An entry that is dropped counts as polled. */
	cq->ignore_overrun = true;
	for (uint16_t i = 1; i <= 5; i++)
		hold(cq, i, &own, 1);
	assert_int_equal(own, 5);
	assert_int_equal(cq_resize(cq, 16), 0);
	assert_int_equal(cq_poll(cq, 4, wc), 4);
	assert_int_equal(own, 5 + 2 + 3 + 4 + 5);
	cq_return(cq, &own, 3);
	assert_int_equal(own, 22);
	cq_destroy(cq);
	test_close(&t);
}

static struct channel *ch;

static struct cq *open_with_channel(int cqe)
{
	test_open(&t);
	assert_int_equal(channel_create(&t.ctx, &ch), 0);
	return create(cqe, ch);
}

static void close_with_channel(struct cq *cq)
{
	cq_destroy(cq);
	assert_int_equal(channel_destroy(ch), 0);
	test_close(&t);
}

static void an_armed_cq_wakes_once(void **state)
{
	struct cqe failed = { .status = IBV_WC_WR_FLUSH_ERR }, ok = { 0 };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(64);
	cq_push(cq, &ok, true);
	assert_false(woken(cq)); /* not armed */
	poll_one(cq);
	assert_int_equal(cq_arm(cq, false), 0);
	assert_false(woken(cq));
	cq_push(cq, &ok, false);
	assert_true(woken(cq));
	poll_one(cq);
	cq_push(cq, &ok, false);
	assert_false(woken(cq)); /* one event only */

	assert_int_equal(cq_arm(cq, true), 0);
	cq_push(cq, &ok, false);
	assert_false(woken(cq));
	cq_push(cq, &ok, true);
	assert_true(woken(cq));
	assert_int_equal(cq_arm(cq, true), 0);
	cq_push(cq, &failed, false);
	assert_true(woken(cq));
	for (int i = 0; i < 4; i++)
		poll_one(cq);

	assert_int_equal(cq_arm(cq, false), 0);
	assert_int_equal(cq_arm(cq, true), 0); /* does not weaken the earlier request */
	cq_push(cq, &ok, false);
	assert_true(woken(cq));
	close_with_channel(cq);
}

static bool arm(struct cq *cq, bool solicited_only)
{
	assert_int_equal(cq_arm(cq, solicited_only), 0);
	return woken(cq);
}

/* A program that does not poll after it has armed the CQ. */
static void what_waits_at_the_arm_wakes_at_once(void **state)
{
	struct cqe ok = { 0 };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(8);
	cq->head = cq->tail = UINT32_MAX - 1;
	cq_push(cq, &ok, false);
	assert_true(arm(cq, false));
	assert_false(arm(cq, false)); /* the event has told of it */
	cq_push(cq, &ok, false);
	assert_true(woken(cq)); /* that arm waited for the next one */
	poll_one(cq);
	poll_one(cq);
	assert_false(woken(cq));
	assert_false(arm(cq, false));
	/* Fetch, arm, poll: one event for each entry. */
	for (int i = 0; i < 8; i++) {
		cq_push(cq, &ok, false);
		assert_true(woken(cq));
		assert_false(arm(cq, false));
		poll_one(cq);
	}
	close_with_channel(cq);
}

static void poll_field_by_field(struct cq *cq, int n)
{
	struct cqe e;

	while (n--)
		assert_true(cq_pop(cq, &e));
	cq_polled(cq);
}

/* Programs that fetch the event, arm, and poll: whether they take one entry for each
 * event, or all that there are, they get no event without an entry, and no entry without
 * one. */
static void an_event_waits_for_the_poll(void **state)
{
	struct cqe ok = { 0 };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(8);
	for (int i = 0; i < 4; i++) {
		assert_false(arm(cq, false));
		cq_push(cq, &ok, false);
		assert_true(woken(cq));
		cq_push(cq, &ok, false);
		assert_false(arm(cq, false)); /* the event has told of the first */
		i & 1 ? poll_field_by_field(cq, 1) : poll_one(cq);
		assert_true(woken(cq)); /* one is left */
		assert_false(arm(cq, false));
		cq_push(cq, &ok, false);
		assert_true(woken(cq));
		i & 1 ? poll_field_by_field(cq, 2) : (poll_one(cq), poll_one(cq));
		assert_false(woken(cq));

		assert_false(arm(cq, false));
		cq_push(cq, &ok, false);
		assert_true(woken(cq));
		cq_push(cq, &ok, false);
		assert_false(arm(cq, false));
		if (i & 1)
			poll_field_by_field(cq, 2);
		else
			assert_int_equal(cq_poll(cq, 8, (struct ibv_wc[8]){ 0 }), 2);
		assert_false(woken(cq));
	}
	close_with_channel(cq);
}

/* An event that was put off is not raised besides another one for the same arm. */
static void one_event_for_each_arm(void **state)
{
	struct cqe ok = { 0 };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(8);
	assert_false(arm(cq, false));
	cq_push(cq, &ok, false);
	assert_true(woken(cq));
	cq_push(cq, &ok, false);
	assert_false(arm(cq, false));
	cq_push(cq, &ok, false);
	assert_true(woken(cq)); /* what the CQ was armed for */
	poll_one(cq);
	assert_false(woken(cq));
	assert_false(arm(cq, false)); /* two wait, the event has told of one */
	poll_one(cq);
	assert_true(woken(cq));
	close_with_channel(cq);
}

/* What events have told of goes with its QP: no poll of it comes, and the event that it
 * put off is due. */
static void an_event_does_not_wait_for_other_qps(void **state)
{
	struct cqe e[2] = { { .qp_num = 1 }, { .qp_num = 2 } };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(2);
	assert_false(arm(cq, false));
	cq_push(cq, &e[0], false);
	assert_true(woken(cq));
	cq_push(cq, &e[1], false);
	assert_false(arm(cq, false));
	cq_forget(cq, 1);
	assert_true(woken(cq));
	poll_one(cq);
	assert_false(woken(cq));
	close_with_channel(cq);

	/* An older entry makes room. */
	cq = open_with_channel(2);
	cq->ignore_overrun = true;
	assert_false(arm(cq, true));
	cq_push(cq, &e[0], true);
	assert_true(woken(cq));
	cq_push(cq, &e[1], true);
	assert_false(arm(cq, true));
	cq_push(cq, &e[0], false);
	assert_true(woken(cq));
	close_with_channel(cq);
}

/* --- programs that sleep ---------------------------------------------------- */

/* What a program does when it has fetched an event, before it sleeps again. */
enum habit { ARM_POLL_ALL, ARM_POLL_ONE, POLL_ONE_ARM, POLL_ALL_ARM, HABITS };

/* Anything may come between two calls of a program. */
static void something_comes(struct cq *cq, struct prng *rng)
{
	struct cqe e = { .qp_num = 1 + (uint32_t)rand_below(rng, 2) };

	switch (rand_below(rng, 8)) {
	case 0:
	case 1:
	case 2:
		if (cq->head - cq->tail < cq->cap)
			cq_push(cq, &e, rand_below(rng, 2));
		break;
	case 3:
		if (!rand_below(rng, 4))
			cq_forget(cq, e.qp_num);
		break;
	}
}

/* n: entries at most. */
static void take(struct cq *cq, struct prng *rng, unsigned n)
{
	struct ibv_wc wc[4];

	while (n && !cq_empty(cq)) {
		unsigned most = 1 + (unsigned)rand_below(rng, n < 4 ? n : 4);

		if (rand_below(rng, 2)) {
			n -= (unsigned)cq_poll(cq, (int)most, wc);
		} else {
			struct cqe e;
			unsigned got = 0;

			for (; got < most && cq_pop(cq, &e); got++)
				something_comes(cq, rng);
			if (cq->owed)
				cq_polled(cq);
			n -= got;
		}
		something_comes(cq, rng);
	}
}

static void go_on(struct cq *cq, struct prng *rng, enum habit habit)
{
	const unsigned n =
		habit == ARM_POLL_ONE || habit == POLL_ONE_ARM ? 1 : UINT32_MAX;
	const bool first = habit == ARM_POLL_ALL || habit == ARM_POLL_ONE;

	something_comes(cq, rng);
	if (first)
		cq_arm(cq, false);
	something_comes(cq, rng);
	take(cq, rng, n);
	if (!first)
		cq_arm(cq, false);
}

/* No program sleeps while entries wait, and no arm gives two events. */
static void no_program_sleeps_beside_entries(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 400 * HABITS; i++) {
		struct prng rng = { i };
		struct cq *cq = open_with_channel(16);
		unsigned arms = 1;

		cq->head = cq->tail = UINT32_MAX - 8;
		cq_arm(cq, false);
		for (int k = 0; k < 50; k++) {
			something_comes(cq, &rng);
			assert_true(cq->events_got + cq->events_queued <= arms);
			if (!channel_pop(cq->channel)) {
				assert_true(cq_empty(cq));
				continue;
			}
			go_on(cq, &rng, i % HABITS);
			arms++;
		}
		cq_ack_all(cq);
		close_with_channel(cq);
	}
}

static void an_arm_for_solicited_ones_looks_for_these(void **state)
{
	struct cqe failed = { .status = IBV_WC_WR_FLUSH_ERR }, ok = { 0 };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(8);
	cq_push(cq, &ok, false);
	assert_false(arm(cq, true));
	assert_true(arm(cq, false)); /* a request for any event is stronger */
	cq_push(cq, &ok, true);
	assert_false(arm(cq, true));
	poll_one(cq);
	assert_true(woken(cq));
	assert_false(arm(cq, true)); /* the event has told of it */
	poll_one(cq);
	assert_true(cq_empty(cq));
	cq_push(cq, &ok, true);
	assert_true(woken(cq));
	cq_push(cq, &failed, false);
	cq_push(cq, &ok, false);
	poll_one(cq);
	assert_true(arm(cq, true));
	poll_one(cq);
	assert_false(arm(cq, true));
	close_with_channel(cq);
}

/* cq_forget() moves entries: the CQ must still know which ones were told of. */
static void what_is_left_of_other_qps_wakes(void **state)
{
	struct cqe e[2] = { { .qp_num = 1 }, { .qp_num = 2 } };
	struct cq *cq;

	(void)state;
	cq = open_with_channel(8);
	assert_false(arm(cq, false));
	cq_push(cq, &e[0], true);
	assert_true(woken(cq));
	cq_push(cq, &e[1], false);
	cq_forget(cq, 1);
	assert_false(arm(cq, true)); /* the solicited one is gone */
	assert_true(arm(cq, false)); /* no event has told of the other */
	cq_push(cq, &e[0], false);
	cq_push(cq, &e[1], true);
	cq_push(cq, &e[0], true);
	cq_forget(cq, 1);
	assert_true(arm(cq, true)); /* an older solicited one is left */
	poll_one(cq);
	poll_one(cq);
	cq_forget(cq, 3);
	assert_false(arm(cq, true));
	close_with_channel(cq);
}

static void without_a_channel_nothing_wakes(void **state)
{
	struct cq *cq;

	(void)state;
	test_open(&t);
	cq = create(4, NULL);
	assert_int_equal(cq_arm(cq, false), 0);
	assert_true(push(cq, 1, 1));
	assert_int_equal(cq->events_queued, 0);
	cq_destroy(cq);
	test_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_judged),
		cmocka_unit_test(an_entry_is_told_in_full),
		cmocka_unit_test(entries_keep_their_order_around_the_ring),
		cmocka_unit_test(an_overrun_is_told_once_and_lasts),
		cmocka_unit_test(a_promise_not_to_overrun_is_believed),
		cmocka_unit_test(resize_keeps_what_waits),
		cmocka_unit_test(a_qp_is_forgotten_others_are_not),
		cmocka_unit_test(places_return_as_entries_leave),
		cmocka_unit_test(an_armed_cq_wakes_once),
		cmocka_unit_test(an_event_waits_for_the_poll),
		cmocka_unit_test(one_event_for_each_arm),
		cmocka_unit_test(no_program_sleeps_beside_entries),
		cmocka_unit_test(an_event_does_not_wait_for_other_qps),
		cmocka_unit_test(what_waits_at_the_arm_wakes_at_once),
		cmocka_unit_test(an_arm_for_solicited_ones_looks_for_these),
		cmocka_unit_test(what_is_left_of_other_qps_wakes),
		cmocka_unit_test(without_a_channel_nothing_wakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
