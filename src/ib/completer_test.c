/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers that do not match, come twice, or are too old. */
#include <stdio.h>

#include "ib/fix.h"

static struct ib_fields answer(const struct fix *f, enum ib_kind kind,
			       enum ib_place place, uint32_t psn)
{
	return (struct ib_fields){
		.opcode = ib_opcode(IB_RC, kind, place, IB_NONE),
		.pkey = 0xffff,
		.migreq = true,
		.dest_qp = f->p.qp[0]->qpn,
		.psn = psn,
		.syndrome = aeth_syndrome(AETH_ACK, AETH_NO_CREDITS),
	};
}

/* A has a request outstanding, and B never answers. */
static struct fix *silent(enum ibv_wr_opcode op, uint32_t len)
{
	static const struct sim_conf c = { .psn = { 100, 0 }, .timeout = 20 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	fix_lose(f, 1, NULL, 0);
	fix_post(f, op, 1, 0, len, 0);
	assert_false(sim_run(f->s, 50000));
	return f;
}

static void ghosts_change_nothing(void **state)
{
	struct fix *f = silent(IBV_WR_RDMA_WRITE, 3000); /* PSN 100 to 102 */
	struct ib_fields a = answer(f, IB_ACK, IB_ONLY, 0);
	static const uint32_t psns[] = { 99, 103, 100 + (1 << 22), 0xffffff };
	static const uint8_t syndromes[] = { 0x1f, 0x60, 0x61, 0x20 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		for (size_t j = 0; j < 4; j++) {
			a.psn = psns[i];
			a.syndrome = syndromes[j];
			sim_inject(f->s, 1, &a, NULL, 0);
		}
	}
	a.psn = 102; /* reserved: no meaning */
	a.syndrome = 0x9f;
	sim_inject(f->s, 1, &a, NULL, 0);
	a.syndrome = 0x65;
	sim_inject(f->s, 1, &a, NULL, 0);
	assert_false(sim_run(f->s, 50000));
	fix_no_wc(f, 0);
	assert_int_equal(fix_ib(f, 0)->req.s.una, 100);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_RX_STALE), 16);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

static void part_of_a_message_is_acknowledged(void **state)
{
	struct fix *f = silent(IBV_WR_RDMA_WRITE, 3000);
	struct ib_fields a = answer(f, IB_ACK, IB_ONLY, 101);

	(void)state;
	sim_inject(f->s, 1, &a, NULL, 0);
	assert_false(sim_run(f->s, 50000));
	fix_no_wc(f, 0);
	assert_int_equal(fix_ib(f, 0)->req.s.una, 102);
	assert_int_equal(fix_ib(f, 0)->host->flight, 3000 - 2048 + CC_PACKET);
	a.psn = 102;
	sim_inject(f->s, 1, &a, NULL, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_ib(f, 0)->host->flight, 0);
	fix_close(f);
}

static void naks_name_the_error(void **state)
{
	static const struct {
		uint8_t syndrome;
		enum ibv_wc_status st;
		unsigned verr;
	} v[] = {
		{ 0x61, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID },
		{ 0x62, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS },
		{ 0x63, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fix *f = silent(IBV_WR_RDMA_WRITE, 3000);
		struct ib_fields a = answer(f, IB_ACK, IB_ONLY, 104);

		fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 3000, 0);
		fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 3000, 0);
		assert_false(sim_run(f->s, 50000));
		a.syndrome = v[i].syndrome; /* PSN in the middle of the second message */
		sim_inject(f->s, 1, &a, NULL, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		assert_int_equal(fix_wc(f, 0, 2, v[i].st).vendor_err, v[i].verr);
		fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
		fix_close(f);
	}
}

/* A READ of PSN 100 to 102 and WRITEs of PSN 103 and 104 are out when the ACK or NAK
 * comes, without a retry left. */
static struct fix *overtaken_by(uint8_t syndrome, uint32_t psn)
{
	struct fix *f = silent(IBV_WR_RDMA_READ, 3000);
	struct ib_fields a = answer(f, IB_ACK, IB_ONLY, psn);

	f->p.qp[0]->attr.retry_cnt = 0;
	fix_ib(f, 0)->req.s.retry_left = 0;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
	assert_false(sim_run(f->s, 50000));
	a.syndrome = syndrome;
	sim_inject(f->s, 1, &a, NULL, 0);
	(void)sim_run(f->s, 50000);
	return f;
}

/* A network may deliver a NAK before responses that were sent before it. The peer's QP is
 * in ERR by then, and answers no request again. */
static void a_nak_overtakes_responses(void **state)
{
	static const enum ib_place place[] = { IB_FIRST, IB_MIDDLE, IB_LAST };
	static const enum ibv_wc_status st[] = { IBV_WC_REM_INV_REQ_ERR,
						 IBV_WC_REM_ACCESS_ERR,
						 IBV_WC_REM_OP_ERR };

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		uint32_t psn = 103 + i % 2;
		struct fix *f = overtaken_by((uint8_t)(0x61 + i / 2), psn);

		for (uint32_t k = 0; k < 3; k++) {
			struct ib_fields a = answer(f, IB_ACK, IB_ONLY, 103);

			if (psn == 104) /* it was sent before the NAK */
				sim_inject(f->s, 1, &a, NULL, 0);
			a = answer(f, IB_READ_RESP, place[k], 100 + k);

			assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
			sim_inject(f->s, 1, &a, f->mem[1], k < 2 ? 1024 : 3000 - 2048);
			(void)sim_run(f->s, 50000);
		}
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, psn == 103 ? st[i / 2] : IBV_WC_SUCCESS);
		fix_wc(f, 0, 3, psn == 103 ? IBV_WC_WR_FLUSH_ERR : st[i / 2]);
		fix_close(f);
	}
}

