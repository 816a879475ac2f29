/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sys/rand.h"
#include "wire/attr.h"
#include "wire/mad.h"

/* clang-format off */
static const struct attr *const all[] = {
	&attr_node_info, &attr_switch_info, &attr_port_info, &attr_notice,
	&attr_mlnx_ext_port_info, &attr_class_port_info, &attr_port_counters,
	&attr_port_counters_ext, &attr_port_samples,
};
/* clang-format on */

enum { ALL = sizeof(all) / sizeof(all[0]) };

/* No bit of an attribute, and no byte of a struct, belongs to two fields. */
static void t_no_overlap(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ALL; i++) {
		uint8_t bit[192 * 8] = { 0 }, byte[256] = { 0 };

		for (unsigned k = 0; k < all[i]->fields; k++) {
			const struct attr_field *f = &all[i]->field[k];

			assert_in_range(f->bits, 1, f->size * 8u);
			assert_true(f->bit + f->bits <= all[i]->bytes * 8u);
			for (unsigned b = 0; b < f->bits; b++)
				assert_int_equal(bit[f->bit + b]++, 0);
			for (unsigned b = 0; b < f->size; b++)
				assert_int_equal(byte[f->offset + b]++, 0);
		}
	}
}

/* Reads a field one bit at a time, as a reference. */
static uint64_t slow(const uint8_t *data, unsigned bit, unsigned bits)
{
	uint64_t v = 0;

	for (; bits; bits--, bit++)
		v = v << 1 | (data[bit / 8] >> (7 - bit % 8) & 1);
	return v;
}

static uint64_t member(const uint8_t *s, const struct attr_field *f)
{
	uint64_t v = 0;

	memcpy(&v, s + f->offset, f->size); /* this host is little-endian */
	return v;
}

/* In random bytes: each field reads as its bits say, and is put back unchanged. */
static void t_random(void **state)
{
	struct prng r;

	(void)state;
	rand_seed(&r, 11);
	for (unsigned n = 0; n < 2000; n++) {
		const struct attr *a = all[n % ALL];
		uint8_t data[192], again[192], s[256] = { 0 };

		for (unsigned i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)rand_u64(&r);
		attr_get(a, data, s);
		memset(again, 0xa5, sizeof(again));
		attr_put(a, again, s);
		for (unsigned k = 0; k < a->fields; k++) {
			const struct attr_field *f = &a->field[k];
			uint64_t v = slow(data, f->bit, f->bits);

			assert_int_equal(member(s, f), v);
			assert_int_equal(slow(again, f->bit, f->bits), v);
		}
	}
}

/* A value that is too long does not reach into its neighbours; bits that belong to no
 * field are 0. */
static void t_too_long(void **state)
{
	struct port_info p = { .lmc = 0xff };
	uint8_t data[64];

	(void)state;
	memset(data, 0xff, sizeof(data));
	attr_put(&attr_port_info, data, &p);
	for (unsigned i = 0; i < sizeof(data); i++)
		assert_int_equal(data[i], i == 34 ? 0x07 : 0);
}

/* A NodeInfo as hardware sends it (an HCA, port one of two). */
static void t_node_info(void **state)
{
	/* clang-format off */
	static const uint8_t data[64] = {
		1, 1, 1, 2, 0, 2, 0xc9, 3, 0, 0, 0x13, 0x37, 0, 2, 0xc9, 3, 0, 0, 0x13,
		0x34, 0, 2, 0xc9, 3, 0, 0, 0x13, 0x35, 0, 0x80, 0x63, 0x4a, 0, 0, 0, 0xa0,
		1, 0, 2, 0xc9,
	};
	/* clang-format on */
	struct node_info n;

	(void)state;
	attr_get(&attr_node_info, data, &n);
	assert_int_equal(n.type, 1);
	assert_int_equal(n.ports, 2);
	assert_true(n.system_guid == 0x0002c90300001337);
	assert_true(n.guid == 0x0002c90300001334);
	assert_true(n.port_guid == 0x0002c90300001335);
	assert_int_equal(n.partition_cap, 128);
	assert_int_equal(n.device_id, 25418);
	assert_int_equal(n.local_port, 1);
	assert_int_equal(n.vendor_id, 0x2c9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_no_overlap),
		cmocka_unit_test(t_random),
		cmocka_unit_test(t_too_long),
		cmocka_unit_test(t_node_info),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
