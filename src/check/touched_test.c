/* SPDX-License-Identifier: BSD-2-Clause */
/* touched_test.c - memory that the program touches while a request has it. */
#include "check/fix.h"
#include "check/ops.h"
#include "sys/guard.h"
#include "sys/memory_testing.h"
#include "verbs/mr.h"

enum { KEY = 77, MEMORY = 16 * PAGE };

static uint8_t *at;
static struct mr mr;
static uint64_t id;

static void post(enum ibv_wr_opcode op, unsigned from, unsigned len, unsigned flags)
{
	const struct ibv_sge sge = { (uintptr_t)at + from, len, KEY };

	assert_int_equal(fix_post(op, ++id, sge, flags), 0);
}

static int post_recv(unsigned from, unsigned len)
{
	return fix_post_recv(1, (struct ibv_sge){ (uintptr_t)at + from, len, KEY });
}

/* Inline, so that each call is a place of its own. */
static inline __attribute__((always_inline)) void touch(unsigned offset)
{
	*(volatile uint8_t *)(at + offset) += 1;
}

static inline __attribute__((always_inline)) void look(unsigned offset)
{
	(void)*(volatile uint8_t *)(at + offset);
}

#define FINDS(call) FIX_FINDS("buffer-touched", call)

static void a_receive(void **state)
{
	(void)state;
	post_recv(PAGE, PAGE);
	FIX_FINDS_NOTHING(touch(0));
	FINDS(look(PAGE));
	assert_non_null(strstr(fix.log, "the program reads 0x"));
	assert_non_null(strstr(fix.log, "which the receive of wr_id 0x1 is to fill"));
	assert_non_null(strstr(fix.log, "in a_receive ("));
	assert_non_null(strstr(fix.log, "the request was posted "));
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(touch(PAGE));
}

