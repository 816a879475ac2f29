/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder of an RC QP takes, refuses, and owes. */
#include <sys/mman.h>

#include "local/fix.h"

enum { LOOK = 64 };

/* --- requests that are refused ------------------------------------------- */

struct refused_row {
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
	int event;
};

static void must_be_refused(struct fix *f, const struct refused_row *r)
{
	fix_post(f, r->opcode, 1, 0, 8, 0);
	fix_wc(f, 0, 1, r->status);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	fix_quiet(f);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	pair_event(f, 1, r->event);
}

static void the_qp_must_allow_it(void **state)
{
	/* clang-format off */
	static const struct { struct refused_row r; unsigned needs; } row[] = {
		{ { IBV_WR_RDMA_WRITE, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		  IBV_ACCESS_REMOTE_WRITE },
		{ { IBV_WR_RDMA_READ, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		  IBV_ACCESS_REMOTE_READ },
		{ { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_INV_REQ_ERR,
		    IBV_EVENT_QP_REQ_ERR }, IBV_ACCESS_REMOTE_ATOMIC },
		{ { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_INV_REQ_ERR,
		    IBV_EVENT_QP_REQ_ERR }, IBV_ACCESS_REMOTE_ATOMIC },
	};
	/* clang-format on */

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		f->p.qp[1]->attr.qp_access_flags &= ~row[i].needs;
		must_be_refused(f, &row[i].r);
		fix_close(f);
	}
}

static void the_region_must_allow_it(void **state)
{
	static const struct {
		struct refused_row r;
		int needs;
	} row[] = {
		{ { IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		  IBV_ACCESS_REMOTE_WRITE },
		{ { IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		  IBV_ACCESS_REMOTE_READ },
		{ { IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_ACCESS_ERR,
		    IBV_EVENT_QP_ACCESS_ERR },
		  IBV_ACCESS_REMOTE_ATOMIC },
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		f->mr[1]->mkey.access &= ~row[i].needs;
		must_be_refused(f, &row[i].r);
		fix_close(f);
		f = pair_open(IBV_QPT_RC, NULL);
		f->mr[1]->mkey.length = 7;
		must_be_refused(f, &row[i].r);
		fix_close(f);
		f = pair_open(IBV_QPT_RC, NULL);
		f->mr[1]->mkey.pd = f->s->node[0].pd;
		must_be_refused(f, &row[i].r);
		f->mr[1]->mkey.pd = f->s->node[1].pd;
		fix_close(f);
	}
}

static void memory_that_is_gone(void **state)
{
	static const struct refused_row row[] = {
		{ IBV_WR_RDMA_WRITE, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_ACCESS_ERR },
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		assert_int_equal(mprotect(f->mem[1], FIX_MEM, PROT_NONE), 0);
		fix_post(f, row[i].opcode, 1, 0, 8, 0);
		fix_wc(f, 0, 1, row[i].status);
		fix_quiet(f);
		pair_event(f, 1, row[i].event);
		assert_int_equal(mprotect(f->mem[1], FIX_MEM, PROT_READ | PROT_WRITE), 0);
		fix_close(f);
	}
}

static void atomics_are_aligned(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 4, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
	f = pair_open(IBV_QPT_RC, NULL); /* an iova that hides it */
	f->mr[1]->mkey.host += 4;
	f->mr[1]->mkey.length -= 8;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
	f = pair_open(IBV_QPT_RC, NULL); /* ... or that hides that it is */
	f->mr[1]->mkey.host += 4;
	f->mr[1]->mkey.length -= 8;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 4, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

/* Those that were taken are answered first. */
static void more_reads_than_max_dest_rd_atomic(void **state)
{
	static const enum ibv_wr_opcode too_many[] = {
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct sim_conf c = { .pipe_only = true, .rd_atomic = 2 };
		struct fix *f = pair_open(IBV_QPT_RC, &c);
		uint64_t before;

		memcpy(&before, f->mem[1] + 80, 8);
		f->p.qp[0]->attr.max_rd_atomic = 16;
		pair_stop(f, 1);
		fix_post(f, IBV_WR_RDMA_READ, 1, 0, 8, 0);
		fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 8, 0);
		fix_post(f, too_many[i], 3, 80, 8, 0);
		fix_post(f, IBV_WR_RDMA_WRITE, 4, 80, 8, 0);
		pair_run(f, 1000);
		pair_go(f, 1);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_wc(f, 0, 3, IBV_WC_REM_INV_REQ_ERR);
		fix_wc(f, 0, 4, IBV_WC_WR_FLUSH_ERR);
		pair_event(f, 1, IBV_EVENT_QP_REQ_ERR);
		assert_memory_equal(&before, f->mem[1] + 80, 8);
		fix_close(f);
	}
}

static void longer_than_the_receive(void **state)
{
	static const uint32_t len[] = { 101, 20000 }; /* the second is too much */

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 0, len[i] - 1);
		fix_recv(f, 9, 0, 1000);
		fix_post(f, IBV_WR_SEND, 1, 0, len[i], 0);
		fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_LOC_LEN_ERR).vendor_err,
				 VERR_LOCAL_LENGTH);
		fix_wc(f, 1, 9, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(sim_event(f->s, 1), -1);
		fix_close(f);
	}
}

