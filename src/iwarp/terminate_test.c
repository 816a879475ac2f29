/* SPDX-License-Identifier: BSD-2-Clause */
/* Every rule that a peer can break: the Terminate that it gets, with the segment named in
 * it, and what the QP here reports. */
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
	d.ulp = 0x03; /* version of the RDMA Consortium */
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
			else if (o->body) /* not the length that it must have */
				one(TERM_RDMAP_OPCODE, IBV_EVENT_QP_REQ_ERR, &d, body,
				    o->body - 1u);
		}
	}
}

/* A message continues with another opcode. */
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
	sim_run(f->s, IW_RECV_WAIT_NS);
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

/* --- responses to no request -------------------------------------------- */

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
	/* Any damaged byte: nothing is placed. */
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

/* RFC 6581: a zero-length SEND, or an empty FPDU, as the first frame. */
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
