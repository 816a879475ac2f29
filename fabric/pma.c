/* SPDX-License-Identifier: BSD-2-Clause */
/* pma.c - the performance management agent (IBTA 16.1): counters of a port, or of all of
 * a switch's ports together. */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

enum {
	ALL_PORTS = 0xff,
	AT_DATA = 64,
	CAP_ALL_PORTS = 1 << 8,
	CAP_EXT = 1 << 9,
	CAP_XMIT_WAIT = 1 << 12,
	CAP2_QP1_DROPPED = 1 << 0,
	CAP2_EXT_ERRORS = 1 << 1, /* in PortCountersExtended */
	RESP_TIME = 18,
};

/* Counters are kept in their longest form; short attributes stop at their maximum. */
struct counter {
	uint16_t ext;	   /* offset in struct port_counters_ext */
	uint16_t at, size; /* offset and bytes in struct port_counters */
	uint64_t max;
	int8_t bit, ext_bit; /* bit in CounterSelect; -1: none */
};

#define COUNTER(m, max, bit, ext_bit)                                                    \
	{                                                                                \
		offsetof(struct port_counters_ext, m),                                   \
			offsetof(struct port_counters, m),                               \
			sizeof(((struct port_counters *)0)->m), max, bit, ext_bit        \
	}
#define EXT_ONLY(m, ext_bit)                                                             \
	{                                                                                \
		offsetof(struct port_counters_ext, m), 0, 0, 0, -1, ext_bit              \
	}

/* IBA 16.1.3.5, 16.1.4.11: which bit of CounterSelect names a counter in a Set; bits
 * above 15 are CounterSelect2's. */
/* clang-format off */
static const struct counter counters[] = {
	COUNTER(symbol_errors, UINT16_MAX, 0, 16),
	COUNTER(link_recovered, UINT8_MAX, 1, 17),
	COUNTER(link_downed, UINT8_MAX, 2, 18),
	COUNTER(rcv_errors, UINT16_MAX, 3, 19),
	COUNTER(rcv_remote_phys, UINT16_MAX, 4, 20),
	COUNTER(rcv_relay, UINT16_MAX, 5, 21),
	COUNTER(xmit_discards, UINT16_MAX, 6, 22),
	COUNTER(xmit_constraint, UINT8_MAX, 7, 23),
	COUNTER(rcv_constraint, UINT8_MAX, 8, 24),
	COUNTER(local_integrity, 15, 9, 25),
	COUNTER(buffer_overrun, 15, 10, 26),
	COUNTER(vl15_dropped, UINT16_MAX, 11, 27),
	COUNTER(xmit_data, UINT32_MAX, 12, 0),
	COUNTER(rcv_data, UINT32_MAX, 13, 1),
	COUNTER(xmit_pkts, UINT32_MAX, 14, 2),
	COUNTER(rcv_pkts, UINT32_MAX, 15, 3),
	COUNTER(xmit_wait, UINT32_MAX, 16, 28),
	COUNTER(qp1_dropped, UINT16_MAX, 17, 29),
	EXT_ONLY(xmit_unicast, 4),
	EXT_ONLY(rcv_unicast, 5),
	EXT_ONLY(xmit_multicast, 6),
	EXT_ONLY(rcv_multicast, 7),
};
/* clang-format on */

enum { COUNTERS = sizeof(counters) / sizeof(counters[0]) };

static uint64_t *counter_of(struct port_counters_ext *c, const struct counter *row)
{
	return (uint64_t *)(void *)((char *)c + row->ext);
}

bool pma_ports(struct fab_port *in, uint8_t select, unsigned *from, unsigned *to)
{
	const struct fab_node *n = in->node;

	*from = *to = select;
	if (select == ALL_PORTS && is_switch(n)) {
		*from = 1;
		*to = n->ports;
		return true;
	}
	if (!is_switch(n) && !select)
		*from = *to = in->num;
	return *to <= n->ports;
}

static void sum(struct fab_port *in, unsigned from, unsigned to,
		struct port_counters_ext *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = from; i <= to; i++) {
		for (unsigned k = 0; k < COUNTERS; k++)
			*counter_of(out, &counters[k]) +=
				*counter_of(&in->node->port[i].count, &counters[k]);
	}
}

/* Clears the counters in `select`, which has a bit for each counter of the short or the
 * extended attribute. */
