/* SPDX-License-Identifier: BSD-2-Clause */
/* WRITEs: what they do to memory, what is refused, and their immediate data. */
#include "shm/fix.h"

static void writes_of_any_length(void **state)
{
	const uint32_t len[] = { 0, 1, 8, 4096, 16384, 16385, 32768, 300001 };
	struct fix *f = plain_pair();

	(void)state;
	for (unsigned i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (int side = 0; side < 2; side++) {
			memset(f->mem[!side] + FIX_MEM / 2, 0, FIX_MEM / 2);
			post_to(f, side, IBV_WR_RDMA_WRITE, i, 100 * i, FIX_MEM / 2,
				len[i], 0);
			assert_int_equal(fix_wc(f, side, i, IBV_WC_SUCCESS).opcode,
					 IBV_WC_RDMA_WRITE);
			assert_memory_equal(f->mem[!side] + FIX_MEM / 2,
					    f->mem[side] + 100 * i, len[i]);
			assert_int_equal(f->mem[!side][FIX_MEM / 2 + len[i]], 0);
			fix_no_wc(f, !side);
		}
	fix_close(f);
}

/* Two pieces, and inline. */
static void lists_of_sges(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	write_pieces(f);
	fix_close(f);
}

/* The receive comes before, soon after, or late; the WRITE has one segment or three. */
static void immediate_data(void **state)
{
	const uint32_t len[] = { 0, 100, 40000 };
	const uint64_t late[] = { 0, MS, 10 * MS };

	(void)state;
	for (int l = 0; l < 3; l++)
		for (int w = 0; w < 3; w++) {
			struct fix *f = plain_pair();
			struct ibv_wc wc;

			if (!late[w])
				recv_at(f, 1, 7, 0, 8);
			post_to(f, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 50000, len[l],
				0x11223344);
			post_to(f, 0, IBV_WR_RDMA_WRITE, 2, 0, 200000, 8, 0);
			if (late[w]) {
				pair_run(f, late[w]);
				fix_no_wc(f, 0);
				recv_at(f, 1, 7, 0, 8);
			}
			wc = fix_wc(f, 1, 7, IBV_WC_SUCCESS);
			assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			assert_int_equal(wc.byte_len, len[l]);
			assert_int_equal(wc.imm_data, 0x11223344);
			assert_memory_equal(f->mem[1] + 50000, f->mem[0], len[l]);
			fix_wc(f, 0, 1, IBV_WC_SUCCESS);
			fix_wc(f, 0, 2, IBV_WC_SUCCESS);
			assert_memory_equal(f->mem[1] + 200000, f->mem[0], 8);
			fix_close(f);
		}
}

/* Of a WRITE with immediate data the receive tells of that, if it would be one packet on
 * a wire: a segment holds more. */
static void a_key_that_is_refused(void **state)
{
	for (unsigned i = 0; i < 8; i++) {
		struct fix *f = plain_pair();
		const uint32_t mtu = f->p.qp[1]->path.mtu;
		const uint32_t len[] = { 8, mtu, mtu + 1, 40000 };
		const bool imm = i % 2;

		(void)state;
		assert_true(mtu < RING_CHUNK);
		recv_at(f, 1, 1, 0, 8);
		recv_at(f, 1, 2, 0, 8);
		post_at(f, 0, 1, 0, 8, 0);
		f->mr[1]->mkey.key ^= 1;
		post_to(f, 0, imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, 2, 0,
			0, len[i / 2], 0);
		f->mr[1]->mkey.key ^= 1;
		post_at(f, 0, 3, 0, 8, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_REM_ACCESS_ERR);
		fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
		fix_wc(f, 1, 2,
		       imm && i / 2 < 2 ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
		pair_event(f, 1, IBV_EVENT_QP_ACCESS_ERR);
		fix_close(f);
	}
}

/* The region goes while a WRITE is half done: nothing is written behind it. */
static void a_region_that_goes(void **state)
{
	struct fix *f = plain_pair();
	struct qp *b = f->p.qp[1];

	(void)state;
	pair_stop(f, 1);
	post_to(f, 0, IBV_WR_RDMA_WRITE, 1, 0, 400000, 600000, 0);
	pair_run(f, MS);
	pair_go(f, 1);
	sim_step(f->s);
	assert_true(shm_qp(b)->dst.odd == DST_IN_WRITE);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	fix_close(f);
}

/* Segments that do not follow one another, or have another length. */
static void segments_out_of_place(void **state)
{
	const unsigned write = KIND_WRITE << SEGMENT_KIND_AT;
	const unsigned ops[][2] = {
		{ SEGMENT_LAST | write },
		{ SEGMENT_LAST },
		{ write },
		{ 0 },
		{ SEGMENT_FIRST | write }, /* longer than its length */
		{ SEGMENT_FIRST, SEGMENT_ONLY },
		{ SEGMENT_FIRST, SEGMENT_LAST | write },
		{ SEGMENT_FIRST, SEGMENT_FIRST },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct fix *f = plain_pair();
		struct shm_qp *b = shm_qp(f->p.qp[1]);

		recv_at(f, 1, 1, 0, 8);
		stray(f, 0, ops[i][0], b->dst.expected);
		if (ops[i][0] == SEGMENT_FIRST)
			stray(f, 0, ops[i][1], psn_add(b->dst.expected, 1));
		fix_wc(f, 1, 1,
		       ops[i][0] == SEGMENT_FIRST ? IBV_WC_REM_INV_REQ_ERR
						  : IBV_WC_WR_FLUSH_ERR);
		pair_event(f, 1, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

/* The driver is told of input that the program need not poll for. */
static void input_that_nobody_polls_for(void **state)
{
	struct fix *f = plain_pair();
	struct peers *l = peers_of(&f->s->node[1].core);

	(void)state;
	pair_stop(f, 1);
	for (int writes = 0; writes < 2; writes++) {
		recv_at(f, 1, 1, 0, 8);
		if (writes)
			post_to(f, 0, IBV_WR_RDMA_WRITE, 2, 0, 0, 8, 0);
		else
			post_at(f, 0, 1, 0, 8, 0);
		turn_take(&l->core->turn);
		assert_int_equal(peers_input(l, f->s->now).one_sided, writes);
		turn_give(&l->core->turn);
	}
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_of_any_length),
		cmocka_unit_test(lists_of_sges),
		cmocka_unit_test(immediate_data),
		cmocka_unit_test(a_key_that_is_refused),
		cmocka_unit_test(a_region_that_goes),
		cmocka_unit_test(segments_out_of_place),
		cmocka_unit_test(input_that_nobody_polls_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
