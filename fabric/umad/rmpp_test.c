/* SPDX-License-Identifier: BSD-2-Clause */
/* Long messages between two programs, over a subnet that loses packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/umad/fix.h"
#include "fabric/umad/rmpp.h"
#include "sys/clock.h"

enum { GET_TABLE = 0x12, TABLE_RESP = 0x92, HEAD = 56 };

static struct ufix x;
static struct umad_file *a, *b; /* a sends requests, b answers */

static int start(void **state)
{
	struct umad_reg reg = { .class = MAD_SA, .version = 2, .rmpp = 1 };

	(void)state;
	ufix_start(&x);
	rand_seed(&x.rand, 1);
	assert_int_equal(umad_open(x.u, UFIX_A, 1, &a, &a), 0);
	assert_int_equal(umad_open(x.u, UFIX_B, 1, &b, &b), 0);
	assert_int_equal(umad_register(a, &reg), 0);
	reg.methods[0] = 1ull << GET_TABLE | 1ull << METHOD_GET_MULTI;
	assert_int_equal(umad_register(b, &reg), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	umad_close(a);
	umad_close(b);
	assert_true(umad_next(x.u) == NEVER);
	ufix_end(&x);
	return 0;
}

static uint8_t byte(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

/* Sends a request from a; returns it as b reads it. */
static struct ufix_msg ask(uint64_t tid, uint32_t timeout_ms, uint32_t retries)
{
	struct ufix_msg m = ufix_msg(0, UFIX_LID_B, MAD_SA, GET_TABLE, 0x35, tid), r;

	m.hdr.timeout_ms = timeout_ms;
	m.hdr.retries = retries;
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(b, &r), sizeof(r));
	return r;
}

/* Sends an answer with len bytes of data. */
static int answer(const struct ufix_msg *to, size_t len, uint32_t retries)
{
	size_t all = UMAD_HDR + HEAD + len;
	uint8_t *m = calloc(1, all);
	struct umad_hdr *h = (struct umad_hdr *)(void *)m;
	int rc;

	memcpy(m, to, UMAD_HDR + HEAD);
	h->timeout_ms = 0;
	h->retries = retries;
	rmpp_of(m + UMAD_HDR)->h.method = TABLE_RESP;
	/* A program need not set RMPP's version and type; OpenSM does not. */
	rmpp_of(m + UMAD_HDR)->rtime_flags = RMPP_ACTIVE;
	for (size_t i = 0; i < len; i++)
		m[UMAD_HDR + HEAD + i] = byte(i);
	rc = umad_write(b, m, all, x.now);
	free(m);
	return rc;
}

static void check(const uint8_t *msg, size_t got, size_t len)
{
	assert_int_equal(got, UMAD_HDR + HEAD + len);
	assert_int_equal(((const struct umad_hdr *)(const void *)msg)->length, got);
	assert_int_equal(((const struct umad_hdr *)(const void *)msg)->status, 0);
	for (size_t i = 0; i < len; i++) {
		if (msg[UMAD_HDR + HEAD + i] != byte(i))
			fail_msg("byte %zu of %zu", i, len);
	}
}

/* Lets time pass until the file has a message, for at most so many seconds. */
static const uint8_t *wait_for(struct umad_file *f, size_t *len, unsigned seconds)
{
	uint64_t until = x.now + seconds * 1000000000ull;
	const uint8_t *m;

	while (!(m = umad_peek(f, len)) && x.now < until) {
		uint64_t next = umad_next(x.u);

		ufix_run(&x, next > x.now ? (next < until ? next : until) - x.now : 0);
	}
	return m;
}

/* Lengths just below, at and above multiples of segments and windows. */
static void t_lengths(void **state)
{
	static const size_t lens[] = {
		0,	  1,	     199,	    200,	  201,	    399,
		400,	  401,	     64 * 200,	    64 * 200 + 1, 65 * 200, 65 * 200 + 1,
		66 * 200, 129 * 200, 130 * 200 - 1, 36920,	  1000000
	};
	uint64_t tid = 1;

	(void)state;
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct ufix_msg q = ask(tid++, 1000, 3);
		const uint8_t *m;
		size_t len;

		assert_int_equal(answer(&q, lens[i], 3), 0);
		ufix_run(&x, 0);
		m = umad_peek(a, &len);
		assert_non_null(m);
		check(m, len, lens[i]);
		umad_pop(a);
		assert_null(umad_peek(a, &len));
		assert_null(umad_peek(b, &len));
		assert_int_equal(b->reqs, 0);
		assert_int_equal(a->reqs, 0);
		assert_int_equal(a->rx_bytes, 0);
	}
	assert_true(umad_next(x.u) !=
		    NEVER); /* remembers the message, to answer repetitions */
	ufix_run(&x, 10000000000);
	assert_int_equal(a->agent[0]->remembered, 0);
}