static void a_receive_with_a_bad_key(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge sge = sim_sge(f->mr[1], 0, 100);

	(void)state;
	sge.lkey ^= 0x100;
	sim_recv(f->p.qp[1], 8, &sge, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_OP_ERR);
	fix_wc(f, 1, 8, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

/* What no urnic writes, but anybody may. */
/* clang-format off */
static const struct { struct rec r[2]; uint32_t len[2]; bool recv; } broken[] = {
	{ { { .op = REC_SEND, .flags = REC_LAST } }, { 8 }, true },
	{ { { .op = REC_WRITE, .flags = REC_LAST } }, { 8 }, false },
	{ { { .op = REC_SEND, .flags = REC_FIRST },
	    { .op = REC_SEND, .flags = REC_FIRST, .psn = 1 } }, { 1024, 8 }, true },
	{ { { .op = REC_SEND, .flags = REC_FIRST },
	    { .op = REC_READ, .flags = REC_FIRST | REC_LAST, .psn = 1 } },
	  { 1024, 0 }, true },
	{ { { .op = REC_SEND, .flags = REC_FIRST },
	    { .op = REC_WRITE, .flags = REC_LAST, .psn = 1 } }, { 1024, 8 }, true },
	{ { { .op = REC_SEND, .flags = REC_FIRST } }, { 1000 }, true },
	{ { { .op = REC_SEND, .flags = REC_FIRST } }, { 0 }, true },
	{ { { .op = REC_READ, .flags = REC_FIRST | REC_LAST, .len = 8 } }, { 8 }, false },
	{ { { .op = REC_READ, .flags = REC_FIRST, .len = 8 } }, { 0 }, false },
	{ { { .op = REC_READ, .flags = REC_FIRST | REC_LAST, .len = 0x80000001 } },
	  { 0 }, false },
	{ { { .op = REC_CMP_SWAP, .flags = REC_FIRST } }, { 0 }, false },
	{ { { .op = REC_FETCH_ADD, .flags = REC_FIRST | REC_LAST } }, { 8 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_LAST, .len = 8 } }, { 9 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_LAST, .len = 8 } }, { 7 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST, .len = 1024 } }, { 1024 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST, .len = 1025 },
	    { .op = REC_WRITE, .flags = REC_LAST, .psn = 1 } }, { 1024, 2 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_LAST, .len = 0x80000001 } },
	  { 8 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_LAST | REC_EMPTY, .len = 8 } },
	  { 8 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_EMPTY, .len = 8 } },
	  { 0 }, false },
	{ { { .op = REC_WRITE, .flags = REC_FIRST | REC_LAST | REC_EMPTY | REC_IMM,
	      .len = 0x80000001 } }, { 0 }, true },
};
/* clang-format on */

static void broken_messages(void **state)
{
	static const uint8_t data[1024];
	struct rec rec[LOOK];

	(void)state;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);
		struct rec r[2] = { broken[i].r[0], broken[i].r[1] };
		unsigned n;

		pair_stop(f, 0);
		fix_recv(f, 8, 10000, 3000);
		for (int j = 0; j < 2 && r[j].op; j++) {
			r[j].va = f->mr[1]->mkey.base;
			r[j].rkey = f->mr[1]->mkey.key;
			pair_write(f, 0, &r[j], data, broken[i].len[j]);
		}
		pair_run(f, 1000);
		n = pair_look(f, 1, rec, LOOK);
		if (n == 0 || rec[n - 1].op != REC_NAK || rec[n - 1].code != REC_INVALID)
			print_error("row %zu\n", i);
		assert_true(n > 0);
		assert_int_equal(rec[n - 1].op, REC_NAK);
		assert_int_equal(rec[n - 1].code, REC_INVALID);
		assert_int_equal(rec[n - 1].psn, r[1].op ? 1 : 0);
		assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
		fix_close(f);
	}
}

/* It says that it has written itself: only where it might have. */
static void data_that_came_otherwise_needs_its_rights_too(void **state)
{
	struct rec r = {
		.op = REC_WRITE,
		.len = 100,
		.flags = REC_FIRST | REC_LAST | REC_IMM | REC_EMPTY,
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 10000, 100);
		r.va = f->mr[1]->mkey.base;
		r.rkey = f->mr[1]->mkey.key ^ (i == 1 ? 0x100 : 0);
		if (i == 2)
			f->p.qp[1]->attr.qp_access_flags = 0;
		pair_write(f, 0, &r, NULL, 0);
		if (i == 0)
			assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
		else
			fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
		fix_close(f);
	}
}

