/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "sys/rand.h"
#include "sys/seeds_testing.h"
#include "verbs/cq.h"
#include "verbs/order.h"
#include "verbs/test_ctx.h"

enum { MS = 1000000, QPS = 3 };

static struct test_ctx t;
static uint64_t now;

static struct cq *begin(const char *spec, int cqe)
{
	struct cq *cq;

	now = 1000;
	assert_int_equal(order_open(&t.core, spec), 0);
	assert_int_equal(cq_create(&t.ctx, cqe, NULL, NULL, &cq), 0);
	assert_int_equal(cq->ordered, t.core.order != NULL);
	return cq;
}

static void end(struct cq *cq)
{
	assert_int_equal(cq_destroy(cq), 0);
	order_close(&t.core);
}

/* As cq_push(), at the time `now`. */
static bool push(struct cq *cq, uint64_t wr_id, uint32_t qpn)
{
	const struct cqe e = { .wr_id = wr_id, .qp_num = qpn };

	return order_hold(cq, &e, false, now) || cq_push_now(cq, &e, false);
}

static uint64_t poll_one(struct cq *cq)
{
	struct ibv_wc wc;

	return cq_poll(cq, 1, &wc) == 1 ? wc.wr_id : 0;
}

static void nothing_is_asked_for(void **state)
{
	struct cq *cq = begin("", 4);

	(void)state;
	assert_null(t.core.order);
	assert_null(order_source(&t.core));
	assert_false(order_one(&t.core));
	end(cq);
}

static void a_delay_is_kept(void **state)
{
	struct cq *cq = begin("delay=2ms", 4);

	(void)state;
	assert_true(push(cq, 1, 7));
	assert_int_equal(poll_one(cq), 0);
	assert_true(order_next(&t.core) == now + 2 * MS);
	assert_true(source_at(order_source(&t.core)) == now + 2 * MS);
	now += 2 * MS - 1;
	order_run(&t.core, now);
	assert_int_equal(poll_one(cq), 0);
	order_run(&t.core, ++now);
	assert_int_equal(poll_one(cq), 1);
	assert_true(order_next(&t.core) == NEVER);
	assert_true(source_at(order_source(&t.core)) == NEVER);
	end(cq);
}

static void a_swap_waits_no_longer_than_it_may(void **state)
{
	struct cq *cq = begin("swap=1", 8);

	(void)state;
	assert_true(push(cq, 1, 7));
	assert_true(push(cq, 2, 7));
	now += 5 * MS;
	assert_true(push(cq, 3, 8)); /* waits, too, for another QP's */
	assert_int_equal(poll_one(cq), 0);
	now += 5 * MS;
	order_run(&t.core, now);
	assert_int_equal(poll_one(cq), 1);
	assert_int_equal(poll_one(cq), 2); /* after the first, but no later */
	assert_int_equal(poll_one(cq), 0);
	now += 5 * MS;
	order_run(&t.core, now);
	assert_int_equal(poll_one(cq), 3);
	end(cq);
}

/* One that waits is passed by the next one of another QP. */
static void one_passes(void **state)
{
	struct cq *cq = NULL;
	uint64_t first = 0;

	(void)state;
	for (unsigned seed = 1; seed < 100 && first != 2; seed++) {
		char spec[32];

		snprintf(spec, sizeof(spec), "swap=0.5,seed=%u", seed);
		cq = begin(spec, 8);
		push(cq, 1, 7);
		push(cq, 2, 8);
		first = poll_one(cq);
		if (first == 2) {
			order_run(&t.core, now); /* at once, and not in 10 ms */
			assert_int_equal(poll_one(cq), 1);
		}
		end(cq);
	}
	assert_int_equal(first, 2);
}

static void an_overrun_is_one_still(void **state)
{
	struct cq *cq = begin("delay=1ms", 2);

	(void)state;
	assert_true(push(cq, 1, 7));
	assert_true(push(cq, 2, 8));
	assert_int_equal(cq->held, 2);
	assert_true(push(cq, 3, 9)); /* it is not held; the CQ's ring has room */
	order_run(&t.core, now + MS);
	assert_true(cq->overrun);
	end(cq);
}

static void the_full_queue_keeps_the_order_of_a_qp(void **state)
{
	struct cq *cq = begin("delay=1ms", 2);

	(void)state;
	push(cq, 1, 7);
	push(cq, 2, 7);
	assert_false(push(cq, 3, 7));
	assert_true(cq->overrun);
	assert_int_equal(poll_one(cq), 1);
	assert_int_equal(poll_one(cq), 2);
	end(cq);
}