/* Many messages one after the other, within the time for which each is remembered. */
static void t_many(void **state)
{
	(void)state;
	for (uint64_t tid = 1; tid <= 3000; tid++) {
		struct ufix_msg q = ask(tid, 1000, 3);
		const uint8_t *m;
		size_t len;

		assert_int_equal(answer(&q, 300, 3), 0);
		ufix_run(&x, 1000);
		m = umad_peek(a, &len);
		assert_non_null(m);
		check(m, len, 300);
		umad_pop(a);
	}
	assert_int_equal(a->rxs, 0);
}

/* One packet in twenty is lost each way.  Each loss costs 2 s, and a message has 40 s. */
static void t_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		size_t want = 60 * seed, len;
		struct ufix_msg q;
		const uint8_t *m;

		x.loss = 0;
		q = ask(seed, 3600000, 0);
		rand_seed(&x.rand, seed);
		x.loss = 50000;
		assert_int_equal(answer(&q, want, 20), 0);
		m = wait_for(a, &len, 3600);
		assert_non_null(m);
		check(m, len, want);
		umad_pop(a);
		x.loss = 0;
		while (b->reqs)
			ufix_run(&x, umad_next(x.u) - x.now);
		assert_null(umad_peek(a, &len)); /* it came only once */
		assert_null(umad_peek(b, &len)); /* b was told of no failure */
	}
}

/* No agent receives the message: the sender is told. */
static void t_no_ack(void **state)
{
	struct ufix_msg q = ask(1, 1000, 0), r;
	const uint8_t *m;
	size_t len;

	(void)state;
	x.deaf = true;
	assert_int_equal(answer(&q, 1000, 2), 0);
	m = wait_for(b, &len, 100);
	assert_non_null(m);
	assert_int_equal(x.now / 1000000000, 1 + 3 * 2);
	assert_int_equal(ufix_read(b, &r), UMAD_HDR + MAD_HEAD);
	assert_int_equal(r.hdr.status, ETIMEDOUT);
	assert_int_equal(b->reqs, 0);
	umad_pop(a); /* the request timed out */
}

/* The rest of a message does not come: the receiver gives up after 40 s and sends an
 * ABORT. */
static void t_unfinished(void **state)
{
	struct ufix_msg q = ask(1, 100000, 0), r;
	struct mad_pkt pkt = { .slid = UFIX_LID_B,
			       .dlid = UFIX_LID_A,
			       .sqpn = 1,
			       .dqpn = 1,
			       .pkey = PKEY_DEFAULT };

	(void)state;
	memcpy(pkt.mad, q.mad, MAD_SIZE);
	rmpp_of(pkt.mad)->h.method = TABLE_RESP;
	rmpp_of(pkt.mad)->version = 1;
	rmpp_of(pkt.mad)->type = RMPP_DATA;
	rmpp_of(pkt.mad)->rtime_flags = RMPP_ACTIVE | RMPP_FIRST;
	rmpp_of(pkt.mad)->segment = be32(1);
	umad_input(x.u, UFIX_A, 1, &pkt);
	assert_true(a->rx_bytes > 0);
	x.sent = 0;
	ufix_run(&x, 40000000000);
	assert_int_equal(x.sent, 2); /* the ACK and the ABORT */
	ufix_run(&x, 10000000000);
	assert_int_equal(a->rx_bytes, 0);
	assert_int_equal(a->rxs, 0);
	assert_int_equal(ufix_read(a, &r), 0);
}

/* A sender that does RMPP itself may send on and on: what has become longer than any
 * message is stopped, and the program is told nothing. */
static void t_too_long(void **state)
{
	enum { MOST = (UMAD_MESSAGE_MAX - UMAD_HDR - HEAD) / 200 };
	struct ufix_msg q = ask(1, 1000000, 0);
	struct mad_pkt pkt = { .slid = UFIX_LID_B,
			       .dlid = UFIX_LID_A,
			       .sqpn = 1,
			       .dqpn = 1,
			       .pkey = PKEY_DEFAULT };
	struct rmpp_hdr *h = rmpp_of(pkt.mad);
	size_t len;

	(void)state;
	memcpy(pkt.mad, q.mad, MAD_SIZE);
	h->h.method = TABLE_RESP;
	h->version = 1;
	h->type = RMPP_DATA;
	for (uint32_t n = 1; n <= MOST + 1; n++) {
		h->rtime_flags = (uint8_t)(RMPP_ACTIVE | (n == 1 ? RMPP_FIRST : 0) |
					   (n == MOST + 1 ? RMPP_LAST : 0));
		h->segment = be32(n);
		h->length = be32(220);
		assert_int_equal(a->rxs, n > 1);
		umad_input(x.u, UFIX_A, 1, &pkt);
		if (n % 64 == 0)
			ufix_run(&x, 0);
	}
	assert_null(umad_peek(a, &len));
	assert_int_equal(a->rxs, 0);
	assert_int_equal(a->rx_bytes, 0);
}

