/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the ICRC against a bitwise one written from the standard's text, and the solver
 * with every identification.  capture_test.c has real packets. */
#include "wire/icrc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct icrc_path v4 = {
	.src = { [10] = 0xff, 0xff, 10, 77, 1, 11 },
	.dst = { [10] = 0xff, 0xff, 10, 77, 1, 12 },
	.sport = 0xc001,
	.dport = 4791,
};
static const struct icrc_path v6 = {
	.src = { 0xfd, 0x77, 0, 1, [15] = 0x11 },
	.dst = { 0xfd, 0x77, 0, 1, [15] = 0x12 },
	.sport = 0xffff,
	.dport = 4791,
};

static const struct icrc_path v1 = {
	.src = { [10] = 0xff, 0xff, 10, 77, 1, 11 },
	.dst = { [10] = 0xff, 0xff, 10, 77, 1, 12 },
	.v1 = true,
};

static uint32_t bitwise(const uint8_t *p, size_t n)
{
	uint32_t crc = 0xffffffff;

	for (; n > 0; n--, p++) {
		crc ^= *p;
		for (int i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (; n > 0; n--, p++) {
		seed = seed * 1103515245 + 12345;
		*p = (uint8_t)(seed >> 16);
	}
}

/* IBTA annex A16: a GRH. */
static uint32_t expect_v1(const uint8_t *bth, size_t n)
{
	const uint8_t head[8] = {
		0x6f, 0xff, 0xff, 0xff, (uint8_t)((n + 4) >> 8), (uint8_t)(n + 4),
		0x1b, 0xff
	};
	uint8_t all[8 + 40 + 5000];

	memset(all, 0xff, 8);
	memcpy(all + 8, head, 8);
	memcpy(all + 16, v1.src, 16);
	memcpy(all + 32, v1.dst, 16);
	memcpy(all + 48, bth, n);
	all[48 + 4] = 0xff;
	return bitwise(all, 48 + n);
}

static uint32_t expect(const struct icrc_path *path, uint16_t id, const uint8_t *bth,
		       size_t n)
{
	uint8_t all[8 + 40 + 8 + 5000];
	size_t udp = 8 + n + 4, at = 8;

	memset(all, 0xff, sizeof(all)); /* a field that is not set below is masked */
	if (path == &v4) {
		/* clang-format off */
		const uint8_t ip[20] = {
			0x45, 0xff, (uint8_t)((20 + udp) >> 8), (uint8_t)(20 + udp),
			(uint8_t)(id >> 8), (uint8_t)id, 0x40, 0, 0xff, 17,
			0xff, 0xff, 10, 77, 1, 11, 10, 77, 1, 12,
		};
		/* clang-format on */

		memcpy(all + at, ip, 20);
		at += 20;
	} else {
		const uint8_t ip[8] = {
			0x6f,	      0xff, 0xff, 0xff, (uint8_t)(udp >> 8),
			(uint8_t)udp, 17,   0xff
		};

		memcpy(all + at, ip, 8);
		memcpy(all + at + 8, path->src, 16);
		memcpy(all + at + 24, path->dst, 16);
		at += 40;
	}
	all[at] = (uint8_t)(path->sport >> 8);
	all[at + 1] = (uint8_t)path->sport;
	all[at + 2] = (uint8_t)(path->dport >> 8);
	all[at + 3] = (uint8_t)path->dport;
	all[at + 4] = (uint8_t)(udp >> 8);
	all[at + 5] = (uint8_t)udp;
	at += 8;
	memcpy(all + at, bth, n);
	all[at + 4] = 0xff;
	return bitwise(all, at + n);
}

static void is_the_crc_of_the_masked_packet(void **state)
{
	static const size_t sizes[] = { 12, 16, 28, 40, 43, 44, 45, 60, 1040, 4124 };
	uint8_t pkt[4200];

	(void)state;
	fill(pkt, sizeof(pkt), 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		assert_int_equal(icrc_start(&v4, 0x1234, n + 4, pkt, n),
				 expect(&v4, 0x1234, pkt, n));
		assert_int_equal(icrc_start(&v6, 0x1234, n + 4, pkt, n),
				 expect(&v6, 0, pkt, n));
		assert_int_equal(icrc_start(&v1, 0x1234, n + 4, pkt, n),
				 expect_v1(pkt, n));
	}
}

static void pieces_make_the_same_crc(void **state)
{
	uint8_t pkt[1200];
	uint32_t whole;

	(void)state;
	fill(pkt, sizeof(pkt), 2);
	whole = icrc_start(&v4, 9, sizeof(pkt) + 4, pkt, sizeof(pkt));
	for (size_t a = 12; a < sizeof(pkt); a += 7) {
		size_t b = a + (sizeof(pkt) - a) / 2;
		uint32_t crc = icrc_start(&v4, 9, sizeof(pkt) + 4, pkt, a);

		crc = icrc_add(crc, pkt + a, b - a);
		crc = icrc_add(crc, pkt + b, sizeof(pkt) - b);
		assert_int_equal(crc, whole);
	}
}

static void what_routers_change_is_not_covered(void **state)
{
	uint8_t pkt[40];
	uint32_t before;

	(void)state;
	fill(pkt, sizeof(pkt), 3);
	before = icrc_start(&v4, 0, sizeof(pkt) + 4, pkt, sizeof(pkt));
	for (size_t i = 0; i < sizeof(pkt); i++) {
		uint32_t crc;

		pkt[i] ^= 0x40;
		crc = icrc_start(&v4, 0, sizeof(pkt) + 4, pkt, sizeof(pkt));
		pkt[i] ^= 0x40;
		assert_int_equal(crc == before, i == 4);
	}
}

static void goes_on_the_wire_low_byte_first(void **state)
{
	uint8_t at[4];

	(void)state;
	icrc_end(0x11223344, at);
	assert_memory_equal(at, "\x44\x33\x22\x11", 4);
	assert_int_equal(icrc_get(at), 0x11223344);
	icrc_end(0x80ffee80, at);
	assert_int_equal(icrc_get(at), 0x80ffee80);
}

static void the_solver_finds_every_identification(void **state)
{
	static const size_t sizes[] = { 12, 16, 1040, 1041, 4124, 65000 };
	static uint8_t pkt[65000];

	(void)state;
	fill(pkt, sizeof(pkt), 4);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i], step = n < 100 ? 1 : n < 5000 ? 97 : 4001;
		uint32_t with0 = icrc_start(&v4, 0, n + 4, pkt, n);

		for (size_t id = 0; id < 0x10000; id += step) {
			uint32_t wire = icrc_start(&v4, (uint16_t)id, n + 4, pkt, n);
			uint16_t got = (uint16_t)~id;

			assert_true(icrc_solve_ip_id(with0, wire, icrc_after_id(n + 4),
						     &got));
			assert_int_equal(got, id);
		}
	}
}