static void what_ends_is_forgotten(void **state)
{
	struct cq *cq = begin("delay=1ms", 8);
	_Atomic uint32_t queue = 0;
	struct cqe e = { .wr_id = 4, .qp_num = 9, .places = 3, .queue = &queue };

	(void)state;
	push(cq, 1, 7);
	push(cq, 2, 8);
	assert_true(order_hold(cq, &e, false, now));
	cq_forget(cq, 9);
	assert_int_equal(queue, 3);
	cq_forget(cq, 7);
	assert_int_equal(cq->held, 1);
	e.qp_num = 10;
	assert_true(order_hold(cq, &e, false, now));
	cq_disown(cq, &queue);
	order_run(&t.core, now + MS);
	assert_int_equal(poll_one(cq), 2);
	assert_int_equal(poll_one(cq), 4);
	assert_int_equal(queue, 3);
	push(cq, 5, 7); /* goes with the CQ */
	end(cq);
}

/* Whatever is drawn, nothing is lost or doubled, and each QP's entries keep their order.
 */
static void random_run(uint64_t seed)
{
	uint64_t pushed[QPS] = { 0 }, polled[QPS] = { 0 };
	bool exchanged = false;
	uint64_t last = 0, got;
	struct prng rng;
	struct cq *cq;
	char spec[64];

	rand_seed(&rng, seed);
	snprintf(spec, sizeof(spec), "delay=3ms:0.3,swap=0.3,seed=%u", (unsigned)seed);
	cq = begin(spec, 1024);
	for (unsigned i = 1; i <= 400; i++) {
		const unsigned qp = (unsigned)rand_below(&rng, QPS);

		assert_true(push(cq, (uint64_t)i << 8 | qp, qp + 1));
		pushed[qp]++;
		now += rand_below(&rng, MS);
		order_run(&t.core, now);
		while (rand_below(&rng, 2) && (got = poll_one(cq))) {
			assert_true(got >> 8 > polled[got & 0xff] >> 8);
			polled[got & 0xff] = got;
			exchanged |= got < last;
			last = got;
			pushed[got & 0xff]--;
		}
	}
	order_run(&t.core, now + 1000ull * MS);
	while ((got = poll_one(cq))) {
		assert_true(got >> 8 > polled[got & 0xff] >> 8);
		polled[got & 0xff] = got;
		pushed[got & 0xff]--;
	}
	for (int i = 0; i < QPS; i++)
		assert_int_equal(pushed[i], 0);
	assert_true(exchanged);
	end(cq);
}

static void each_qp_keeps_its_order(void **state)
{
	const struct seeds seeds = seeds_chosen(50);

	(void)state;
	for (uint64_t i = seeds.first; i <= seeds.last; i++) {
		seed_show(i);
		random_run(i);
	}
}

/* --- bytes --------------------------------------------------------------------- */

static struct {
	uint8_t seen[256];
	size_t n, after_first;
	bool waited;
} w;

static int note(void *arg, size_t at, size_t n)
{
	(void)arg;
	if (!w.n)
		w.after_first = at;
	else
		assert_true(w.waited);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(w.seen[at + i]++, 0);
	w.n += n;
	return 0;
}

static void wait_noted(void *arg)
{
	(void)arg;
	assert_int_equal(w.n, 1);
	w.waited = true;
}

static void each_byte_once_the_last_one_first(void **state)
{
	const struct order_pieces p = { note, wait_noted, NULL };

	(void)state;
	for (size_t n = 1; n <= sizeof(w.seen); n++)
		for (uint64_t seed = 0; seed < 20; seed++) {
			memset(&w, 0, sizeof(w));
			assert_int_equal(order_backwards(&p, n, seed), 0);
			assert_int_equal(w.n, n);
			assert_int_equal(w.after_first, n - 1);
			assert_int_equal(w.waited, n > 1);
		}
}

/* Which of 49 packets of WRITEs come backwards: a bit each. */
static uint64_t draw_writes(struct cq *cq, unsigned completions)
{
	uint64_t turned = 0, seed;

	for (unsigned i = 0; i < 49; i++) {
		turned |= (uint64_t)order_turns(&t.core, &seed) << i;
		for (unsigned n = 0; n < completions * i % 3; n++) {
			assert_true(push(cq, i + 1, 7));
			assert_int_equal(poll_one(cq), i + 1);
		}
	}
	return turned;
}

/* When completions come depends on the machine. */
static void writes_are_drawn_by_the_seed_alone(void **state)
{
	uint64_t turned[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct cq *cq = begin("write=0.5,seed=7", 4);

		turned[i] = draw_writes(cq, i);
		end(cq);
	}
	assert_true(turned[0] && turned[0] == turned[1]);
}

static int setup(void **state)
{
	(void)state;
	test_open(&t);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_close(&t);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_asked_for),
		cmocka_unit_test(a_delay_is_kept),
		cmocka_unit_test(a_swap_waits_no_longer_than_it_may),
		cmocka_unit_test(one_passes),
		cmocka_unit_test(an_overrun_is_one_still),
		cmocka_unit_test(the_full_queue_keeps_the_order_of_a_qp),
		cmocka_unit_test(what_ends_is_forgotten),
		cmocka_unit_test(each_qp_keeps_its_order),
		cmocka_unit_test(each_byte_once_the_last_one_first),
		cmocka_unit_test(writes_are_drawn_by_the_seed_alone),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
