/* SPDX-License-Identifier: BSD-2-Clause */
/* Terminates: what becomes here of those that a peer sends, and what both ends see. */
#include "iwarp/fix.h"

static void told(enum rdmap_error error, bool about_read, enum ibv_wc_status status,
		 enum verr verr, int event)
{
	struct fix *f = fix_raw(NULL, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1
	};
	struct ddp d = raw_untagged(RDMAP_TERMINATE, 2, 1, 0);
	uint8_t body[RDMAP_TERM_MAX], hdr[DDP_HDR_MAX];
	struct ddp about = raw_untagged(RDMAP_READ_REQUEST, 1, 1, 0);
	struct rdmap_term t = { .error = (uint16_t)error };
	struct raw_got g;

	if (about_read) {
		t.has_len = t.has_ddp = true;
		t.ddp = hdr;
		t.ddp_len = ddp_build(hdr, &about);
	}
	fix_send(f, 1, &wr);
	wr.wr_id = 2;
	fix_send(f, 1, &wr);
	assert_true(raw_next(f, &g));
	assert_true(raw_next(f, &g));
	raw_segment(f, &d, body, rdmap_term_build(body, &t));
	assert_int_equal(fix_wc(f, 1, 1, status).vendor_err, verr);
	fix_wc(f, 1, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(sim_event(f->s, 1), event);
	assert_int_equal(sim_event(f->s, 1), -1);
	/* A Terminate is not answered by another. */
	assert_false(raw_next(f, &g));
	fix_close(f);
}

/* All that the registry of RFC 6580 has, and what it has not. */
static void every_code_becomes_something(void **state)
{
	static const struct {
		enum rdmap_layer layer;
		unsigned etype;
		enum ibv_wc_status status;
		enum verr verr;
	} of_a_read[] = {
		{ TERM_RDMAP, TERM_CATASTROPHIC, IBV_WC_REM_OP_ERR,
		  VERR_REMOTE_OPERATION },
		{ TERM_RDMAP, TERM_PROTECTION, IBV_WC_REM_ACCESS_ERR,
		  VERR_REMOTE_ACCESS },
		{ TERM_RDMAP, TERM_OPERATION, IBV_WC_REM_INV_REQ_ERR,
		  VERR_REMOTE_INVALID },
		{ TERM_DDP, TERM_CATASTROPHIC, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION },
		{ TERM_DDP, TERM_TAGGED, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID },
		{ TERM_DDP, TERM_UNTAGGED, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID },
		{ TERM_LLP, TERM_MPA, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID },
	};
	static const uint16_t codes[] = {
#define ERROR(layer, etype, code, name, words) TERM_##name,
#include "wire/rdmap_error.def"
#undef ERROR
		0x3fff,
		0x00ff,
		0x1233,
	};
	unsigned n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const enum rdmap_error e = (enum rdmap_error)codes[i];

		told(e, false, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, IBV_EVENT_QP_FATAL);
		for (size_t k = 0; k < sizeof(of_a_read) / sizeof(of_a_read[0]); k++)
			if (rdmap_layer(codes[i]) == of_a_read[k].layer &&
			    rdmap_etype(codes[i]) == of_a_read[k].etype) {
				told(e, true, of_a_read[k].status, of_a_read[k].verr, -1);
				n++;
			}
	}
	assert_int_equal(n, sizeof(codes) / sizeof(codes[0]) - 1);
}

static void what_terminates_become(void **state)
{
	(void)state;
	told(TERM_RDMAP_BOUNDS, true, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, -1);
	told(TERM_RDMAP_ACCESS, true, IBV_WC_REM_ACCESS_ERR, VERR_REMOTE_ACCESS, -1);
	told(TERM_RDMAP_LOCAL, true, IBV_WC_REM_OP_ERR, VERR_REMOTE_OPERATION, -1);
	told(TERM_DDP_NO_BUFFER, true, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID, -1);
	told(TERM_RDMAP_OPCODE, true, IBV_WC_REM_INV_REQ_ERR, VERR_REMOTE_INVALID, -1);
	told(TERM_MPA_CRC, false, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, IBV_EVENT_QP_FATAL);
	told(TERM_DDP_STAG, false, IBV_WC_WR_FLUSH_ERR, VERR_FLUSHED, IBV_EVENT_QP_FATAL);
}

