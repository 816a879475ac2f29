/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t a4[16] = { [10] = 0xff, 0xff, 10, 77, 1, 11 };
static const uint8_t b4[16] = { [10] = 0xff, 0xff, 10, 77, 1, 12 };
static const uint8_t a6[16] = { 0xfd, 0x77, 0, 1, [15] = 0x11 };
static const uint8_t b6[16] = { 0xfd, 0x77, 0, 1, [15] = 0x12 };

/* The one's complement sum over a header with a correct checksum is all ones. */
static unsigned ones_sum(const uint8_t *at, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void ipv4_stands_in_the_last_20_bytes(void **state)
{
	static const uint8_t want[40] = {
		[20] = 0x45, 0x2a, 0,  20 + 8 + 44, 0xab, 0xcd, 0x40, 0,  63, 17,
		0,	     0,	   10, 77,	    1,	  11,	10,   77, 1,  12,
	};
	uint8_t got[40];

	(void)state;
	memset(got, 0xee, sizeof(got));
	grh_build(got, &(struct grh_fields){ .src = a4,
					     .dst = b4,
					     .tclass = 0x2a,
					     .ttl = 63,
					     .ip_id = 0xabcd,
					     .flow_label = 0x12345,
					     .udp_len = 44 });
	assert_int_equal(ones_sum(got + 20, 20), 0xffff);
	got[30] = got[31] = 0;
	assert_memory_equal(got, want, sizeof(got));
}

/* ibv_init_ah_from_wc() recognises an IPv4 header by its checksum, so it must be correct
 * whatever the carries are. */
static void the_checksum_holds_for_every_identification(void **state)
{
	uint8_t got[40];

	(void)state;
	for (unsigned id = 0; id < 0x10000; id++) {
		grh_build(got, &(struct grh_fields){ .src = a4,
						     .dst = b4,
						     .tclass = 0xff,
						     .ttl = 255,
						     .ip_id = (uint16_t)id,
						     .udp_len = 4200 });
		assert_int_equal(ones_sum(got + 20, 20), 0xffff);
	}
}

static void ipv6_fills_all_40(void **state)
{
	/* clang-format off */
	static const uint8_t want[40] = {
		0x62, 0xa1, 0x23, 0x45, 0, 8 + 44, 17, 63,
		0xfd, 0x77, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11,
		0xfd, 0x77, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12,
	};
	/* clang-format on */
	uint8_t got[40];

	(void)state;
	memset(got, 0xee, sizeof(got));
	grh_build(got, &(struct grh_fields){ .src = a6,
					     .dst = b6,
					     .tclass = 0x2a,
					     .ttl = 63,
					     .ip_id = 0xabcd,
					     .flow_label = 0x12345,
					     .udp_len = 44 });
	assert_memory_equal(got, want, sizeof(got));
}

/* With v1 IPv4 addresses are GIDs in a GRH, too. */
static void v1_has_a_grh(void **state)
{
	/* clang-format off */
	static const uint8_t want[40] = {
		0x62, 0xa0, 0, 0, 0, 44, 0x1b, 63,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2,
	};
	/* clang-format on */
	uint8_t got[40], src[16], dst[16];

	(void)state;
	memset(got, 0xee, sizeof(got));
	grh_build(got, &(struct grh_fields){ .src = want + 8,
					     .dst = want + 24,
					     .tclass = 0x2a,
					     .ttl = 63,
					     .udp_len = 44,
					     .v1 = true });
	assert_memory_equal(got, want, sizeof(got));
	grh_ends(got, src, dst);
	assert_memory_equal(src, want + 8, 16);
	assert_memory_equal(dst, want + 24, 16);
}

static void the_ends_are_read_back(void **state)
{
	static const uint8_t *const ends[][2] = { { a4, b4 }, { a6, b6 } };
	uint8_t head[40], src[16], dst[16];

	(void)state;
	for (int i = 0; i < 2; i++) {
		grh_build(head, &(struct grh_fields){ .src = ends[i][0],
						      .dst = ends[i][1],
						      .tclass = 0x45,
						      .udp_len = 280 });
		grh_ends(head, src, dst);
		assert_memory_equal(src, ends[i][0], 16);
		assert_memory_equal(dst, ends[i][1], 16);
	}
	memset(head, 0, sizeof(head)); /* no header */
	grh_ends(head, src, dst);
	assert_memory_equal(src, (uint8_t[16]){ 0 }, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_stands_in_the_last_20_bytes),
		cmocka_unit_test(the_checksum_holds_for_every_identification),
		cmocka_unit_test(ipv6_fills_all_40),
		cmocka_unit_test(v1_has_a_grh),
		cmocka_unit_test(the_ends_are_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
