/* SPDX-License-Identifier: BSD-2-Clause */
/* attr.c - converts attributes between struct and MAD; see attr.h. */
#include "wire/attr.h"

#include <string.h>

#include "wire/bits.h"

#define ROWS(s, list, size)                                                              \
	static const struct attr_field s##_fields[] = { list(s##_ROW) };                 \
	const struct attr attr_##s = { #s, s##_fields,                                   \
				       sizeof(s##_fields) / sizeof(s##_fields[0]),       \
				       size };
#define ROW(s, m, bit, bits)                                                             \
	{ offsetof(struct s, m), sizeof(((struct s *)0)->m), bit, bits },

#define node_info_ROW(t, m, bit, bits)		ROW(node_info, m, bit, bits)
#define switch_info_ROW(t, m, bit, bits)	ROW(switch_info, m, bit, bits)
#define port_info_ROW(t, m, bit, bits)		ROW(port_info, m, bit, bits)
#define notice_ROW(t, m, bit, bits)		ROW(notice, m, bit, bits)
#define mlnx_ext_port_info_ROW(t, m, bit, bits) ROW(mlnx_ext_port_info, m, bit, bits)
#define class_port_info_ROW(t, m, bit, bits)	ROW(class_port_info, m, bit, bits)
#define port_counters_ROW(t, m, bit, bits)	ROW(port_counters, m, bit, bits)
#define port_counters_ext_ROW(t, m, bit, bits)	ROW(port_counters_ext, m, bit, bits)
#define port_samples_ROW(t, m, bit, bits)	ROW(port_samples, m, bit, bits)

enum { SMP_BYTES = 64, PERF_BYTES = 192 };

ROWS(node_info, NODE_INFO, SMP_BYTES)
ROWS(switch_info, SWITCH_INFO, SMP_BYTES)
ROWS(port_info, PORT_INFO, SMP_BYTES)
ROWS(notice, NOTICE, SMP_BYTES)
ROWS(mlnx_ext_port_info, MLNX_EXT_PORT_INFO, SMP_BYTES)
ROWS(class_port_info, CLASS_PORT_INFO, PERF_BYTES)
ROWS(port_counters, PORT_COUNTERS, PERF_BYTES)
ROWS(port_counters_ext, PORT_COUNTERS_EXT, PERF_BYTES)
ROWS(port_samples, PORT_SAMPLES, PERF_BYTES)

void attr_put(const struct attr *a, uint8_t *data, const void *from)
{
	memset(data, 0, a->bytes);
	for (unsigned i = 0; i < a->fields; i++) {
		const struct attr_field *f = &a->field[i];

		bits_put(data, f->bit, f->bits,
			 member_get((const char *)from + f->offset, f->size));
	}
}

void attr_get(const struct attr *a, const uint8_t *data, void *to)
{
	for (unsigned i = 0; i < a->fields; i++) {
		const struct attr_field *f = &a->field[i];

		member_set((char *)to + f->offset, f->size,
			   bits_get(data, f->bit, f->bits));
	}
}
