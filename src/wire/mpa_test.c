/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void hello_is_as_the_diagram_says(void **state)
{
	static const uint8_t want[] = "MPA ID Req Frame"
				      "\x50\x02\x00\x06"
				      "\x80\x01\xc0\x10"
				      "hi";
	struct mpa_hello h = {
		.flags = MPA_CRC | MPA_ENHANCED,
		.revision = 2,
		.peer_to_peer = true,
		.rtr = MPA_RTR_WRITE | MPA_RTR_READ,
		.ird = 1,
		.ord = 16,
		.data = (const uint8_t *)"hi",
		.data_len = 2,
	};
	uint8_t at[MPA_HELLO_MAX];

	(void)state;
	assert_int_equal(mpa_hello_build(at, &h), sizeof(want) - 1);
	assert_memory_equal(at, want, sizeof(want) - 1);
	h.reply = true;
	mpa_hello_build(at, &h);
	assert_memory_equal(at, "MPA ID Rep Frame", 16);
}

static void same(const struct mpa_hello *a, const struct mpa_hello *b)
{
	assert_int_equal(a->reply, b->reply);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->revision, b->revision);
	assert_int_equal(a->peer_to_peer, b->peer_to_peer);
	assert_int_equal(a->rtr, b->rtr);
	assert_int_equal(a->ird, b->ird);
	assert_int_equal(a->ord, b->ord);
	assert_int_equal(a->data_len, b->data_len);
	assert_memory_equal(a->data, b->data, a->data_len);
}

static void hello_there_and_back(void **state)
{
	uint8_t at[MPA_HELLO_MAX], data[MPA_PRIVATE_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < 256; i++) {
		struct mpa_hello back, h = {
			.reply = i & 1,
			.revision = 2,
			.rtr = i >> 1 & 7,
			.flags = (uint8_t)(i & 0xf0),
			.data = data,
			.data_len = (uint16_t)(i & 8 ? 508 : i),
			.ird = 0x3fff,
			.ord = (uint16_t)(0x2aaa + i),
			.peer_to_peer = i & 4,
		};
		size_t n;

		if (!(h.flags & MPA_ENHANCED)) {
			h.ird = h.ord = 0;
			h.rtr = h.peer_to_peer = 0;
		}
		n = mpa_hello_build(at, &h);
		assert_int_equal(mpa_hello_need(at, n), n);
		assert_int_equal(mpa_hello_parse(&back, at, n), 0);
		same(&h, &back);
	}
}

static void how_long_a_hello_is(void **state)
{
	static const uint8_t data[512];
	uint8_t at[MPA_HELLO_MAX];
	struct mpa_hello back, h = { .revision = 1, .data = data, .data_len = 512 };

	(void)state;
	assert_int_equal(mpa_hello_build(at, &h), MPA_HELLO_MAX);
	assert_int_equal(mpa_hello_need(at, 0), MPA_HELLO_LEN);
	assert_int_equal(mpa_hello_need(at, 19), MPA_HELLO_LEN);
	assert_int_equal(mpa_hello_need(at, 20), MPA_HELLO_MAX);
	for (size_t n = 0; n < MPA_HELLO_MAX; n++)
		assert_int_equal(mpa_hello_parse(&back, at, n), -EBADMSG);
	assert_int_equal(mpa_hello_parse(&back, at, MPA_HELLO_MAX), 0);

	at[18] = 2, at[19] = 1; /* 513 */
	assert_int_equal(mpa_hello_need(at, 20), 0);
	at[18] = 0, at[19] = 3; /* no room for IRD and ORD */
	at[16] = MPA_ENHANCED;
	assert_int_equal(mpa_hello_parse(&back, at, 23), 0);
	at[17] = 2;
	assert_int_equal(mpa_hello_parse(&back, at, 23), -EBADMSG);
}

/* Every byte of the key is checked as soon as it is there. */
static void another_key_is_refused(void **state)
{
	uint8_t at[MPA_HELLO_MAX];
	struct mpa_hello h = { .revision = 1 }, back;

	(void)state;
	for (size_t i = 0; i < 16; i++) {
		size_t n = mpa_hello_build(at, &h);

		at[i] ^= 0x20;
		assert_int_equal(mpa_hello_need(at, i), MPA_HELLO_LEN);
		assert_int_equal(mpa_hello_need(at, i + 1), 0);
		assert_int_equal(mpa_hello_parse(&back, at, n), -EBADMSG);
	}
}

