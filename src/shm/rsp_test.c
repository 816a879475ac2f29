/* SPDX-License-Identifier: BSD-2-Clause */
/* What the responder of an RC QP accepts, refuses and answers. */
#include <sys/mman.h>

#include "shm/fix.h"

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
	f = pair_open(IBV_QPT_RC, NULL); /* an iova that hides the misalignment */
	f->mr[1]->mkey.host += 4;
	f->mr[1]->mkey.length -= 8;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
	f = pair_open(IBV_QPT_RC, NULL); /* an iova that looks misaligned */
	f->mr[1]->mkey.host += 4;
	f->mr[1]->mkey.length -= 8;
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 4, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

/* The accepted READs are answered first. */
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
	static const uint32_t len[] = { 101, 20000 }; /* the second is too long */

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

/* --- a READ that fails in its middle ------------------------------------- */

static void region_gone_under_a_read(void **state)
{
	enum { LEN = 600000 }; /* the ring holds only a part */
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
	fix_same(f, 0, 16384); /* the part that had come */
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
		cmocka_unit_test(region_gone_under_a_read),
		cmocka_unit_test(memory_gone_under_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