/* --- a READ that fails in its middle ------------------------------------- */

static void region_gone_under_a_read(void **state)
{
	enum { LEN = 600000 }; /* the ring holds a part */
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, LEN, 0);
	pair_run(f, 1);
	pair_stop(f, 0);
	pair_run(f, 1000);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	fix_quiet(f);
	pair_event(f, 1, IBV_EVENT_QP_ACCESS_ERR);
	fix_same(f, 0, 16384); /* what had come */
	fix_close(f);
}

static void memory_gone_under_a_read(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 600000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 8, 0);
	pair_run(f, 1);
	pair_stop(f, 0);
	pair_run(f, 1000);
	assert_int_equal(mprotect(f->mem[1], FIX_MEM, PROT_NONE), 0);
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_OP_ERR);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(mprotect(f->mem[1], FIX_MEM, PROT_READ | PROT_WRITE), 0);
	fix_close(f);
}

/* --- what a program is told ---------------------------------------------- */

static void only_what_is_solicited_wakes(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_SEND,
						 IBV_WR_RDMA_WRITE_WITH_IMM };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 0, 20000);
		fix_recv(f, 9, 0, 20000);
		cq_arm(f->p.cq[1], true);
		fix_post(f, op[i], 1, 0, 20000, 0);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		assert_int_equal(f->p.cq[1]->armed, CQ_SOLICITED);
		fix_post(f, op[i], 2, 0, 20000, IBV_SEND_SOLICITED);
		fix_wc(f, 1, 9, IBV_WC_SUCCESS);
		assert_int_equal(f->p.cq[1]->armed, CQ_IDLE);
		fix_close(f);
	}
}

static void the_first_request_in_rtr_is_told(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.qp[1]->state = IBV_QPS_RTR;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	pair_event(f, 1, IBV_EVENT_COMM_EST);
	f->p.qp[1]->state = IBV_QPS_RTS;
	fix_close(f);
}

static void immediate_and_length(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 8; i < 12; i++)
		fix_recv(f, i, 50000, 20000);
	fix_post(f, IBV_WR_SEND_WITH_IMM, 1, 0, 20000, 0);
	wc = fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_int_equal(wc.byte_len, 20000);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.src_qp, f->p.qp[0]->qpn);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 40000, 0);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 40000);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x12345678);
	fix_post(f, IBV_WR_SEND, 3, 0, 0, 0);
	wc = fix_wc(f, 1, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(wc.imm_data, 0);
	assert_int_equal(wc.byte_len, 0);
	fix_close(f);
}

/* A batch of requests, one ACK. */
static void one_ack_for_all(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct rec rec[LOOK];

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 20; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(pair_look(f, 1, rec, LOOK), 1);
	assert_int_equal(rec[0].op, REC_ACK);
	assert_int_equal(rec[0].psn, 20);
	fix_close(f);
}

/* Who receives an answer may rely on its own SEND being complete. */
static void the_ack_goes_before_the_answer(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct rec rec[LOOK];

	(void)state;
	fix_recv(f, 8, 0, 8);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	pair_run(f, 1000);
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(pair_look(f, 1, rec, LOOK), 2);
	assert_int_equal(rec[0].op, REC_ACK);
	assert_int_equal(rec[1].op, REC_SEND);
	fix_close(f);
}

static void overrun_of_the_receives(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	f->p.cq[1]->overrun = true;
	fix_recv(f, 8, 0, 8);
	fix_post(f, IBV_WR_SEND, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_qp_must_allow_it),
		cmocka_unit_test(the_region_must_allow_it),
		cmocka_unit_test(memory_that_is_gone),
		cmocka_unit_test(atomics_are_aligned),
		cmocka_unit_test(more_reads_than_max_dest_rd_atomic),
		cmocka_unit_test(longer_than_the_receive),
		cmocka_unit_test(a_receive_with_a_bad_key),
		cmocka_unit_test(broken_messages),
		cmocka_unit_test(data_that_came_otherwise_needs_its_rights_too),
		cmocka_unit_test(region_gone_under_a_read),
		cmocka_unit_test(memory_gone_under_a_read),
		cmocka_unit_test(only_what_is_solicited_wakes),
		cmocka_unit_test(the_first_request_in_rtr_is_told),
		cmocka_unit_test(immediate_and_length),
		cmocka_unit_test(one_ack_for_all),
		cmocka_unit_test(the_ack_goes_before_the_answer),
		cmocka_unit_test(overrun_of_the_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