/* A segment as a program that does RMPP itself reads or writes it. */
static struct ufix_msg segment(const struct ufix_msg *of, enum rmpp_type type, uint32_t n,
			       uint8_t flags, uint32_t length)
{
	struct ufix_msg m = *of;
	struct rmpp_hdr *h = rmpp_of(m.mad);

	m.hdr.timeout_ms = 0;
	h->version = 1;
	h->type = (uint8_t)type;
	h->rtime_flags = (uint8_t)(flags | RMPP_ACTIVE);
	h->segment = be32(n);
	h->length = be32(length);
	return m;
}

/* A program that does RMPP itself gets each segment, also those after the first, which
 * ends its request, and sends the ACKs. */
static void t_own_answer(void **state)
{
	struct umad_reg reg = {
		.class = MAD_SA, .version = 2, .rmpp = 1, .own_rmpp = true
	};
	struct ufix_msg q, s, ack;

	(void)state;
	assert_int_equal(umad_unregister(a, 0), 0);
	assert_int_equal(umad_register(a, &reg), 0);
	q = ask(1, 1000, 0);
	assert_int_equal(answer(&q, 65 * 200, 3), 0);
	assert_int_equal(b->reqs, 1);
	ufix_run(&x, 0);
	/* the window is 1 until it is acknowledged */
	assert_int_equal(ufix_read(a, &s), sizeof(s));
	assert_int_equal(get_be32(rmpp_of(s.mad)->segment), 1);
	assert_int_equal(a->reqs, 0); /* the request is answered */
	assert_int_equal(ufix_read(a, &s), 0);
	for (uint32_t n = 1, window; n <= 65; n = window + 1) {
		window = n + 9 < 65 ? n + 9 : 65;
		ack = segment(&q, RMPP_ACK, n == 1 ? 1 : n - 1, 0, window);
		ack.hdr.agent = 0;
		ack.hdr.lid = be16(UFIX_LID_B);
		assert_int_equal(ufix_write(&x, a, &ack), 0);
		for (uint32_t i = n == 1 ? 2 : n; i <= window; i++) {
			assert_int_equal(ufix_read(a, &s), sizeof(s));
			assert_int_equal(s.hdr.status, 0);
			assert_int_equal(get_be32(rmpp_of(s.mad)->segment), i);
			assert_int_equal(s.mad[HEAD + 3], byte((i - 1) * 200 + 3));
		}
	}
	assert_int_equal(ufix_read(a, &s), 0);
	ack = segment(&q, RMPP_ACK, 65, 0, 65);
	ack.hdr.lid = be16(UFIX_LID_B);
	assert_int_equal(ufix_write(&x, a, &ack), 0);
	assert_int_equal(b->reqs, 0);
}

/* A program that does RMPP itself sends all segments with one TID, and gets the ACKs. */
static void t_own_question(void **state)
{
	struct umad_reg reg = {
		.class = MAD_SA, .version = 2, .rmpp = 1, .own_rmpp = true
	};
	struct ufix_msg q = ufix_msg(0, UFIX_LID_B, MAD_SA, METHOD_GET_MULTI, 0x3a, 9), s,
			r;
	const uint8_t *got;
	size_t len;

	(void)state;
	assert_int_equal(umad_unregister(a, 0), 0);
	assert_int_equal(umad_register(a, &reg), 0);
	for (uint32_t n = 1; n <= 3; n++) {
		s = segment(&q, RMPP_DATA, n,
			    (uint8_t)(n == 1   ? RMPP_FIRST
				      : n == 3 ? RMPP_LAST
					       : 0),
			    n == 1   ? 3 * 220
			    : n == 3 ? 220
				     : 0);
		for (unsigned i = 0; i < 200; i++)
			s.mad[HEAD + i] = byte((n - 1) * 200 + i);
		s.hdr.timeout_ms = n == 3 ? 1000 : 0;
		assert_int_equal(ufix_write(&x, a, &s), 0);
	}
	got = umad_peek(b, &len);
	assert_non_null(got);
	check(got, len, 600);
	memcpy(&q, got, sizeof(q));
	umad_pop(b);
	assert_int_equal(answer(&q, 0, 3), 0);
	ufix_run(&x, 0);
	do /* the program's own ACKs are answers, too */
		assert_int_equal(ufix_read(a, &r), sizeof(r));
	while (rmpp_of(r.mad)->type == RMPP_ACK);
	assert_int_equal(rmpp_of(r.mad)->type, RMPP_DATA);
	assert_int_equal(a->reqs, 0);
}

