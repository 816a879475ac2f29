/* SPDX-License-Identifier: BSD-2-Clause */
/* Long SENDs: any length, from and into any memory. */
#include <sys/mman.h>

#include "shm/fix.h"

enum { PAGE = 4096, LONG = 50000 };

static const struct sim_conf no_retry = { .timeout = 10, .retry_cnt = 0 };

static void arrives(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
	fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_same(f, at, len);
}

static void any_length(void **state)
{
	static const uint32_t len[] = {
		0, 1, 8191, 8192, 16384, 16385, 24575, 24576, 65536, 200001,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

		fix_recv(f, 1, 7, len[i]);
		fix_post(f, IBV_WR_SEND, 1, 7, len[i], 0);
		arrives(f, 1, 7, len[i]);
		fix_close(f);
	}
}

static void lists_of_sges(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct ibv_sge out[2] = { sim_sge(f->mr[0], 0, 40000),
				  sim_sge(f->mr[0], 40000, 60000) };
	struct ibv_sge in[3] = { sim_sge(f->mr[1], 0, 5), sim_sge(f->mr[1], 5, 30000),
				 sim_sge(f->mr[1], 30005, 70000) };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.sg_list = out,
		.num_sge = 2,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 99,
	};
	struct ibv_wc wc;

	(void)state;
	sim_recv(f->p.qp[1], 1, in, 3);
	sim_send(f->p.qp[0], &wr);
	wc = fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 100000);
	assert_int_equal(wc.imm_data, 99);
	fix_same(f, 0, 100000);
	fix_close(f);
}

static void a_receive_that_is_short(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	fix_recv(f, 1, 0, LONG - 1);
	fix_post(f, IBV_WR_SEND, 1, 0, LONG, 0);
	fix_wc(f, 1, 1, IBV_WC_LOC_LEN_ERR);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

/* The program has unmapped the page: its own fault, told to it alone. */
static void memory_that_is_unmapped(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	uint8_t *mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(f->s, 0, mem, 16 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = sim_sge(mr, 0, 16 * PAGE);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	fix_recv(f, 1, 0, 16 * PAGE);
	assert_int_equal(munmap(mem + 5 * PAGE, PAGE), 0);
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_LOC_PROT_ERR);
	fix_no_wc(f, 1);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(mem, 16 * PAGE);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_length),
		cmocka_unit_test(lists_of_sges),
		cmocka_unit_test(a_receive_that_is_short),
		cmocka_unit_test(memory_that_is_unmapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