static void clear(struct fab_port *in, unsigned from, unsigned to, uint32_t select,
		  bool ext)
{
	for (unsigned i = from; i <= to; i++) {
		for (unsigned k = 0; k < COUNTERS; k++) {
			int bit = ext ? counters[k].ext_bit : counters[k].bit;

			if (bit >= 0 && select >> bit & 1)
				*counter_of(&in->node->port[i].count, &counters[k]) = 0;
		}
	}
}

static void shorten(const struct port_counters_ext *from, struct port_counters *to)
{
	for (unsigned k = 0; k < COUNTERS; k++) {
		const struct counter *c = &counters[k];
		uint64_t v = *counter_of((struct port_counters_ext *)(uintptr_t)from, c);
		char *at = (char *)to + c->at;

		if (v > c->max)
			v = c->max;
		if (c->size == 1)
			*(uint8_t *)at = (uint8_t)v;
		else if (c->size == 2)
			*(uint16_t *)(void *)at = (uint16_t)v;
		else if (c->size == 4)
			*(uint32_t *)(void *)at = (uint32_t)v;
	}
}

static uint16_t port_counters(struct fab_port *in, bool set, uint8_t *data)
{
	struct port_counters c;
	struct port_counters_ext all;
	unsigned from, to;

	attr_get(&attr_port_counters, data, &c);
	if (!pma_ports(in, c.select, &from, &to))
		return MAD_BAD_FIELD;
	if (set)
		clear(in, from, to, c.counters | (uint32_t)c.counters2 << 16, false);
	sum(in, from, to, &all);
	shorten(&all, &c);
	attr_put(&attr_port_counters, data, &c);
	return MAD_OK;
}

static uint16_t port_counters_ext(struct fab_port *in, bool set, uint8_t *data)
{
	struct port_counters_ext c, all;
	unsigned from, to;

	attr_get(&attr_port_counters_ext, data, &c);
	if (!pma_ports(in, c.select, &from, &to))
		return MAD_BAD_FIELD;
	if (set)
		clear(in, from, to, c.counters | c.counters2 << 16, true);
	sum(in, from, to, &all);
	all.select = c.select;
	all.counters = c.counters;
	all.counters2 = c.counters2;
	attr_put(&attr_port_counters_ext, data, &all);
	return MAD_OK;
}

static uint16_t class_port_info(struct fab_port *in, bool set, uint8_t *data)
{
	struct class_port_info c = {
		.base_version = MAD_BASE_VERSION,
		.class_version = 1,
		.cap_mask = (uint16_t)(CAP_EXT | CAP_XMIT_WAIT |
				       (is_switch(in->node) ? CAP_ALL_PORTS : 0)),
		.cap_mask2 = CAP2_QP1_DROPPED | CAP2_EXT_ERRORS,
		.resp_time = RESP_TIME,
	};

	if (set)
		return MAD_BAD_ATTR;
	attr_put(&attr_class_port_info, data, &c);
	return MAD_OK;
}

static uint16_t handle_perf(struct fab_port *in, uint16_t attr, bool set, uint8_t *data)
{
	switch (attr) {
	case ATTR_CLASS_PORT_INFO:
		return class_port_info(in, set, data);
	case ATTR_SAMPLES_CONTROL:
		return pma_samples_control(in, set, data);
	case ATTR_SAMPLES_RESULT:
		return pma_samples_result(in, set, data);
	case ATTR_PORT_COUNTERS:
		return port_counters(in, set, data);
	case ATTR_PORT_COUNTERS_EXT:
		return port_counters_ext(in, set, data);
	default:
		return pma_detail(in, attr, set, data);
	}
}

bool pma_answer(struct fab_port *in, uint8_t mad[MAD_SIZE])
{
	struct mad_hdr *h = (struct mad_hdr *)mad;
	uint16_t status;

	if (h->class != MAD_PERF || (h->method != METHOD_GET && h->method != METHOD_SET))
		return false;
	for (unsigned i = 0; i <= in->node->ports; i++)
		wait_count(&in->node->port[i]);
	if (h->base_version != MAD_BASE_VERSION || h->class_version != 1)
		status = MAD_BAD_VERSION;
	else
		status = handle_perf(in, get_be16(h->attr), h->method == METHOD_SET,
				     mad + AT_DATA);
	h->method = METHOD_GET_RESP;
	h->status = be16(status);
	return true;
}
