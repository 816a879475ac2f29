/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_detail.c - attributes with details of a port's counters (IBTA 16.1.4): errors and
 * discards by cause, data by service level, waiting for credits by VL.
 *
 * Each is a row of counters of one width after PortSelect and CounterSelect, whose bit i
 * selects the i-th.
 */
#include <stddef.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"
#include "wire/bits.h"

enum { AT_SELECT = 8, AT_COUNTERS = 16, AT_ROW = 32, PERF_DATA = 192 };

static const struct detail {
	uint16_t attr, offset; /* offset: of the first counter in struct port_detail */
	uint8_t count, bits;
} details[] = {
	{ ATTR_RCV_ERROR_DETAILS, offsetof(struct port_detail, rcv), RCV_DETAILS, 16 },
	{ ATTR_XMIT_DISCARD_DETAILS, offsetof(struct port_detail, xmit), XMIT_DETAILS,
	  16 },
	{ ATTR_VL_XMIT_WAIT, offsetof(struct port_detail, xmit_wait), DATA_VLS, 16 },
	{ ATTR_XMIT_DATA_SL, offsetof(struct port_detail, xmit_sl), SLS, 32 },
	{ ATTR_RCV_DATA_SL, offsetof(struct port_detail, rcv_sl), SLS, 32 },
};

static uint64_t *first_of(const struct detail *d, struct fab_port *p)
{
	return (uint64_t *)(void *)((char *)&p->detail + d->offset);
}

static void put_sums(const struct detail *d, struct fab_port *in, unsigned from,
		     unsigned to, uint8_t *data)
{
	uint64_t max = (1ull << d->bits) - 1;

	for (unsigned i = 0; i < d->count; i++) {
		uint64_t sum = 0;

		for (unsigned k = from; k <= to; k++)
			sum += first_of(d, &in->node->port[k])[i];
		bits_put(data, AT_ROW + i * d->bits, d->bits, sum < max ? sum : max);
	}
}

static uint16_t answer_detail(const struct detail *d, struct fab_port *in, bool set,
			      uint8_t *data)
{
	unsigned from, to;
	unsigned select = (unsigned)bits_get(data, AT_COUNTERS, 16);

	if (!pma_ports(in, (uint8_t)bits_get(data, AT_SELECT, 8), &from, &to))
		return MAD_BAD_FIELD;
	for (unsigned k = from; set && k <= to; k++) {
		for (unsigned i = 0; i < d->count; i++) {
			if (select >> i & 1)
				first_of(d, &in->node->port[k])[i] = 0;
		}
	}
	memset(data + AT_ROW / 8, 0, PERF_DATA - AT_ROW / 8);
	put_sums(d, in, from, to, data);
	return MAD_OK;
}

uint16_t pma_detail(struct fab_port *in, uint16_t attr, bool set, uint8_t *data)
{
	for (unsigned i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		if (details[i].attr == attr)
			return answer_detail(&details[i], in, set, data);
	}
	return MAD_BAD_ATTR;
}