/* A bit that flips elsewhere is not mistaken for an identification. */
static void the_solver_refuses_a_corrupt_packet(void **state)
{
	uint8_t pkt[1040];
	uint32_t wire;
	uint16_t id = 77;

	(void)state;
	fill(pkt, sizeof(pkt), 5);
	wire = icrc_start(&v4, 0x4321, sizeof(pkt) + 4, pkt, sizeof(pkt));
	for (size_t bit = 0; bit < 8 * sizeof(pkt); bit++) {
		uint32_t crc;

		if (bit / 8 == 4)
			continue;
		pkt[bit / 8] ^= (uint8_t)(1 << bit % 8);
		crc = icrc_start(&v4, 0, sizeof(pkt) + 4, pkt, sizeof(pkt));
		pkt[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (icrc_solve_ip_id(crc, wire, icrc_after_id(sizeof(pkt) + 4), &id))
			fail_msg("bit %zu is explained by %u", bit, id);
		assert_int_equal(id, 77);
	}
}

/* What packets have in common is computed once; the rest of each follows. */
static void is_the_same_in_two_parts(void **state)
{
	const struct icrc_path *paths[] = { &v4, &v6, &v1 };
	uint8_t pkt[1040];

	(void)state;
	fill(pkt, sizeof(pkt), 5);
	for (unsigned i = 0; i < 3; i++)
		for (size_t n = 12; n <= sizeof(pkt); n += n < 60 ? 4 : 245)
			for (uint32_t id = 0; id < 0x10000; id += 1 + id / 3) {
				const uint16_t ip_id = i == 0 ? (uint16_t)id : 0;
				uint32_t crc = icrc_shared(paths[i], n + 4, pkt);

				crc = icrc_add(icrc_with_id(crc, ip_id),
					       pkt + ICRC_SHARED, n - ICRC_SHARED);
				assert_int_equal(crc, icrc_start(paths[i], ip_id, n + 4,
								 pkt, n));
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_same_in_two_parts),
		cmocka_unit_test(is_the_crc_of_the_masked_packet),
		cmocka_unit_test(pieces_make_the_same_crc),
		cmocka_unit_test(what_routers_change_is_not_covered),
		cmocka_unit_test(goes_on_the_wire_low_byte_first),
		cmocka_unit_test(the_solver_finds_every_identification),
		cmocka_unit_test(the_solver_refuses_a_corrupt_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
