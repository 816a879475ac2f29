/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's memory, reached directly: the same bytes and the same order as by
 * records. */
#include "direct/vm_fix.h"

static void the_same_bytes_either_way(void **state)
{
	static const uint32_t len[] = {
		0, 1, 63, 64, 65, 1024, 1025, 4097, 16384, 262143, 262144, 262145, 700001,
	};
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
	};

	(void)state;
	for (unsigned way = 0; way < 2; way++)
		for (size_t i = 0; i < 3 * sizeof(len) / sizeof(len[0]); i++) {
			const struct sim_conf c = { .pipe_only = way };
			struct fix *f = pair_open(IBV_QPT_RC, &c);
			uint32_t n = len[i / 3], slots = written(f, &slots);
			uint8_t end[2] = { f->mem[0][7 + n], f->mem[1][7 + n] };

			fix_recv(f, 8, 0, 0);
			fix_post(f, op[i % 3], 1, 7, n, 0);
			fix_wc(f, 0, 1, IBV_WC_SUCCESS);
			fix_same(f, 7, n);
			assert_int_equal(f->mem[0][7 + n], end[0]);
			assert_int_equal(f->mem[1][7 + n], end[1]);
			if (op[i % 3] == IBV_WR_RDMA_WRITE_WITH_IMM)
				assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len,
						 n);
			fix_close(f);
		}
}

static void the_peer_takes_no_part(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 700000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_post(f, IBV_WR_RDMA_READ, 2, 700000, 300000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 0, 1000000);
	assert_int_equal(written(f, &slots), 0);
	fix_close(f);
}

/* Data of one segment is not written ahead of its immediate, as on a wire. */
static void data_and_immediate_of_one_segment_come_together(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t before = f->mem[1][0];

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1024, 0);
	pair_run(f, 10 * MS);
	assert_int_equal(f->mem[1][0], before);
	fix_recv(f, 8, 0, 0);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_same(f, 0, 1024);
	fix_close(f);
}

/* A WRITE with immediate gets an RNR NAK: only its last segment is sent again, since the
 * data of the others has arrived. */
static void an_immediate_waits_for_its_receive(void **state)
{
	for (unsigned way = 0; way < 2; way++) {
		const struct sim_conf c = { .pipe_only = way };
		struct fix *f = pair_open(IBV_QPT_RC, &c);

		(void)state;
		fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 50000, 0);
		fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 60000, 20, 0);
		pair_run(f, 5 * MS);
		fix_no_wc(f, 0);
		fix_recv(f, 8, 0, 0);
		fix_recv(f, 9, 0, 0);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 50000);
		assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 20);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_same(f, 0, 50000);
		fix_same(f, 60000, 20);
		fix_close(f);
	}
}

static void nothing_is_overtaken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t before = f->mem[1][5000];

	(void)state;
	fix_recv(f, 8, 0, 100);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 5000, 8000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 5000, 100, 0);
	pair_run(f, 1 * MS);
	assert_int_equal(f->mem[1][5000], before);
	fix_no_wc(f, 0);
	pair_go(f, 1);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 5000, 8000);
	fix_close(f);
}

/* A stream of blocks and messages, as a storage target sends it: no block waits for the
 * ACK of the message before it, and each block is there before the message behind it. */
static void blocks_and_messages_wait_for_nobody(void **state)
{
	enum { BLOCK = 16384, N = 5, LAST = N * BLOCK - 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;
	uint8_t before = f->mem[1][BLOCK];

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_recv(f, 100 + i, 500000 + 64 * i, 64);
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, 2 * i, i * BLOCK, BLOCK, 0);
		fix_post(f, IBV_WR_SEND, 2 * i + 1, 600000, 16, 0);
	}
	pair_run(f, 1000);
	assert_in_range(written(f, &slots), N * BLOCK / SLOT, RING_SLOTS);
	assert_int_equal(f->mem[1][BLOCK], before);
	assert_int_equal(pair_cursor(f, 0)->cur, f->p.qp[0]->sq.head);
	pair_go(f, 1);
	for (unsigned i = 0; i < N; i++)
		fix_wc(f, 1, 100 + i, IBV_WC_SUCCESS);
	fix_same(f, 0, N * BLOCK);
	for (unsigned i = 0; i < 2 * N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A READ that the peer has not executed yet. */
static void a_pending_read_is_not_overtaken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t was[8000];

	(void)state;
	memcpy(was, f->mem[1] + 5000, sizeof(was));
	fix_recv(f, 8, 0, 100);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 5000, 8000, 0);
	pair_run(f, 1000);
	memset(f->mem[0] + 5000, 0x5a, 8000);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 5000, 8000, 0);
	pair_run(f, 1000);
	assert_memory_equal(f->mem[1] + 5000, was, sizeof(was));
	pair_go(f, 1);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* If more READs may be outstanding than the peer's max_dest_rd_atomic, READs go by
 * records, and the peer counts them. */
static void too_many_reads_go_by_records(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;

	(void)state;
	f->p.qp[0]->attr.max_rd_atomic = 17;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 5000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(written(f, &slots), 1);
	fix_same(f, 0, 5000);
	fix_close(f);
}

/* Nothing tells when a record of UC has been executed, so no WRITE of UC is done
 * directly. */
static void uc_goes_by_records(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, &direct);

	(void)state;
	fix_recv(f, 8, 0, 0);
	pair_stop(f, 1);
	memset(f->mem[0], 1, 1000);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	memset(f->mem[0], 2, 1000);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 1000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	pair_go(f, 1);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_same(f, 0, 1000);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_either_way),
		cmocka_unit_test(the_peer_takes_no_part),
		cmocka_unit_test(data_and_immediate_of_one_segment_come_together),
		cmocka_unit_test(an_immediate_waits_for_its_receive),
		cmocka_unit_test(nothing_is_overtaken),
		cmocka_unit_test(blocks_and_messages_wait_for_nobody),
		cmocka_unit_test(a_pending_read_is_not_overtaken),
		cmocka_unit_test(too_many_reads_go_by_records),
		cmocka_unit_test(uc_goes_by_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