/* A long request, and its answer. */
static void t_two_sided(void **state)
{
	enum { LEN = 5000 };
	uint8_t *m = calloc(1, UMAD_HDR + HEAD + LEN);
	struct ufix_msg q = ufix_msg(0, UFIX_LID_B, MAD_SA, METHOD_GET_MULTI, 0x3a, 9);
	const uint8_t *got;
	size_t len;

	(void)state;
	q.hdr.timeout_ms = 1000;
	memcpy(m, &q, UMAD_HDR + HEAD);
	rmpp_of(m + UMAD_HDR)->rtime_flags = RMPP_ACTIVE;
	for (size_t i = 0; i < LEN; i++)
		m[UMAD_HDR + HEAD + i] = byte(i);
	assert_int_equal(umad_write(a, m, UMAD_HDR + HEAD + LEN, x.now), 0);
	free(m);
	ufix_run(&x, 0);
	got = umad_peek(b, &len);
	assert_non_null(got);
	check(got, len, LEN);
	memcpy(&q, got, sizeof(q));
	umad_pop(b);
	assert_int_equal(a->reqs, 1);
	assert_int_equal(answer(&q, 777, 3), 0);
	/* The segment has the request's method. */
	ufix_run(&x, 0);
	got = umad_peek(a, &len);
	assert_non_null(got);
	check(got, len, 777);
	umad_pop(a);
	assert_int_equal(a->reqs, 0);
	assert_int_equal(b->reqs, 0);
}

/* A file is closed while messages are being sent and received. */
static void t_close(void **state)
{
	struct umad_reg reg = { .class = MAD_SA, .version = 2, .rmpp = 1 };
	struct ufix_msg q = ask(1, 1000, 0);

	(void)state;
	assert_int_equal(answer(&q, 100000, 3), 0);
	umad_close(a);
	ufix_run(&x, 0);
	assert_int_equal(b->reqs, 1);
	assert_int_equal(umad_open(x.u, UFIX_A, 1, &a, &a), 0);
	assert_int_equal(umad_register(a, &reg), 0);
	ufix_run(&x, 1000000000);
	assert_int_equal(answer(&q, 100, 3), -EINVAL); /* the first answer is under way */
}

/* Segments of any kind do no harm. */
static void t_random(void **state)
{
	struct ufix_msg q = ask(1, 3600000, 0);

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		struct mad_pkt pkt = { .slid = UFIX_LID_B,
				       .dlid = UFIX_LID_A,
				       .sqpn = 1,
				       .dqpn = 1,
				       .pkey = PKEY_DEFAULT };
		struct rmpp_hdr *h = rmpp_of(pkt.mad);
		struct umad_file *to = i & 1 ? a : b;
		size_t len;

		memcpy(pkt.mad, q.mad, MAD_SIZE);
		h->h.method = rand_below(&x.rand, 2) ? TABLE_RESP : GET_TABLE;
		h->h.tid = rand_below(&x.rand, 8) ? h->h.tid : be64(rand_u64(&x.rand));
		h->version = (uint8_t)(rand_below(&x.rand, 20) != 0);
		h->type = (uint8_t)rand_below(&x.rand, 6);
		h->rtime_flags = (uint8_t)(rand_below(&x.rand, 8) | RMPP_ACTIVE);
		h->status = rand_below(&x.rand, 10) ? 0 : (uint8_t)rand_u64(&x.rand);
		h->segment = be32((uint32_t)rand_below(&x.rand, 6));
		h->length = be32((uint32_t)rand_below(&x.rand, 300));
		umad_input(x.u, to == a ? UFIX_A : UFIX_B, 1, &pkt);
		if (i % 1000 == 0)
			answer(&q, rand_below(&x.rand, 3000), 1);
		ufix_run(&x, rand_below(&x.rand, 100000000));
		while (umad_peek(a, &len))
			umad_pop(a);
		while (umad_peek(b, &len))
			umad_pop(b);
	}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_lengths),    TEST(t_many),	  TEST(t_loss),
		TEST(t_no_ack),	    TEST(t_unfinished),	  TEST(t_too_long),
		TEST(t_own_answer), TEST(t_own_question), TEST(t_two_sided),
		TEST(t_close),	    TEST(t_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
