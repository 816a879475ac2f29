// SPDX-License-Identifier: BSD-2-Clause
/* attr.c - see attr.h. */
#include "wire/attr.h"

#include <string.h>

#define ROWS(s, list, size) \
	static const struct attr_field s##_fields[] = { list(s##_ROW) }; \
	const struct attr attr_##s = { #s, s##_fields, \
		sizeof(s##_fields) / sizeof(s##_fields[0]), size };
#define ROW(s, m, bit, bits) \
	{ offsetof(struct s, m), sizeof(((struct s *)0)->m), bit, bits },

#define node_info_ROW(t, m, bit, bits) ROW(node_info, m, bit, bits)
#define switch_info_ROW(t, m, bit, bits) ROW(switch_info, m, bit, bits)
#define port_info_ROW(t, m, bit, bits) ROW(port_info, m, bit, bits)
#define notice_ROW(t, m, bit, bits) ROW(notice, m, bit, bits)
#define mlnx_ext_port_info_ROW(t, m, bit, bits) \
	ROW(mlnx_ext_port_info, m, bit, bits)
#define class_port_info_ROW(t, m, bit, bits) ROW(class_port_info, m, bit, bits)
#define port_counters_ROW(t, m, bit, bits) ROW(port_counters, m, bit, bits)
#define port_counters_ext_ROW(t, m, bit, bits) \
	ROW(port_counters_ext, m, bit, bits)

enum { SMP_BYTES = 64, PERF_BYTES = 192 };

ROWS(node_info, NODE_INFO, SMP_BYTES)
ROWS(switch_info, SWITCH_INFO, SMP_BYTES)
ROWS(port_info, PORT_INFO, SMP_BYTES)
ROWS(notice, NOTICE, SMP_BYTES)
ROWS(mlnx_ext_port_info, MLNX_EXT_PORT_INFO, SMP_BYTES)
ROWS(class_port_info, CLASS_PORT_INFO, PERF_BYTES)
ROWS(port_counters, PORT_COUNTERS, PERF_BYTES)
ROWS(port_counters_ext, PORT_COUNTERS_EXT, PERF_BYTES)

/* A field that begins within a byte ends within it: attr_test.c looks. */
static uint64_t get_bits(const uint8_t *data, unsigned bit, unsigned bits)
{
	const uint8_t *at = data + bit / 8;
	unsigned end = bit % 8 + bits;
	uint64_t v = 0;

	for (; end > 8; end -= 8)
		v = v << 8 | *at++;
	v = v << end | (uint64_t)(*at >> (8 - end));
	return bits < 64 ? v & ((1ull << bits) - 1) : v;
}

static void put_bits(uint8_t *data, unsigned bit, unsigned bits, uint64_t v)
{
	uint8_t *at = data + (bit + bits - 1) / 8;
	unsigned low = 7 - (bit + bits - 1) % 8;

	if (bits < 64)
		v &= (1ull << bits) - 1;
	*at = (uint8_t)(*at | v << low);
	v >>= 8 - low;
	for (unsigned left = bits + low; left > 8; left -= 8) {
		at--;
		*at = (uint8_t)(*at | v);
		v >>= 8;
	}
}

static uint64_t get_member(const void *m, unsigned size)
{
	switch (size) {
	case 1:
		return *(const uint8_t *)m;
	case 2:
		return *(const uint16_t *)m;
	case 4:
		return *(const uint32_t *)m;
	default:
		return *(const uint64_t *)m;
	}
}

static void set_member(void *m, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		*(uint8_t *)m = (uint8_t)v;
		break;
	case 2:
		*(uint16_t *)m = (uint16_t)v;
		break;
	case 4:
		*(uint32_t *)m = (uint32_t)v;
		break;
	default:
		*(uint64_t *)m = v;
		break;
	}
}

void attr_put(const struct attr *a, uint8_t *data, const void *from)
{
	memset(data, 0, a->bytes);
	for (unsigned i = 0; i < a->fields; i++) {
		const struct attr_field *f = &a->field[i];

		put_bits(data, f->bit, f->bits,
			 get_member((const char *)from + f->offset, f->size));
	}
}

void attr_get(const struct attr *a, const uint8_t *data, void *to)
{
	for (unsigned i = 0; i < a->fields; i++) {
		const struct attr_field *f = &a->field[i];

		set_member((char *)to + f->offset, f->size,
			   get_bits(data, f->bit, f->bits));
	}
}
