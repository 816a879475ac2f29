/* SPDX-License-Identifier: BSD-2-Clause */
/* Long WRITEs and READs of memory that both processes have mapped: the engine copies
 * them there, and does not ask the kernel. */
#include "core/exports.h"
#include "direct/shared_fix.h"

enum { LONG_ONE = 300001 };

static struct reach *reach(const struct shared *s)
{
	return &pair_peer(s->f, 0)->reach;
}

/* The peer's nonce is set to an address where nothing is mapped, so that every copy by
 * the kernel would fail. */
static struct shared mapped_alone(void)
{
	struct shared s = mapped(FIX_ALL);

	reach(&s)->nonce.at = 8;
	return s;
}

/* No system call was tried, and the posting thread did nothing. */
static void went_by_the_mapping(const struct shared *s, uint64_t at_once)
{
	assert_true(reach(s)->vm);
	assert_int_equal(times(s), at_once);
	assert_int_equal(atomic_load(&map_of(s)->bad), false);
}

static void the_same_bytes(void **state)
{
	struct shared s = mapped_alone();
	uint8_t *mine = s.f->mem[0];
	uint64_t at_once = times(&s);

	(void)state;
	memset(s.at, 0xee, LEN);
	post(&s, IBV_WR_RDMA_WRITE, 1, 3, 7, LONG_ONE);
	done(&s, 1);
	assert_memory_equal(s.at + 7, mine + 3, LONG_ONE);
	assert_int_equal(s.at[6], 0xee);
	assert_int_equal(s.at[7 + LONG_ONE], 0xee);
	post(&s, IBV_WR_RDMA_READ, 2, 100, 6, LONG_ONE + 2);
	done(&s, 2);
	assert_memory_equal(s.at + 6, mine + 100, LONG_ONE + 2);
	went_by_the_mapping(&s, at_once);
	unshare_(&s);
}

/* One copy takes bytes of several SGEs. */
static void several_sges(void **state)
{
	struct shared s = mapped_alone();
	struct ibv_sge sge[] = { sim_sge(s.f->mr[0], 5, 70001),
				 sim_sge(s.f->mr[0], 200000, 1),
				 sim_sge(s.f->mr[0], 100000, 80000) };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = sge,
				  .num_sge = 3,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { s.mr->mkey.base, s.mr->mkey.key } };
	uint64_t at_once = times(&s);

	(void)state;
	sim_send(s.f->p.qp[0], &wr);
	done(&s, 1);
	assert_memory_equal(s.at, s.f->mem[0] + 5, 70001);
	assert_int_equal(s.at[70001], s.f->mem[0][200000]);
	assert_memory_equal(s.at + 70002, s.f->mem[0] + 100000, 80000);
	went_by_the_mapping(&s, at_once);
	unshare_(&s);
}

/* A region is deregistered while its mapping exists: a WRITE does not go by the
 * mapping. */
static void a_region_that_has_gone(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t va = s.mr->mkey.base;
	uint32_t key = s.mr->mkey.key;
	struct ibv_sge sge = sim_sge(s.f->mr[0], 0, LONG_ONE);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { va, key } };

	(void)state;
	assert_int_equal(mr_dereg(s.mr), 0);
	s.mr = NULL;
	memset(s.at, 0xee, LEN);
	sim_send(s.f->p.qp[0], &wr);
	fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(s.at[i], 0xee);
	unshare_(&s);
}

/* The file is cut: the copy faults, and so does the peer, which executes the WRITE
 * next. */
static void a_file_that_was_cut(void **state)
{
	struct shared s = mapped(FIX_ALL);

	(void)state;
	assert_int_equal(ftruncate(s.fd, 100000), 0);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, LONG_ONE);
	fix_wc(s.f, 0, 1, IBV_WC_REM_OP_ERR);
	assert_memory_equal(s.at, s.f->mem[0], 65536);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes),
		cmocka_unit_test(several_sges),
		cmocka_unit_test(a_region_that_has_gone),
		cmocka_unit_test(a_file_that_was_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
