/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes back, from whoever may be there: the answer that a request waits
 * for moves it on, any other ends it or is nothing at all. */
#include "local/fix.h"

/* B runs no more: the test answers. */
static struct fix *asked(enum ibv_wr_opcode opcode, uint32_t len)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	pair_stop(f, 1);
	fix_post(f, opcode, 1, 0, len, 0);
	pair_run(f, 1000);
	return f;
}

static void must_end(struct fix *f, const struct rec *r, const void *payload,
		     uint32_t len, enum ibv_wc_status status)
{
	uint64_t since = f->s->now;

	pair_write(f, 1, r, payload, len);
	fix_wc(f, 0, 1, status);
	assert_in_range(f->s->now - since, 0, 1000);
	assert_int_equal(f->p.qp[0]->state,
			 status == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR);
	fix_close(f);
}

static void must_be_ignored(struct fix *f, const struct rec *r, const void *payload,
			    uint32_t len)
{
	pair_write(f, 1, r, payload, len);
	pair_run(f, 1000);
	fix_no_wc(f, 0);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

static const uint8_t data[8192];

static void each_nak_has_its_status(void **state)
{
	static const enum ibv_wc_status status[REC_NAKS] = {
		[REC_INVALID] = IBV_WC_REM_INV_REQ_ERR,
		[REC_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[REC_OPERATION] = IBV_WC_REM_OP_ERR,
	};

	(void)state;
	for (int i = REC_INVALID; i < REC_NAKS; i++)
		must_end(asked(IBV_WR_RDMA_WRITE, 100),
			 &(struct rec){ .op = REC_NAK, .code = (uint8_t)i }, NULL, 0,
			 status[i]);
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 100),
			&(struct rec){ .op = REC_NAK, .code = REC_NAKS }, NULL, 0);
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 100),
			&(struct rec){ .op = REC_NAK, .code = 255 }, NULL, 0);
}

/* It says that all before it was executed. */
static void nak_of_a_later_request(void **state)
{
	struct fix *f = asked(IBV_WR_RDMA_WRITE, 3000);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	pair_run(f, 1000);
	pair_write(f, 1, &(struct rec){ .op = REC_NAK, .code = REC_ACCESS, .psn = 3 },
		   NULL, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_REM_ACCESS_ERR);
	fix_close(f);
}

/* What is not out is not answered, and what is half done is not done. */
static void ghosts(void **state)
{
	(void)state;
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 3000),
			&(struct rec){ .op = REC_ACK, .psn = 4 }, NULL, 0);
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 3000),
			&(struct rec){ .op = REC_ACK, .psn = 0xffffff }, NULL, 0);
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 3000),
			&(struct rec){ .op = REC_ACK, .psn = 2 }, NULL, 0);
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 3000),
			&(struct rec){ .op = REC_NAK, .code = REC_ACCESS, .psn = 4 },
			NULL, 0);
	/* Not the oldest. */
	must_be_ignored(asked(IBV_WR_RDMA_WRITE, 3000),
			&(struct rec){ .op = REC_NAK, .code = REC_NOT_READY, .psn = 1 },
			NULL, 0);
	must_end(asked(IBV_WR_RDMA_WRITE, 3000), &(struct rec){ .op = REC_ACK, .psn = 3 },
		 NULL, 0, IBV_WC_SUCCESS);
}

static void nothing_is_asked_nothing_is_answered(void **state)
{
	static const uint8_t op[] = {
		REC_ACK, REC_NAK, REC_READ_RESP, REC_ATOMIC_RESP, REC_PAD,
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(op); i++)
		for (uint32_t psn = 0; psn < 2; psn++) {
			struct fix *f = pair_open(IBV_QPT_RC, NULL);

			if (op[i] == REC_PAD) {
				fix_close(f);
				continue;
			}
			must_be_ignored(f,
					&(struct rec){ .op = op[i],
						       .code = REC_ACCESS,
						       .psn = psn },
					data, 8);
		}
}

