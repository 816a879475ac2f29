/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer_test.c - buffers that change between post and completion. */
#include "check/fix.h"
#include "sys/memory_testing.h"
#include "verbs/mr.h"

enum { KEY = 77, MEMORY = 1 << 20, LEN = 256 };

static uint8_t *at;
static struct mr mr;
static uint64_t id;

/* Inline, so that each call is a place of its own. */
static inline __attribute__((always_inline)) void post(enum ibv_wr_opcode op,
						       unsigned from, unsigned len,
						       unsigned flags)
{
	const struct ibv_sge sge = { (uintptr_t)at + from, len, KEY };

	assert_int_equal(fix_post(op, ++id, sge, flags), 0);
}

static void post_recv(unsigned from, unsigned len)
{
	const struct ibv_sge sge = { (uintptr_t)at + from, len, KEY };

	assert_int_equal(fix_post_recv(1, sge), 0);
}

static void reap(enum ibv_wc_opcode opcode)
{
	fix_reap(opcode == IBV_WC_RECV ? 1 : id, opcode, IBV_WC_SUCCESS);
}

#define FINDS(call) FIX_FINDS("buffer-changed", call)

static void a_byte_of_it(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[LEN]++; /* not of it */
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_RDMA_WRITE, 0, LEN, IBV_SEND_SIGNALED);
	at[LEN - 1]++;
	FINDS(reap(IBV_WC_RDMA_WRITE));
	assert_non_null(strstr(fix.log, "the 256 bytes of this RDMA_WRITE"));
}

static void of_a_long_one_pieces(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, MEMORY, IBV_SEND_SIGNALED);
	at[4096]++; /* between two pieces: missed */
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, MEMORY, IBV_SEND_SIGNALED);
	at[MEMORY - 1]++;
	FINDS(reap(IBV_WC_SEND));
}

static void of_those_without_a_completion(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, 0);
	at[0]++;
	post(IBV_WR_SEND, LEN, LEN, IBV_SEND_SIGNALED);
	FINDS(reap(IBV_WC_SEND));
}

static void what_may_change(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, 0, IBV_SEND_SIGNALED);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_RDMA_READ, 0, LEN, IBV_SEND_SIGNALED);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_RDMA_READ));
}

/* --- the NIC has written there ------------------------------------------------- */

static void a_receive_fills_it(void **state)
{
	(void)state;
	post_recv(LEN - 1, LEN);
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[LEN - 1]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND)); /* it is outstanding */
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[LEN - 1]++;
	reap(IBV_WC_RECV);
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND)); /* it was until now */
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[LEN - 1]++;
	FINDS(reap(IBV_WC_SEND));
}

static void an_answer_fills_it(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	post(IBV_WR_RDMA_READ, 0, LEN, 0);
	at[0]++;
	fix_reap(id - 1, IBV_WC_SEND, IBV_WC_SUCCESS);
	post(IBV_WR_SEND, LEN, LEN, IBV_SEND_SIGNALED);
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
}

static void a_peer_writes_there(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	checks->wrote(at + 7, 1, false);
	at[7]++;
	checks->wrote(at + 7, 1, true);
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[7]++;
	checks->wrote(at + LEN, 1, false);
	checks->wrote(at + LEN, 1, true);
	FINDS(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	checks->wrote(at + 7, 1, false);
	at[7]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND)); /* is writing there */
	checks->wrote(at + 7, 1, true);
}

/* --- something comes in ----------------------------------------------------------- */

/* Who has spoken may have got the message: its buffer is free. */
static void after_a_message(void **state)
{
	(void)state;
	post_recv(4096, LEN);
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	reap(IBV_WC_RECV);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	checks->wrote(at + 4096, 1, false);
	checks->wrote(at + 4096, 1, true);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
}

/* But it was not free before. */
static void before_a_message(void **state)
{
	(void)state;
	post_recv(4096, LEN);
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[0]++;
	reap(IBV_WC_RECV);
	FINDS(reap(IBV_WC_SEND));
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[0]++;
	checks->wrote(at + 4096, 1, false);
	checks->wrote(at + 4096, 1, true);
	FINDS(reap(IBV_WC_SEND));
}

/* --- nothing can be said ---------------------------------------------------------- */

static void failed_requests(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[0]++;
	FIX_FINDS_NOTHING(fix_reap(id, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR));
	fix_qp()->failed = false;
}

static void memory_is_gone(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	mr.mkey.host += LEN; /* registered anew */
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	mr.mkey.host -= LEN;
	mr.mkey.key++; /* another key */
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	at[0]++;
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
	mr.mkey.key--;
	post(IBV_WR_SEND, 0, LEN, IBV_SEND_SIGNALED);
	guard_arm(); /* in front of cmocka's handler */
	assert_int_equal(munmap(at, MEMORY), 0);
	FIX_FINDS_NOTHING(reap(IBV_WC_SEND));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_byte_of_it),
		cmocka_unit_test(of_a_long_one_pieces),
		cmocka_unit_test(of_those_without_a_completion),
		cmocka_unit_test(what_may_change),
		cmocka_unit_test(a_receive_fills_it),
		cmocka_unit_test(an_answer_fills_it),
		cmocka_unit_test(a_peer_writes_there),
		cmocka_unit_test(after_a_message),
		cmocka_unit_test(before_a_message),
		cmocka_unit_test(failed_requests),
		cmocka_unit_test(memory_is_gone), /* the last */
	};

	fix_open("buffer-changed");
	at = pages(MEMORY / PAGE, PROT_READ | PROT_WRITE);
	mr.mkey = (struct mkey){
		.key = KEY, .base = (uintptr_t)at, .length = MEMORY, .host = at
	};
	object_made(&mr.live, LIVE_MR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
