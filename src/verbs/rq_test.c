/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/rq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

static struct ibv_sge sges[SGE_MAX + 1];

static struct ibv_recv_wr recv_wr(uint64_t id, int n)
{
	return (struct ibv_recv_wr){ .wr_id = id, .sg_list = sges, .num_sge = n };
}

static void what_goes_in_comes_out_in_order(void **state)
{
	struct rq rq;
	struct rwqe w;
	uint64_t in = 0, out = 0;

	(void)state;
	assert_int_equal(rq_init(&rq, NULL, 5, 3), 0);
	assert_int_equal(rq.cap, 5);
	rq.head = rq.tail = UINT32_MAX - 6; /* the indices wrap */
	rq.returned = rq.head;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 3; i++, in++) {
			struct ibv_recv_wr wr = recv_wr(in, 3);

			for (unsigned s = 0; s < 3; s++)
				sges[s] = (struct ibv_sge){ in, 0xf0000000, s };
			assert_int_equal(rq_post(&rq, &wr), 0);
		}
		for (; out < in; out++) {
			assert_true(rq_pop(&rq, &w));
			rq.returned++;
			assert_int_equal(w.wr_id, out);
			assert_int_equal(w.num_sge, 3);
			assert_int_equal(w.length, 3 * 0xf0000000ull);
			assert_int_equal(w.sge[2].addr, out);
			assert_int_equal(w.sge[2].lkey, 2);
		}
	}
	assert_false(rq_pop(&rq, &w));
	rq_fini(&rq);
}

static void a_full_ring_takes_no_more(void **state)
{
	struct ibv_recv_wr wr = recv_wr(1, 0);
	struct rwqe w;
	struct rq rq;

	(void)state;
	assert_int_equal(rq_init(&rq, NULL, 4, 1), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(rq_post(&rq, &wr), 0);
	assert_int_equal(rq_post(&rq, &wr), -ENOMEM);
	assert_true(rq_pop(&rq, &w));
	assert_int_equal(rq_post(&rq, &wr), -ENOMEM);
	rq.returned++; /* its completion has been polled */
	assert_int_equal(rq_post(&rq, &wr), 0);
	rq_fini(&rq);
	assert_int_equal(rq_init(&rq, NULL, 0, 0), 0);
	assert_int_equal(rq_post(&rq, &wr), -ENOMEM);
	assert_false(rq_pop(&rq, &w));
	rq_fini(&rq);
}

static void bad_lists_are_refused(void **state)
{
	struct ibv_recv_wr wr = recv_wr(1, -1);
	struct rwqe w;
	struct rq rq;

	(void)state;
	assert_int_equal(rq_init(&rq, NULL, 4, SGE_MAX + 1), -EINVAL);
	assert_int_equal(rq_init(&rq, NULL, UINT32_MAX, 1), -EINVAL);
	assert_int_equal(rq_init(&rq, NULL, 4, 2), 0);
	assert_int_equal(rq_post(&rq, &wr), -EINVAL);
	wr.num_sge = 3;
	assert_int_equal(rq_post(&rq, &wr), -EINVAL);
	wr.num_sge = INT32_MIN;
	assert_int_equal(rq_post(&rq, &wr), -EINVAL);
	wr.num_sge = 1;
	wr.sg_list = NULL;
	assert_int_equal(rq_post(&rq, &wr), -EINVAL);
	wr.num_sge = 0;
	assert_int_equal(rq_post(&rq, &wr), 0);
	assert_true(rq_pop(&rq, &w));
	assert_int_equal(w.length, 0);
	assert_false(rq_pop(&rq, &w));
	rq_fini(&rq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out_in_order),
		cmocka_unit_test(a_full_ring_takes_no_more),
		cmocka_unit_test(bad_lists_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
