/* SPDX-License-Identifier: BSD-2-Clause */
/* Every rule that a peer can break: the Terminate that it gets, with what it is
 * about, and what the QP here says; and what the peer's Terminates become. */
#include "iwarp/fix.h"

static struct ddp write_to(const struct fix *f, size_t at)
{
	return (struct ddp){
		.tagged = true,
		.last = true,
		.version = 1,
		.ulp = 0x40,
		.stag = f->mr[1]->mkey.key,
		.to = f->mr[1]->mkey.base + at,
	};
}

static void one(enum rdmap_error error, int event, const struct ddp *d, const void *p,
		size_t n)
{
	struct fix *f = fix_raw(NULL, false);
	uint8_t *copy = malloc(FIX_MEM);

	memcpy(copy, f->mem[1], FIX_MEM);
	fix_recv(f, 8, 0, 100);
	raw_segment(f, d, p, n);
	raw_refused(f, error, d, event);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	assert_memory_equal(copy, f->mem[1], FIX_MEM);
	free(copy);
	fix_close(f);
}

static void versions(void **state)
{
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);

	(void)state;
	d.version = 0;
	one(TERM_DDP_UNTAGGED_VERSION, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d.version = 2;
	one(TERM_DDP_UNTAGGED_VERSION, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d = (struct ddp){ .tagged = true, .version = 3, .ulp = 0x40 };
	one(TERM_DDP_TAGGED_VERSION, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d = raw_untagged(RDMAP_SEND, 0, 1, 0);
	d.ulp = 0x03; /* RDMAC */
	one(TERM_RDMAP_VERSION, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d.ulp = 0x83;
	one(TERM_RDMAP_VERSION, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
}

static void queues_and_numbers(void **state)
{
	struct ddp d;

	(void)state;
	d = raw_untagged(RDMAP_SEND, 4, 1, 0);
	one(TERM_DDP_QUEUE, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d = raw_untagged(RDMAP_SEND, 0x80000000, 1, 0);
	one(TERM_DDP_QUEUE, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	for (uint32_t qn = 0; qn < 4; qn++) {
		d = raw_untagged(RDMAP_SEND, qn, 2, 0);
		one(TERM_DDP_MSN, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
		d = raw_untagged(RDMAP_SEND, qn, 0, 0);
		one(TERM_DDP_MSN, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
		d = raw_untagged(RDMAP_SEND, qn, 1, 1);
		one(TERM_DDP_MO, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	}
}

/* Each opcode, tagged and not, on each queue: allowed in one place at most. */
static void opcodes_out_of_place(void **state)
{
	uint8_t body[RDMAP_ATOMIC_LEN] = { 0 };

	(void)state;
	for (uint8_t op = 0; op < 16; op++) {
		const struct rdmap_op *o = rdmap_op(op);
		struct ddp d = { .tagged = true,
				 .last = true,
				 .version = 1,
				 .ulp = (uint8_t)(0x40 | op) };

		if (!o || !o->tagged)
			one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, body, 8);
		for (uint32_t qn = 0; qn < 4; qn++) {
			d = raw_untagged(op, qn, 1, 0);
			if (!o || o->tagged || o->queue != qn)
				one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, body,
				    o && o->body ? o->body : 8);
			else if (o->body) /* not as long as it must be */
				one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, body,
				    o->body - 1u);
		}
	}
}

/* What goes on as something else than it began. */
static void a_message_changes(void **state)
{
	struct fix *f = fix_raw(NULL, false);
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);

	(void)state;
	fix_recv(f, 8, 0, 100);
	d.last = false;
	raw_segment(f, &d, "abc", 3);
	d.last = true;
	d.mo = 3;
	d.ulp = 0x45;
	raw_segment(f, &d, "def", 3);
	raw_refused(f, TERM_RDMAP_OPCODE, &d, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

static void receives(void **state)
{
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);
	struct fix *f = fix_raw(NULL, false);

	(void)state;
	raw_segment(f, &d, "x", 1);
	raw_refused(f, TERM_DDP_NO_BUFFER, &d, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);

	f = fix_raw(NULL, false);
	fix_recv(f, 8, 0, 5);
	d.last = false;
	raw_segment(f, &d, "abcd", 4);
	d.last = true;
	d.mo = 4;
	raw_segment(f, &d, "ef", 2);
	raw_refused(f, TERM_DDP_TOO_LONG, &d, -1);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_LOC_LEN_ERR).vendor_err,
			 VERR_LOCAL_LENGTH);
	fix_close(f);

	f = fix_raw(NULL, false);
	d = raw_untagged(RDMAP_SEND, 0, 1, 0);
	{
		struct ibv_sge sge = { 16, 100, 0x77 };
		struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 },
				   *bad;

		assert_int_equal(qp_post_recv(f->p.qp[1], &wr, &bad), 0);
	}
	raw_segment(f, &d, "x", 1);
	raw_refused(f, TERM_RDMAP_LOCAL, NULL, -1);
	fix_wc(f, 1, 8, IBV_WC_LOC_PROT_ERR);
	fix_close(f);

	f = fix_raw(NULL, false);
	d = raw_untagged(RDMAP_SEND_INV, 0, 1, 0);
	d.ulp_word = f->mr[1]->mkey.key; /* a region is no window */
	fix_recv(f, 8, 0, 100);
	raw_segment(f, &d, "x", 1);
	raw_refused(f, TERM_RDMAP_NO_INVALIDATE, &d, -1);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_REM_INV_REQ_ERR).vendor_err,
			 VERR_INVALIDATE);
	fix_close(f);
}

/* --- answers that were not asked for ------------------------------------- */

static void bad_answers(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t stag, len;
		uint64_t to;
		bool last;
		enum rdmap_error error;
	} v[] = {
		{ 2, 1, 8, 0, true, TERM_DDP_STAG },
		{ 2, 0, 8, 1, true, TERM_DDP_BOUNDS },
		{ 2, 0, 9, 0, true, TERM_DDP_BOUNDS },
		{ 2, 0, 7, 0, true, TERM_DDP_BOUNDS },
		{ 2, 0, 8, 0, false, TERM_DDP_BOUNDS },
		{ 11, 0, 12, 0, true, TERM_RDMAP_OPCODE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct fix *f = fix_raw(NULL, true);
		struct ibv_sge sge = fix_sge(f->mr[1], 0, 8);
		struct ibv_send_wr wr = { .wr_id = 1,
					  .opcode = IBV_WR_RDMA_READ,
					  .sg_list = &sge,
					  .num_sge = 1 };
		struct ddp d = { .tagged = true,
				 .last = v[i].last,
				 .version = 1,
				 .ulp = (uint8_t)(0x40 | v[i].op) };
		uint8_t body[12] = { 0 };
		struct raw_got g;

		if (v[i].op == 11)
			d = raw_untagged(RDMAP_ATOMIC_RESPONSE, 3, 1, 0);
		else
			d.stag = f->mr[1]->mkey.key ^ v[i].stag,
			d.to = f->mr[1]->mkey.base + v[i].to;
		fix_send(f, 1, &wr);
		assert_true(raw_next(f, &g));
		raw_segment(f, &d, body, v[i].len);
		assert_int_equal(fix_wc(f, 1, 1, IBV_WC_BAD_RESP_ERR).vendor_err,
				 VERR_BAD_RESPONSE);
		raw_refused(f, v[i].error, &d, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

static void answers_to_nothing(void **state)
{
	struct ddp d = { .tagged = true, .last = true, .version = 1, .ulp = 0x42 };

	(void)state;
	one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, "x", 1);
	d = raw_untagged(RDMAP_ATOMIC_RESPONSE, 3, 1, 0);
	one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, "123456789abc", 12);
}

/* --- MPA ----------------------------------------------------------------- */

static void a_wrong_crc(void **state)
{
	struct sim_conf c = { .crc = true };

	(void)state;
	/* Any byte of it: nothing is placed. */
	for (size_t i = 2; i < 28; i++) {
		struct fix *f = fix_raw(&c, false);
		struct ddp d = write_to(f, 0);
		uint8_t fpdu[28] = { 0, 14 + 8 }, before[8];

		memcpy(before, f->mem[1], 8);
		ddp_build(fpdu + 2, &d);
		mpa_crc_put(mpa_crc(MPA_CRC_START, fpdu, 24), fpdu + 24);
		fpdu[i] ^= 0x10;
		raw_bytes(f, fpdu, 28);
		raw_refused(f, TERM_MPA_CRC, NULL, IBV_EVENT_QP_REQ_ERR);
		assert_memory_equal(f->mem[1], before, 8);
		fix_close(f);
	}
}

static void a_wrong_marker(void **state)
{
	struct sim_conf c = { .markers = { false, true } };
	struct fix *f = fix_raw(&c, false);
	struct ddp d = write_to(f, 0);
	uint8_t fpdu[28] = { 0, 14 + 8 }, marked[40];

	(void)state;
	ddp_build(fpdu + 2, &d);
	assert_int_equal(mpa_mark(marked, fpdu, 28, 0), 32);
	marked[3] = 4;
	raw_bytes(f, marked, 32);
	raw_refused(f, TERM_MPA_MARKER, NULL, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

static void too_short_for_a_header(void **state)
{
	(void)state;
	for (uint8_t n = 0; n < 18; n++) {
		struct fix *f = fix_raw(NULL, false);
		uint8_t fpdu[28] = { 0, n, 0x41, 0x43 };

		raw_bytes(f, fpdu, mpa_fpdu_len(n));
		raw_refused(f, TERM_DDP_LOCAL, NULL, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

/* RFC 6581: a zero-length SEND, or an FPDU of nothing, as the first frame. */
static void ready_to_receive(void **state)
{
	struct sim_conf c = { .rtr = MPA_RTR_SEND };
	static const uint8_t nothing[8];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = fix_raw(&c, false);
		struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);

		fix_recv(f, 8, 0, 100);
		if (i == 0)
			raw_segment(f, &d, NULL, 0);
		else
			raw_bytes(f, nothing, sizeof(nothing));
		sim_run(f->s, SEC);
		fix_no_wc(f, 1);
		assert_int_equal(f->s->node[1].ready, 1);
		d = raw_untagged(RDMAP_SEND, 0, i == 0 ? 2 : 1, 0);
		raw_segment(f, &d, NULL, 0);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		raw_bytes(f, nothing, sizeof(nothing));
		raw_refused(f, TERM_DDP_LOCAL, NULL, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

/* --- the peer's Terminates ----------------------------------------------- */

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
		cmocka_unit_test(versions),
		cmocka_unit_test(queues_and_numbers),
		cmocka_unit_test(opcodes_out_of_place),
		cmocka_unit_test(a_message_changes),
		cmocka_unit_test(receives),
		cmocka_unit_test(bad_answers),
		cmocka_unit_test(answers_to_nothing),
		cmocka_unit_test(a_wrong_crc),
		cmocka_unit_test(a_wrong_marker),
		cmocka_unit_test(too_short_for_a_header),
		cmocka_unit_test(ready_to_receive),
		cmocka_unit_test(what_terminates_become),
		cmocka_unit_test(the_second_read_is_refused),
		cmocka_unit_test(a_good_read_and_a_bad_one),
		cmocka_unit_test(answers_that_are_not_taken),
		cmocka_unit_test(a_terminate_cut_short),
		cmocka_unit_test(both_sides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