/* It names one by its MSN: those before it were not refused. */
static void the_second_read_is_refused(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 8);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct ddp d = raw_untagged(RDMAP_TERMINATE, 2, 1, 0);
	struct ddp about = raw_untagged(RDMAP_READ_REQUEST, 1, 2, 0);
	uint8_t body[RDMAP_TERM_MAX], hdr[DDP_HDR_MAX];
	struct rdmap_term t = {
		.error = TERM_RDMAP_BOUNDS, .has_len = true, .has_ddp = true, .ddp = hdr
	};

	(void)state;
	t.ddp_len = ddp_build(hdr, &about);
	for (wr.wr_id = 1; wr.wr_id <= 3; wr.wr_id++)
		fix_send(f, 1, &wr);
	sim_run(f->s, MS);
	raw_segment(f, &d, body, rdmap_term_build(body, &t));
	fix_wc(f, 1, 1, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 1, 2, IBV_WC_REM_ACCESS_ERR);
	fix_wc(f, 1, 3, IBV_WC_WR_FLUSH_ERR);
	fix_close(f);
}

/* Between two of ours: the first has its answer before the second is refused. */
static void a_good_read_and_a_bad_one(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);
	struct ibv_sge sge = fix_sge(f->mr[0], 0, 8);
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .wr.rdma = { f->mr[1]->mkey.base, 0x99999 } };

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 1000, 300000, 0);
	fix_send(f, 0, &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_REM_ACCESS_ERR);
	fix_same(f, 1000, 300000);
	fix_close(f);
}

/* A peer that breaks a rule and does not take the answers to what it asked for
 * before: after a second the rest of those is left out. */
static void answers_that_are_not_taken(void **state)
{
	struct sim_conf c = { .stream = { .depth = 3000 } };
	struct fix *f = fix_raw(&c, false);
	struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, 1, 0);
	struct rdmap_read r = { .len = 100000,
				.src_stag = f->mr[1]->mkey.key,
				.src_to = f->mr[1]->mkey.base };
	uint8_t body[RDMAP_READ_LEN];
	struct raw_got g;
	int answers = 0;

	(void)state;
	rdmap_read_build(body, &r);
	raw_segment(f, &d, body, sizeof(body));
	d.msn = 7;
	raw_segment(f, &d, body, sizeof(body));
	sim_run(f->s, SEC + SEC / 2);
	assert_non_null(f->s->node[1].conn[0].qp);
	for (assert_true(raw_next(f, &g)); g.d.tagged; assert_true(raw_next(f, &g)))
		assert_in_range(++answers, 1, 4);
	assert_int_equal(g.d.ulp, 0x47);
	fix_close(f);
}

static void a_terminate_cut_short(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	struct ddp d = raw_untagged(RDMAP_TERMINATE, 2, 1, 0);

	(void)state;
	fix_recv(f, 8, 0, 1);
	raw_segment(f, &d, "\x01\x01\xe0\0", 4);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_FATAL);
	fix_close(f);
}

/* Between two of ours: what each side sees. */
static void both_sides(void **state)
{
	static const struct {
		enum ibv_wr_opcode op;
		enum ibv_wc_status status;
	} v[] = {
		{ IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR },
		{ IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fix *f = fix_open(NULL);
		struct ibv_sge sge = fix_sge(f->mr[0], 0, 8);
		struct ibv_send_wr wr = { .wr_id = 1,
					  .opcode = v[i].op,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = f->mr[1]->mkey.base;
		wr.wr.rdma.rkey = f->mr[1]->mkey.key ^ 1;
		if (v[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = f->mr[1]->mkey.base;
			wr.wr.atomic.rkey = f->mr[1]->mkey.key ^ 1;
		}
		fix_send(f, 0, &wr);
		fix_wc(f, 0, 1, v[i].status);
		sim_run(f->s, 3 * SEC);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
		assert_int_equal(sim_event(f->s, 0),
				 v[i].status ? -1 : IBV_EVENT_QP_FATAL);
		assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_ACCESS_ERR);
		assert_null(f->s->node[0].conn[0].qp);
		assert_null(f->s->node[1].conn[0].qp);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_becomes_something),
		cmocka_unit_test(what_terminates_become),
		cmocka_unit_test(the_second_read_is_refused),
		cmocka_unit_test(a_good_read_and_a_bad_one),
		cmocka_unit_test(answers_that_are_not_taken),
		cmocka_unit_test(a_terminate_cut_short),
		cmocka_unit_test(both_sides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