static void fpdu_lengths(void **state)
{
	(void)state;
	assert_int_equal(mpa_fpdu_len(0), 8);
	assert_int_equal(mpa_fpdu_len(2), 8);
	assert_int_equal(mpa_fpdu_len(3), 12);
	for (size_t n = 0; n < 100; n++)
		assert_int_equal(mpa_fpdu_len(n) % 4, 0);
	assert_int_equal(mpa_fpdu_len(MPA_ULPDU_MAX), MPA_FPDU_MAX);
	/* As siw computes it for an MTU of 1500. */
	assert_int_equal(mpa_mulpdu(1448, false), 1442);
	assert_int_equal(mpa_mulpdu(100000, false), MPA_ULPDU_MAX);
	assert_int_equal(mpa_mulpdu(0, true), 128);
	for (size_t mss = 200; mss < 9000; mss++) {
		size_t n = mpa_mulpdu(mss, true);

		for (uint32_t pos = 0; pos < 1024; pos += 4)
			assert_true(mpa_marked_len(mpa_fpdu_len(n), pos) <= mss);
	}
}

/* RFC 3720, B.4. */
static void crc_of_the_known_patterns(void **state)
{
	static const uint8_t zeroes[32], want0[] = { 0xaa, 0x36, 0x91, 0x8a },
					 want1[] = { 0x43, 0xab, 0xa8, 0x62 };
	uint8_t ones[32], at[4];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	mpa_crc_put(mpa_crc(MPA_CRC_START, zeroes, 32), at);
	assert_memory_equal(at, want0, 4);
	mpa_crc_put(mpa_crc(mpa_crc(MPA_CRC_START, ones, 7), ones + 7, 25), at);
	assert_memory_equal(at, want1, 4);
	assert_true(mpa_crc_is(mpa_crc(MPA_CRC_START, ones, 32), at));
	at[3] ^= 1;
	assert_false(mpa_crc_is(mpa_crc(MPA_CRC_START, ones, 32), at));
}

static void markers_there_and_back(void **state)
{
	uint8_t src[3000], there[4000], back[3000];

	(void)state;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 3 + i / 256);
	for (uint32_t pos = 0; pos < 1024; pos += 4) {
		for (size_t n = 8; n <= sizeof(src); n += 68) {
			size_t len = mpa_mark(there, src, n, pos);

			assert_int_equal(len, mpa_marked_len(n, pos));
			memset(back, 0, n);
			assert_true(mpa_unmark(back, there, n, pos));
			assert_memory_equal(back, src, n);
		}
	}
}

/* A marker in every 512 bytes of the stream, markers counted, points back to the length
 * field. */
static void where_markers_stand(void **state)
{
	uint8_t src[1200], at[1300];

	(void)state;
	memset(src, 0xaa, sizeof(src));
	assert_int_equal(mpa_mark(at, src, 1200, 0), 1212);
	assert_memory_equal(at, "\0\0\0\0\xaa", 5);
	assert_memory_equal(at + 511, "\xaa\0\0\x01\xfc\xaa", 6); /* 508 */
	assert_memory_equal(at + 1024, "\0\0\x03\xfc", 4);
	assert_int_equal(mpa_mark(at, src, 1200, 12), 1208);
	assert_memory_equal(at + 500, "\0\0\x01\xf4", 4);
	/* A marker at the FPDU's end belongs to the next FPDU. */
	assert_int_equal(mpa_marked_len(500, 12), 500);
	assert_int_equal(mpa_marked_len(501, 12), 505);

	assert_int_equal(mpa_mark(at, src, 1200, 12), 1208);
	at[503]++;
	assert_false(mpa_unmark(src, at, 1200, 12));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_is_as_the_diagram_says),
		cmocka_unit_test(hello_there_and_back),
		cmocka_unit_test(how_long_a_hello_is),
		cmocka_unit_test(another_key_is_refused),
		cmocka_unit_test(fpdu_lengths),
		cmocka_unit_test(crc_of_the_known_patterns),
		cmocka_unit_test(markers_there_and_back),
		cmocka_unit_test(where_markers_stand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