static void wrong_answers(void **state)
{
	static const struct {
		enum ibv_wr_opcode asked;
		uint32_t asked_len;
		enum rec_op op;
		uint32_t psn, len;
	} wrong[] = {
		{ IBV_WR_RDMA_WRITE, 3000, REC_READ_RESP, 0, 1024 },
		{ IBV_WR_RDMA_WRITE, 3000, REC_ATOMIC_RESP, 0, 8 },
		/* ... where it would end: there is nothing left that could fail */
		{ IBV_WR_RDMA_READ, 3000, REC_ACK, 3, 0 },
		{ IBV_WR_RDMA_READ, 3000, REC_ATOMIC_RESP, 0, 8 },
		{ IBV_WR_RDMA_READ, 3000, REC_READ_RESP, 0, 3001 },
		{ IBV_WR_RDMA_READ, 3000, REC_READ_RESP, 0, 4096 },
		{ IBV_WR_RDMA_READ, 3000, REC_READ_RESP, 0, 1000 },
		{ IBV_WR_RDMA_READ, 3000, REC_READ_RESP, 0, 0 },
		{ IBV_WR_RDMA_READ, 3000, REC_READ_RESP, 1, 1024 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, REC_ATOMIC_RESP, 0, 4 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, REC_ATOMIC_RESP, 0, 16 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, REC_READ_RESP, 0, 8 },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, 8, REC_ACK, 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		must_end(asked(wrong[i].asked, wrong[i].asked_len),
			 &(struct rec){ .op = (uint8_t)wrong[i].op, .psn = wrong[i].psn },
			 data, wrong[i].len, IBV_WC_BAD_RESP_ERR);
}

/* An answer that says that all was executed, and then has nothing to answer. */
static void an_answer_behind_the_last_request(void **state)
{
	(void)state;
	for (int op = REC_NAK; op <= REC_ATOMIC_RESP; op++) {
		struct fix *f = asked(IBV_WR_RDMA_WRITE, 3000);

		pair_write(f, 1,
			   &(struct rec){
				   .op = (uint8_t)op, .psn = 3, .code = REC_ACCESS },
			   data, 8);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		pair_run(f, 1000);
		fix_no_wc(f, 0);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
		fix_close(f);
	}
}

static void a_read_is_answered_in_parts(void **state)
{
	struct fix *f = asked(IBV_WR_RDMA_READ, 3000);

	(void)state;
	pair_write(f, 1, &(struct rec){ .op = REC_READ_RESP, .psn = 0 }, f->mem[1], 2048);
	pair_run(f, 1000);
	fix_no_wc(f, 0);
	pair_write(f, 1, &(struct rec){ .op = REC_READ_RESP, .psn = 2 }, f->mem[1] + 2048,
		   952);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3000);
	fix_close(f);
}

/* Asked again: what is missing, from its place on. */
static void half_a_read_is_asked_for_again(void **state)
{
	struct fix *f = asked(IBV_WR_RDMA_READ, 3000);
	struct rec rec[4];

	(void)state;
	pair_write(f, 1, &(struct rec){ .op = REC_READ_RESP }, f->mem[1], 1024);
	pair_write(f, 1, &(struct rec){ .op = REC_NAK, .psn = 1 }, NULL, 0);
	pair_run(f, 2 * MS);
	assert_int_equal(pair_look(f, 0, rec, 4), 2);
	assert_int_equal(rec[1].psn, 1);
	assert_int_equal(rec[1].va - rec[0].va, 1024);
	assert_int_equal(rec[1].len, 3000 - 1024);
	pair_write(f, 1, &(struct rec){ .op = REC_READ_RESP, .psn = 1 }, f->mem[1] + 1024,
		   3000 - 1024);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3000);
	fix_close(f);
}

/* The READ's memory went while its answer was under way. */
static void nowhere_to_put_the_answer(void **state)
{
	struct fix *f = asked(IBV_WR_RDMA_READ, 3000);

	(void)state;
	assert_int_equal(mr_dereg(f->mr[0]), 0);
	f->mr[0] = NULL;
	must_end(f, &(struct rec){ .op = REC_READ_RESP }, data, 3000,
		 IBV_WC_LOC_PROT_ERR);
}

/* Whose QP it is not, or by another address, does not count. */
static void strangers_are_not_heard(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct fix *f = asked(IBV_WR_RDMA_WRITE, 100);
		struct qp *b = f->p.qp[1];
		uint32_t qpn = b->qpn, path = pair_q(f, 1)->path_out;

		(void)state;
		if (i == 0)
			b->qpn++;
		if (i == 1)
			b->attr.dest_qp_num++;
		if (i == 2)
			pair_q(f, 1)->path_out++;
		pair_write(f, 1,
			   &(struct rec){ .op = REC_ACK,
					  .psn = 1,
					  .flags = i == 3 ? REC_UC : 0 },
			   NULL, 0);
		b->qpn = qpn;
		pair_q(f, 1)->path_out = path;
		pair_run(f, 1000);
		fix_no_wc(f, 0);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_nak_has_its_status),
		cmocka_unit_test(nak_of_a_later_request),
		cmocka_unit_test(ghosts),
		cmocka_unit_test(nothing_is_asked_nothing_is_answered),
		cmocka_unit_test(wrong_answers),
		cmocka_unit_test(an_answer_behind_the_last_request),
		cmocka_unit_test(a_read_is_answered_in_parts),
		cmocka_unit_test(half_a_read_is_asked_for_again),
		cmocka_unit_test(nowhere_to_put_the_answer),
		cmocka_unit_test(strangers_are_not_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
