/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: no answers; a broken message is dropped as a whole. */
#include "ib/fix.h"

#include "sys/log_testing.h"

static void sends_and_writes(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 3000);
	sim_recv(f->p.qp[1], 9, NULL, 0);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 5000, 5000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 10000, 100, 0);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 3000);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 100);
	fix_same(f, 0, 3000);
	fix_same(f, 5000, 5000);
	fix_same(f, 10000, 100);
	fix_quiet(f);
	assert_int_equal(fix_count(f, 1, NULL), 0);
	assert_int_equal(fix_count(f, 0, NULL), 3 + 5 + 1);
	assert_int_equal(f->log[0].f.opcode,
			 ib_opcode(IB_UC, IB_SEND, IB_FIRST, IB_NONE));
	fix_close(f);
}

/* The receive of the broken message serves the next one. */
static void broken_message_is_dropped(void **state)
{
	static const char *const lost[] = { "SEND_FIRST", "SEND_MIDDLE", "SEND_LAST" };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = fix_open(IBV_QPT_UC, NULL);

		fix_lose(f, 0, lost[i], 1);
		fix_recv(f, 8, 0, 3000);
		fix_recv(f, 9, 3000, 3000);
		fix_post(f, IBV_WR_SEND, 1, 100000, 3000, 0);
		fix_post(f, IBV_WR_SEND, 2, 200000, 2500, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 2500);
		assert_memory_equal(f->mem[1], f->mem[0] + 200000, 2500);
		fix_quiet(f);
		fix_no_wc(f, 1);
		fix_close(f);
	}
}

static void no_receive_no_error(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UC_DROPPED), 3);
	fix_recv(f, 8, 0, 10);
	fix_post(f, IBV_WR_SEND, 2, 0, 3000, 0); /* longer than the receive */
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_post(f, IBV_WR_SEND, 3, 0, 10, 0);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_close(f);
}

static void a_flood_does_not_fill_the_log(void **state)
{
	enum { FLOOD = 100, FEW = 10 };
	struct fix *f = fix_open(IBV_QPT_UC, NULL);
	char text[FLOOD * 256];
	unsigned n = 0;

	(void)state;
	LOGGED(
		text, "info", for (unsigned i = 0; i < FLOOD; i++) {
			fix_post(f, IBV_WR_SEND, i, 0, 10, 0);
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
			fix_quiet(f);
		});
	for (const char *at = text; (at = strstr(at, "dropped")); at++)
		n++;
	assert_in_range(n, 1, FEW);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UC_DROPPED), FLOOD);
	fix_close(f);
}

static void receive_of_an_srq_ends_in_error(void **state)
{
	(void)state;
	fix_srq_receive_fails(IBV_QPT_UC,
			      (struct ib_fields){
				      .opcode =
					      ib_opcode(IB_UC, IB_SEND, IB_ONLY, IB_NONE),
			      },
			      10, 12);
}

/* The message must not go into the receive of the message before, either. */
static void no_receive_nothing_written(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 3000);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_post(f, IBV_WR_SEND, 2, 10000, 3000, 0);
	fix_quiet(f);
	fix_same(f, 0, 3000);
	fix_close(f);
}

static void wrong_rkey_is_silent(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);
	uint32_t key = f->mr[1]->mkey.key;
	uint8_t before = f->mem[1][0];

	(void)state;
	f->mr[1]->mkey.key ^= 0x100; /* the key that fix_post() uses */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	f->mr[1]->mkey.key = key;
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(f->mem[1][0], before);
	sim_inject(f->s, 0,
		   &(struct ib_fields){
			   /* longer than allowed */
			   .opcode = ib_opcode(IB_UC, IB_WRITE, IB_FIRST, IB_NONE),
			   .pkey = 0xffff,
			   .dest_qp = f->p.qp[1]->qpn,
			   .rkey = key,
			   .dma_len = 0x80000001,
			   .va = f->mr[1]->mkey.base,
		   },
		   f->mem[0] + 4096, 1024);
	fix_quiet(f);
	assert_int_equal(f->mem[1][0], before);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	fix_close(f);
}

/* A local error stops only the send queue; after RTS it goes on. */
static void sqe_and_back(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);
	struct ibv_sge sge = sim_sge(f->mr[0], FIX_MEM, 100);
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	fix_recv(f, 8, 0, 3000);
	fix_recv(f, 9, 0, 3000);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	sim_send(f->p.qp[0], &wr);
	fix_post(f, IBV_WR_SEND, 3, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_SQE);
	fix_modify(f, 0, IBV_QPS_RTS);
	fix_post(f, IBV_WR_SEND, 4, 0, 2000, 0);
	fix_wc(f, 0, 4, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 2000);
	fix_close(f);
}

static void taken_back_is_not_lost(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UC, NULL);

	(void)state;
	f->s->take_every = 2;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 500000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 500000, 500000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_same(f, 0, 1000000);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_and_writes),
		cmocka_unit_test(broken_message_is_dropped),
		cmocka_unit_test(no_receive_no_error),
		cmocka_unit_test(a_flood_does_not_fill_the_log),
		cmocka_unit_test(receive_of_an_srq_ends_in_error),
		cmocka_unit_test(no_receive_nothing_written),
		cmocka_unit_test(wrong_rkey_is_silent),
		cmocka_unit_test(sqe_and_back),
		cmocka_unit_test(taken_back_is_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
