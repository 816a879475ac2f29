/* SPDX-License-Identifier: BSD-2-Clause */
/* Built headers are parsed back; frames that are no packet of RoCE v2 or v1 are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/ip_addr.h"
#include "net/raw_frame.h"
#include "sys/rand.h"

enum { PORT = 4791, PAYLOAD = 64 };

static struct prng rnd;

static void draw(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rand_u64(&rnd);
}

static void draw_addresses(struct ip_addr *a, bool v4)
{
	draw(a->from.ip, 16);
	draw(a->to.ip, 16);
	if (v4) {
		addr_map_v4(a->from.ip, a->from.ip + 12);
		addr_map_v4(a->to.ip, a->to.ip + 12);
	} else {
		a->from.ip[0] = a->to.ip[0] = 0xfd;
	}
	a->from.port = (uint16_t)rand_u64(&rnd);
	a->to.port = PORT;
	a->tclass = (uint8_t)rand_u64(&rnd);
	a->ttl = (uint8_t)rand_u64(&rnd);
}

/* Makes a datagram with random addresses, and its frame: headers and len bytes. Returns
 * the frame's length. */
static size_t make(struct dgram *d, uint8_t *at, bool v4, size_t len)
{
	size_t n;

	memset(d, 0, sizeof(*d));
	draw_addresses(ip_of(d), v4);
	d->len = (uint32_t)len;
	d->ip_id = v4 ? (uint16_t)rand_u64(&rnd) : 0;
	n = raw_frame_build(at, d, len);
	assert_int_equal(n, (v4 ? RAW_IP4 : RAW_IP6) + RAW_UDP);
	draw(at + n, len);
	return n + len;
}

/* Corrects IPv4's checksum after a change of the header. */
static void sum_again(uint8_t *at)
{
	uint16_t sum;

	at[10] = at[11] = 0;
	sum = raw_ip_sum(at, RAW_IP4);
	at[10] = (uint8_t)(sum >> 8);
	at[11] = (uint8_t)sum;
}

static void what_is_built_is_read(void **state)
{
	uint8_t at[RAW_HEAD_MAX + PAYLOAD + 20];
	struct dgram d, got;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		bool v4 = i % 2;
		size_t len = rand_below(&rnd, PAYLOAD + 1), n = make(&d, at, v4, len);
		size_t pad = rand_below(&rnd, 20); /* padding, as of a short frame */

		assert_true(raw_frame_parse(&got, at, n + pad, PORT));
		assert_memory_equal(&got.addr, &d.addr, sizeof(d.addr));
		assert_int_equal(got.ip_id, d.ip_id);
		assert_true(got.ip_id_exact);
		assert_false(got.may_fragment);
		assert_int_equal(got.len, len);
		assert_ptr_equal(got.iov, &got.one);
		assert_int_equal(got.one.iov_len, len);
		assert_ptr_equal(got.one.iov_base, at + n - len);
	}
}

static void what_is_cut_is_refused(void **state)
{
	uint8_t at[RAW_HEAD_MAX + PAYLOAD];
	struct dgram d, got;

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		size_t n = make(&d, at, v4, PAYLOAD);

		for (size_t cut = 0; cut < n; cut++) {
			/* An exact copy, so that ASan sees reads past the end. */
			uint8_t *exact = malloc(cut + 1);

			memcpy(exact, at, cut);
			assert_false(raw_frame_parse(&got, exact, cut, PORT));
			free(exact);
		}
	}
}

struct wrong {
	const char *what;
	bool v4;
	unsigned at;
	uint8_t value;
	bool sum; /* IPv4's checksum is corrected */
};

static const struct wrong wrongs[] = {
	{ "version", true, 0, 0x55, true },
	{ "options", true, 0, 0x46, true },
	{ "less than a header", true, 0, 0x44, true },
	{ "length beyond the frame", true, 2, 0xff, true },
	{ "length of less than the headers", true, 3, 27, true },
	{ "more fragments", true, 6, 0x60, true },
	{ "a fragment's place", true, 7, 1, true },
	{ "a reserved flag", true, 6, 0xc0, true },
	{ "TCP", true, 9, 6, true },
	{ "checksum", true, 8, 1, false },
	{ "port", true, RAW_IP4 + 3, 0, false },
	{ "length of UDP", true, RAW_IP4 + 5, 9, false },
	{ "length of UDP, high byte", true, RAW_IP4 + 4, 1, false },
	{ "version", false, 0, 0x70, false },
	{ "extension header", false, 6, 44, false },
	{ "length beyond the frame", false, 4, 1, false },
	{ "length of less than a UDP header", false, 5, 7, false },
	{ "port", false, RAW_IP6 + 2, 0, false },
	{ "length of UDP", false, RAW_IP6 + 5, 9, false },
};

