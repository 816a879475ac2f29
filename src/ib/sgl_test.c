/* SPDX-License-Identifier: BSD-2-Clause */
/* SGE lists, cut anywhere. */
#include "ib/fix.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys/guard.h"

static void pieces(void **state)
{
	uint8_t m[30];
	const struct span s = { .n = 3,
				.v = { { m, 10 }, { m + 10, 5 }, { m + 15, 15 } } };
	struct iovec iov[4];

	(void)state;
	assert_int_equal(span_iov(&s, 0, 0, iov), 0);
	assert_int_equal(span_iov(&s, 0, 10, iov), 1);
	assert_int_equal(span_iov(&s, 9, 7, iov), 3);
	assert_ptr_equal(iov[0].iov_base, m + 9);
	assert_int_equal(iov[0].iov_len, 1);
	assert_int_equal(iov[1].iov_len, 5);
	assert_ptr_equal(iov[2].iov_base, m + 15);
	assert_int_equal(iov[2].iov_len, 1);
	assert_int_equal(span_iov(&s, 15, 15, iov), 1);
	assert_ptr_equal(iov[0].iov_base, m + 15);
	assert_int_equal(span_iov(&s, 29, 1, iov), 1);
}

static void inline_data_is_cut(void **state)
{
	uint8_t m[30], to[6] = { 0 };
	const struct span s = { .n = 1, .v = { { m, sizeof(m) } }, .ours = true };

	(void)state;
	for (uint8_t i = 0; i < sizeof(m); i++)
		m[i] = (uint8_t)(i + 1);
	assert_int_equal(span_copy(to, &s, 7, 5), 0);
	assert_memory_equal(to, m + 7, 5);
	assert_int_equal(to[5], 0);
}

/* Every cut of a message gathers and scatters to the same bytes. */
static void every_cut(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct qp *qp = f->p.qp[0];
	/* clang-format off */
	struct ibv_sge sge[5] = {
		sim_sge(f->mr[0], 0, 7), sim_sge(f->mr[0], 100, 0),
		sim_sge(f->mr[0], 200, 1), sim_sge(f->mr[0], 300, 20),
		sim_sge(f->mr[0], 400, 4),
	};
	/* clang-format on */
	uint8_t want[32], got[32];

	(void)state;
	for (unsigned i = 0; i < 32; i++)
		want[i] = (uint8_t)(i + 1);
	for (unsigned a = 0; a <= 32; a++) {
		memset(f->mem[0], 0, 1000);
		assert_int_equal(scatter(qp, qp->pd, sge, 5, 0, want, a), 0);
		assert_int_equal(scatter(qp, qp->pd, sge, 5, a, want + a, 32 - a), 0);
		memcpy(got, f->mem[0], 7);
		memcpy(got + 7, f->mem[0] + 200, 1);
		memcpy(got + 8, f->mem[0] + 300, 20);
		memcpy(got + 28, f->mem[0] + 400, 4);
		assert_memory_equal(got, want, 32);
		assert_int_equal(f->mem[0][100] | f->mem[0][7] | f->mem[0][404], 0);
	}
	fix_close(f);
}

static void refusals(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct qp *qp = f->p.qp[0];
	struct ibv_sge sge[2] = { sim_sge(f->mr[0], 0, 4),
				  sim_sge(f->mr[0], FIX_MEM - 4, 8) };
	struct mr *ro = sim_mr(f->s, 0, f->mem[0], 100, 0);
	uint8_t data[12] = { 0 };

	(void)state;
	assert_int_equal(scatter(qp, qp->pd, sge, 2, 0, data, 12), -EACCES);
	assert_int_equal(scatter(qp, qp->pd, sge, 2, 0, data, 8), 0);
	sge[0].lkey = ro->mkey.key;
	assert_int_equal(scatter(qp, qp->pd, sge, 1, 0, data, 1), -EACCES);
	assert_int_equal(scatter(qp, qp->pd, sge, 1, 0, data, 0), 0);
	assert_int_equal(mr_dereg(ro), 0);
	fix_close(f);
}

static void memory_that_is_gone(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct qp *qp = f->p.qp[0];
	void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct mr *mr = sim_mr(f->s, 0, at, 8192, FIX_ALL);
	struct ibv_sge sge = sim_sge(mr, 0, 8192);
	struct ibv_send_wr wr = {
		.wr_id = 7, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1
	};
	uint8_t data[100] = { 0 };

	(void)state;
	guard_arm();
	assert_int_equal(munmap((uint8_t *)at + 4096, 4096), 0);
	assert_int_equal(scatter(qp, qp->pd, &sge, 1, 4090, data, 6), 0);
	assert_int_equal(scatter(qp, qp->pd, &sge, 1, 4090, data, 7), -EFAULT);
	/* A fault of the memory sent from, both in place (a full packet) and by copy (the
	 * short last one), is an error of the work request; the packets before it are
	 * whole. */
	wr.wr.rdma.remote_addr = f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = f->mr[1]->mkey.key;
	sim_send(qp, &wr);
	assert_int_equal(fix_wc(f, 0, 7, IBV_WC_LOC_PROT_ERR).vendor_err,
			 VERR_LOCAL_FAULT);
	fix_quiet(f);
	assert_int_equal(fix_count(f, 0, NULL), 4);
	assert_memory_equal(f->mem[1], at, 4096);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(at, 4096);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces),
		cmocka_unit_test(inline_data_is_cut),
		cmocka_unit_test(every_cut),
		cmocka_unit_test(refusals),
		cmocka_unit_test(memory_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
