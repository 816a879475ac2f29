/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of what is sent, and when it counts as sent. */
#include "iwarp/fix.h"

enum { READ_LEN = 64000 };

/* The peer requests a READ of len bytes at off. */
static void ask(struct fix *f, uint32_t msn, size_t off, uint32_t len)
{
	struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, msn, 0);
	struct rdmap_read r = {
		.sink_stag = 7,
		.len = len,
		.src_stag = f->mr[1]->mkey.key,
		.src_to = f->mr[1]->mkey.base + off,
	};
	uint8_t body[RDMAP_READ_LEN];

	rdmap_read_build(body, &r);
	raw_segment(f, &d, body, sizeof(body));
}

/* B posts a work request of len bytes. */
static void post(struct fix *f, enum ibv_wr_opcode opcode, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = fix_sge(f->mr[1], 0, len);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { 0x1000, 99 },
	};

	fix_send(f, 1, &wr);
}

/* The next message comes whole, segment after segment.  Returns its opcode; -1: nothing
 * comes. */
static int message(struct fix *f)
{
	uint64_t at = 0;
	struct raw_got g;
	uint8_t ulp;

	if (!raw_next(f, &g))
		return -1;
	ulp = g.d.ulp;
	for (;;) {
		assert_int_equal(g.d.ulp, ulp);
		if (at)
			assert_int_equal(g.d.tagged ? g.d.to : g.d.mo, at);
		at = (g.d.tagged ? g.d.to : g.d.mo) + g.n;
		if (g.d.last)
			return (int)rdmap_opcode(ulp);
		assert_true(raw_next(f, &g));
	}
}

/* RFC 5041, 5.3: the peer's READ request comes while half of a message is out. */
static void messages_in_one_piece(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						 IBV_WR_RDMA_WRITE_WITH_IMM };
	struct sim_conf c = { .stream = { .depth = 3000 } };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fix *f = fix_raw(&c, true);

		post(f, op[i], 1, 20000);
		sim_run(f->s, MS);
		ask(f, 1, 0, 4000);
		assert_int_equal(message(f),
				 op[i] == IBV_WR_SEND ? RDMAP_SEND : RDMAP_WRITE);
		if (op[i] == IBV_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(message(f), RDMAP_IMMEDIATE);
		post(f, op[i], 2, 8); /* nor within a response */
		assert_int_equal(message(f), RDMAP_READ_RESPONSE);
		assert_int_equal(message(f),
				 op[i] == IBV_WR_SEND ? RDMAP_SEND : RDMAP_WRITE);
		fix_close(f);
	}
}

/* A peer that always has READs outstanding: our requests get their turns. */
static void a_peer_that_reads_for_ever(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	uint32_t msn = 1;

	(void)state;
	while (msn <= 8)
		ask(f, msn++, 0, READ_LEN);
	sim_run(f->s, MS);
	for (uint64_t id = 1; id <= 3; id++)
		post(f, IBV_WR_SEND, id, 16);
	/* First what was planned before they were posted, then turn by turn. */
	for (int sends = 0, reads = 0; sends < 3; reads++) {
		assert_in_range(reads, 0, 9);
		if (message(f) == RDMAP_SEND)
			sends++;
		else
			ask(f, msn++, 0, READ_LEN);
	}
	fix_close(f);
}

/* Bytes that the stream has not taken may be lost with the QP: their work request is not
 * complete. */
static void complete_when_taken(void **state)
{
	struct sim_conf c = { .stream = { .depth = 3000 } };
	struct fix *f = fix_raw(&c, true);

	(void)state;
	post(f, IBV_WR_SEND, 1, 200);
	post(f, IBV_WR_SEND, 2, 2800);
	sim_run(f->s, MS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_true(fix_iw(f, 1)->tail_at < fix_iw(f, 1)->tail_end);
	assert_int_equal(fix_iw(f, 1)->c.s.cur, f->p.qp[1]->sq.head);
	fix_no_wc(f, 1);
	assert_int_equal(message(f), RDMAP_SEND);
	assert_int_equal(message(f), RDMAP_SEND);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A SEND that cannot go on does not wait for the READ before it, whose response may wait
 * for the SEND. */
static void a_message_that_cannot_go_on(void **state)
{
	struct sim_conf c = { .stream = { .depth = 3000 } };
	struct fix *f = fix_raw(&c, true);
	struct raw_got g = { .n = 0 };

	(void)state;
	post(f, IBV_WR_RDMA_READ, 1, 8);
	post(f, IBV_WR_SEND, 2, 20000);
	sim_run(f->s, MS);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	while (raw_next(f, &g) && g.d.qn != 2)
		;
	assert_int_equal(g.d.ulp, 0x47);
	fix_wc(f, 1, 1, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 1, 2, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

static bool at_end(struct fix *f)
{
	uint8_t byte;
	struct iovec v = { &byte, 1 };

	return f->raw->ops->recv(f->raw, &v, 1, f->s->now) == -ESHUTDOWN;
}

/* Our FIN is out and the peer's takes its time: no nudge, response or Terminate follows
 * ours. */
static void nothing_after_fin(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = fix_raw(NULL, true);
		struct ddp bad = raw_untagged(RDMAP_SEND, 0, 7, 0);
		uint64_t sent;

		post(f, IBV_WR_SEND, 1, 100);
		assert_int_equal(message(f), RDMAP_SEND);
		sim_modify(f->s, f->p.qp[1], IBV_QPS_SQD);
		assert_int_equal(message(f), -1);
		assert_true(at_end(f));
		sent = f->s->sent[1];
		if (i == 1)
			ask(f, 1, 0, 100);
		else if (i == 2)
			raw_segment(f, &bad, NULL, 0);
		sim_run(f->s, 3 * SEC);
		assert_int_equal(f->s->sent[1], sent);
		f->raw->ops->fin(f->raw);
		sim_run(f->s, SEC);
		assert_int_equal(f->s->node[1].ended[i == 2 ? IW_END_ERROR : IW_END_US],
				 1);
		fix_close(f);
	}
}

/* The peer sends READ requests all the time while a QP closes: the connection ends all
 * the same. */
static void closing_while_the_peer_reads(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	uint32_t msn = 1, reads = 0;
	int got;

	(void)state;
	post(f, IBV_WR_SEND, 1, 100);
	while (msn <= 8)
		ask(f, msn++, 0, READ_LEN);
	sim_modify(f->s, f->p.qp[1], IBV_QPS_SQD);
	while ((got = message(f)) >= 0) {
		assert_in_range(reads, 0, 20);
		if (got == RDMAP_READ_RESPONSE)
			reads++;
		ask(f, msn++, 0, READ_LEN);
	}
	assert_true(at_end(f));
	assert_true(reads >= 8); /* none that came before is cut off */
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	f->raw->ops->fin(f->raw);
	sim_run(f->s, SEC);
	assert_int_equal(f->s->node[1].ended[IW_END_US], 1);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_in_one_piece),
		cmocka_unit_test(a_peer_that_reads_for_ever),
		cmocka_unit_test(complete_when_taken),
		cmocka_unit_test(a_message_that_cannot_go_on),
		cmocka_unit_test(nothing_after_fin),
		cmocka_unit_test(closing_while_the_peer_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