static void what_is_wrong_is_refused(void **state)
{
	uint8_t at[RAW_HEAD_MAX + PAYLOAD];
	struct dgram d, got;

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
		const struct wrong *w = &wrongs[i];
		size_t n = make(&d, at, w->v4, PAYLOAD - 20);

		at[8] = w->v4 ? 64 : at[8]; /* differs from all values above */
		if (w->v4)
			sum_again(at);
		assert_true(raw_frame_parse(&got, at, n, PORT));
		at[w->at] = w->value;
		if (w->sum)
			sum_again(at);
		if (raw_frame_parse(&got, at, n, PORT))
			fail_msg("IPv%d: %s is taken", w->v4 ? 4 : 6, w->what);
	}
}

static const uint8_t v1_frame[40 + 16] = {
	0x61, 0x20, 0, 0, 0,	16,   0x1b, 63, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0xff,
	0xff, 10,   0, 0, 1,	0xfd, 0,    0,	0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0,
	0,    2,    4, 0, 0xff, 0xff, 0,    0,	0, 17, 0, 0, 0, 9, 1, 2, 3, 4,
};

static void grh_bytes(void **state)
{
	uint8_t head[RAW_HEAD_MAX], frame[sizeof(v1_frame) + 4] = { 0 };
	struct dgram d;

	(void)state;
	memcpy(frame, v1_frame, sizeof(v1_frame));
	assert_true(raw_grh_parse(&d, frame, sizeof(frame)));
	assert_int_equal(ip_of(&d)->v1, 1);
	assert_int_equal(ip_of(&d)->tclass, 0x12);
	assert_int_equal(ip_of(&d)->ttl, 63);
	assert_memory_equal(ip_of(&d)->from.ip, v1_frame + 8, 16);
	assert_memory_equal(ip_of(&d)->to.ip, v1_frame + 24, 16);
	assert_int_equal(ip_of(&d)->from.port | ip_of(&d)->to.port, 0);
	assert_true(d.ip_id_exact);
	assert_int_equal(d.len, 16);
	assert_ptr_equal(d.iov, &d.one);
	assert_int_equal(d.one.iov_len, 16);
	assert_ptr_equal(d.one.iov_base, frame + RAW_GRH);
	assert_int_equal(raw_grh_build(head, &d, 16), RAW_GRH);
	assert_memory_equal(head, v1_frame, RAW_GRH);
}

static void bad_grhs_are_refused(void **state)
{
	static const struct {
		size_t at, n;
		uint8_t value;
	} row[] = {
		{ 0, 56, 0x41 }, /* version 4 */
		{ 0, 56, 0x71 }, /* version 7 */
		{ 6, 56, 17 },	 /* UDP: RoCE v2's */
		{ 6, 56, 0x1a }, /* another next header */
		{ 5, 56, 17 },	 /* longer than the frame */
		{ 4, 56, 1 },	 /* much longer */
		{ 5, 56, 15 },	 /* no BTH and ICRC */
		{ 5, 56, 0 },	 /* nothing */
		{ 5, 55, 16 },	 /* a frame that is cut */
		{ 5, 40, 16 },	 /* no more than a GRH */
		{ 5, 39, 0 },	 /* less */
		{ 5, 0, 0 },	 /* nothing at all */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		uint8_t at[sizeof(v1_frame)], *exact = malloc(row[i].n + 1);
		struct dgram d;

		memcpy(at, v1_frame, sizeof(at));
		at[row[i].at] = row[i].value;
		memcpy(exact, at, row[i].n);
		if (raw_grh_parse(&d, exact, row[i].n))
			fail_msg("row %zu is taken", i);
		free(exact);
	}
}

static void without_df(void **state)
{
	uint8_t at[RAW_HEAD_MAX + PAYLOAD];
	struct dgram d, got;
	size_t n = make(&d, at, true, 20);

	(void)state;
	at[6] = 0;
	sum_again(at);
	assert_true(raw_frame_parse(&got, at, n, PORT));
	assert_true(got.may_fragment);
}

/* Random bytes: the payload of an accepted frame lies within the frame. */
static void any_bytes(void **state)
{
	unsigned taken = 0;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t at[RAW_HEAD_MAX + PAYLOAD], *exact;
		struct dgram d, got;
		size_t n = make(&d, at, i % 2, rand_below(&rnd, PAYLOAD + 1));

		for (unsigned k = (unsigned)rand_below(&rnd, 4); k > 0; k--)
			at[rand_below(&rnd, n)] = (uint8_t)rand_u64(&rnd);
		if (i % 2)
			sum_again(at);
		n -= rand_below(&rnd, 4) == 0 ? rand_below(&rnd, n) : 0;
		exact = malloc(n + 1);
		memcpy(exact, at, n);
		if (raw_frame_parse(&got, exact, n, PORT)) {
			const uint8_t *from = got.one.iov_base;

			taken++;
			assert_true(from >= exact && from + got.len <= exact + n);
		}
		free(exact);
	}
	assert_true(taken > 1000);
}

int main(void)
{
	const char *text = getenv("URNIC_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : rand_start();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_built_is_read),
		cmocka_unit_test(what_is_cut_is_refused),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(grh_bytes),
		cmocka_unit_test(bad_grhs_are_refused),
		cmocka_unit_test(without_df),
		cmocka_unit_test(any_bytes),
	};

	printf("URNIC_TEST_SEED=%llu\n", (unsigned long long)seed);
	rand_seed(&rnd, seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