/* All else that comes for a later request says that the response is lost. */
static void only_a_last_word_is_kept(void **state)
{
	static const uint8_t syndromes[] = { 0x1f, 0x21, 0x60, 0x64 };

	(void)state;
	for (size_t i = 0; i < sizeof(syndromes); i++) {
		struct fix *f = overtaken_by(syndromes[i], 103);

		assert_int_equal(fix_ib(f, 0)->req.nak, 0);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
		fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
		fix_close(f);
	}
}

/* No packet is lost, and every one may overtake others; a response is one packet. */
static void order_changes_no_error(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 100; seed++) {
		char fault[40];
		struct sim_conf c = { .timeout = 14, .fault = fault };
		struct fix *f;

		snprintf(fault, sizeof(fault), "rx:reorder=0.3,seed=%u", seed);
		f = fix_open(IBV_QPT_RC, &c);
		fix_post(f, IBV_WR_RDMA_READ, 1, 0, 1000, 0);
		fix_post(f, IBV_WR_RDMA_WRITE, 2, 8192, 100, 0);
		f->mr[1]->mkey.key ^= 1;
		fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
		f->mr[1]->mkey.key ^= 1;
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_wc(f, 0, 3, IBV_WC_REM_ACCESS_ERR);
		fix_close(f);
	}
}

static void bad_responses(void **state)
{
	static const struct {
		enum ib_kind kind;
		enum ib_place place;
		uint32_t len;
	} v[] = {
		{ IB_READ_RESP, IB_FIRST, 1000 },  /* not a full packet */
		{ IB_READ_RESP, IB_ONLY, 1024 },   /* there is more */
		{ IB_READ_RESP, IB_MIDDLE, 1024 }, /* not the first */
		{ IB_ATOMIC_RESP, IB_ONLY, 0 },	   /* another operation */
	};
	uint8_t data[1024] = { 0 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct fix *f = silent(IBV_WR_RDMA_READ, 3000);
		struct ib_fields a = answer(f, v[i].kind, v[i].place, 100);

		sim_inject(f->s, 1, &a, data, v[i].len);
		assert_int_equal(fix_wc(f, 0, 1, IBV_WC_BAD_RESP_ERR).vendor_err,
				 VERR_BAD_RESPONSE);
		fix_close(f);
	}
}

static void read_answer_for_a_write(void **state)
{
	struct fix *f = silent(IBV_WR_RDMA_WRITE, 100);
	struct ib_fields a = answer(f, IB_READ_RESP, IB_ONLY, 100);
	uint8_t data[100] = { 0 };

	(void)state;
	sim_inject(f->s, 1, &a, data, 100);
	fix_wc(f, 0, 1, IBV_WC_BAD_RESP_ERR);
	fix_close(f);
}

/* A response acknowledges everything before it. */
static void response_acknowledges(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;

	(void)state;
	fix_lose(f, 1, "ACK", 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 200, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_true(f->s->now - start < MS);
	fix_close(f);
}

static void region_gone_before_the_answer(void **state)
{
	struct fix *f = silent(IBV_WR_RDMA_READ, 100);
	struct ib_fields a = answer(f, IB_READ_RESP, IB_ONLY, 100);
	uint8_t data[100] = { 0 };

	(void)state;
	assert_int_equal(mr_dereg(f->mr[0]), 0);
	f->mr[0] = NULL;
	sim_inject(f->s, 1, &a, data, 100);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_LOC_PROT_ERR).vendor_err, VERR_LOCAL_KEY);
	fix_close(f);
}

/* NAKs for lost packets use up retries, as timeouts do. */
static void sequence_naks_end(void **state)
{
	struct sim_conf c = { .retry_cnt = 3, .timeout = 20 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	struct ib_fields a = answer(f, IB_ACK, IB_ONLY, 0);

	(void)state;
	a.syndrome = 0x60;
	fix_lose(f, 1, NULL, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_false(sim_run(f->s, 50000));
		fix_no_wc(f, 0);
		sim_inject(f->s, 1, &a, NULL, 0); /* duplicated on its way: */
		sim_inject(f->s, 1, &a, NULL, 0); /* counts once */
	}
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_SEQUENCE_RETRIES);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ghosts_change_nothing),
		cmocka_unit_test(part_of_a_message_is_acknowledged),
		cmocka_unit_test(naks_name_the_error),
		cmocka_unit_test(a_nak_overtakes_responses),
		cmocka_unit_test(only_a_last_word_is_kept),
		cmocka_unit_test(order_changes_no_error),
		cmocka_unit_test(bad_responses),
		cmocka_unit_test(read_answer_for_a_write),
		cmocka_unit_test(response_acknowledges),
		cmocka_unit_test(region_gone_before_the_answer),
		cmocka_unit_test(sequence_naks_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