static void a_read(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_READ, PAGE, PAGE, IBV_SEND_SIGNALED);
	FINDS(touch(PAGE));
	fix_reap(id, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
	post(IBV_WR_RDMA_READ, PAGE, PAGE, IBV_SEND_SIGNALED);
	fix_reap(id, IBV_WC_RDMA_READ, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(touch(PAGE));
}

static void a_send(void **state)
{
	(void)state;
	post(IBV_WR_SEND, PAGE, PAGE, IBV_SEND_SIGNALED);
	FIX_FINDS_NOTHING(look(PAGE));
	FINDS(memset(at + PAGE, 5, 64));
	assert_non_null(strstr(fix.log, "the program writes to 0x"));
	assert_non_null(strstr(fix.log, "in a_send (")); /* and not in libc */
	fix_reap(id, IBV_WC_SEND, IBV_WC_SUCCESS);
	post(IBV_WR_SEND, PAGE, 64, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	FIX_FINDS_NOTHING(touch(PAGE));
	fix_reap(id, IBV_WC_SEND, IBV_WC_SUCCESS);
}

/* The completion of a later request says that it is done. */
static void without_a_completion(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_WRITE, PAGE, PAGE, 0);
	post(IBV_WR_RDMA_WRITE, 2 * PAGE, PAGE, IBV_SEND_SIGNALED);
	fix_reap(id, IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(touch(PAGE));
	FIX_FINDS_NOTHING(touch(2 * PAGE));
}

static void somebody_has_spoken(void **state)
{
	(void)state;
	post_recv(8 * PAGE, PAGE);
	post(IBV_WR_SEND, PAGE, PAGE, IBV_SEND_SIGNALED);
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(touch(PAGE));
	fix_reap(id, IBV_WC_SEND, IBV_WC_SUCCESS);
	post(IBV_WR_SEND, PAGE, PAGE, IBV_SEND_SIGNALED);
	checks->wrote(at, 1, false);
	FIX_FINDS_NOTHING(touch(PAGE));
	fix_reap(id, IBV_WC_SEND, IBV_WC_SUCCESS);
}

static void it_was_refused(void **state)
{
	(void)state;
	fix.rc = ENOMEM;
	assert_int_equal(post_recv(PAGE, PAGE), ENOMEM);
	FIX_FINDS_NOTHING(touch(PAGE));
	fix.rc = 0;
}

static void it_has_failed(void **state)
{
	(void)state;
	post_recv(PAGE, PAGE);
	post_recv(2 * PAGE, PAGE);
	fix_reap(1, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
	FIX_FINDS_NOTHING(touch(2 * PAGE));
	fix_reap(1, IBV_WC_RECV, IBV_WC_WR_FLUSH_ERR);
	post_recv(PAGE, PAGE);
	fix.qp.state = IBV_QPS_ERR; /* the NIC knows it first */
	FIX_FINDS_NOTHING(touch(PAGE));
	fix.qp.state = IBV_QPS_RTS;
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
}

static void state_of_the_queue_pair(void **state)
{
	const struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET },
				 err = { .qp_state = IBV_QPS_ERR };

	(void)state;
	post_recv(PAGE, PAGE);
	checks->modified(&fix.qp.live, &err, IBV_QP_STATE);
	FIX_FINDS_NOTHING(touch(PAGE));
	checks->modified(&fix.qp.live, &reset, IBV_QP_STATE);
	post_recv(PAGE, PAGE);
	checks->modified(&fix.qp.live, &reset, IBV_QP_STATE);
	FIX_FINDS_NOTHING(touch(PAGE));
}

/* What the program itself has protected stays as it is. */
static void memory_of_other_kinds(void **state)
{
	static struct mr other;
	uint8_t *p = pages(2, PROT_READ | PROT_WRITE | PROT_EXEC);
	struct ibv_sge sge = { (uintptr_t)p, 2 * PAGE, KEY + 1 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };

	(void)state;
	mprotect(p + PAGE, PAGE, PROT_READ);
	other.mkey = (struct mkey){
		.key = KEY + 1, .base = (uintptr_t)p, .length = 2 * PAGE, .host = p
	};
	object_made(&other.live, LIVE_MR);
	assert_int_equal(ibv_post_recv(&fix.qp.ex.qp_base, &wr, &bad), 0);
	FIX_FINDS_NOTHING(*(volatile uint8_t *)p = 1);
	FIX_FINDS_NOTHING((void)*(volatile uint8_t *)(p + PAGE));
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	object_gone(&other.live, LIVE_MR);
	munmap(p, 2 * PAGE);
}

static void region_ends(void **state)
{
	(void)state;
	post_recv(PAGE, PAGE);
	object_gone(&mr.live, LIVE_MR);
	FIX_FINDS_NOTHING(touch(PAGE));
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	object_made(&mr.live, LIVE_MR);
}

static void an_unknown_completion(void **state)
{
	(void)state;
	post_recv(PAGE, PAGE);
	fix_reap(2, IBV_WC_RECV, IBV_WC_SUCCESS);
	FIX_FINDS_NOTHING(touch(PAGE));
	checks->modified(&fix.qp.live, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
			 IBV_QP_STATE);
}

static void a_check_looks_at_it(void **state)
{
	(void)state;
	post_recv(PAGE, PAGE);
	assert_true(ops_begin());
	FIX_FINDS_NOTHING(look(PAGE));
	ops_end();
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
}

static void completions_that_nobody_looks_at(void **state)
{
	struct ibv_wc wc;

	(void)state;
	post_recv(PAGE, PAGE);
	fix.n = 1;
	assert_true(ops_begin()); /* a handler has interrupted a check */
	assert_int_equal(ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc), 1);
	ops_end();
	FIX_FINDS_NOTHING(touch(PAGE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_receive),
		cmocka_unit_test(a_read),
		cmocka_unit_test(a_send),
		cmocka_unit_test(without_a_completion),
		cmocka_unit_test(somebody_has_spoken),
		cmocka_unit_test(it_was_refused),
		cmocka_unit_test(it_has_failed),
		cmocka_unit_test(state_of_the_queue_pair),
		cmocka_unit_test(memory_of_other_kinds),
		cmocka_unit_test(region_ends),
		cmocka_unit_test(an_unknown_completion),
		cmocka_unit_test(a_check_looks_at_it),
		cmocka_unit_test(completions_that_nobody_looks_at), /* the last */
	};

	const stack_t was = large_stack();
	int failed;

	fix_open("buffer-touched");
	at = pages(MEMORY / PAGE, PROT_READ | PROT_WRITE);
	mr.mkey = (struct mkey){
		.key = KEY, .base = (uintptr_t)at, .length = MEMORY, .host = at
	};
	object_made(&mr.live, LIVE_MR);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	sigaltstack(&was, NULL);
	return failed;
}
