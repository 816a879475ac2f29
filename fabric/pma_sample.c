/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_sample.c - PortSamplesControl and PortSamplesResult (IBTA vol. 1, 16.1.3.2 to
 * 16.1.3.4): how much chosen counters of a port grow within an interval.
 *
 * A node has one sampling mechanism.  After a Set, SampleStart ticks pass, then
 * SampleInterval ticks are sampled.  Until then another Set changes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"
#include "wire/bits.h"

enum { COUNTERS = 15, AT_SELECTS = 304, AT_STATUS = 30, AT_RESULTS = 32 };
enum { TICK_CODE = PMA_TICK / 4 - 1 }; /* Tick: 0 is 4 ns, 1 is 8 ns ... */
enum { WIDTH_32 = 4, COUNTS_MANDATORY = 01, COUNTS_NINE = 0111111111 };
enum { SAMPLE_DONE, SAMPLE_STARTED, SAMPLE_RUNS };

struct node_sample {
	struct fab_node *node;
	struct heap_node due; /* the end of the wait, or of the interval (c.status) */
	struct port_samples c;
	unsigned from, to; /* the ports of c.select */
	uint16_t select[COUNTERS];
	uint64_t was[COUNTERS]; /* the counters when the interval began */
	uint32_t result[COUNTERS];
};

/* 16.1.3.3: the quantities that CounterSelect names.  Others count nothing. */
static uint64_t quantity(const struct port_counters_ext *c, uint16_t select)
{
	switch (select) {
	case 1:
		return c->xmit_data;
	case 2:
		return c->rcv_data;
	case 3:
		return c->xmit_pkts;
	case 4:
		return c->rcv_pkts;
	case 5:
		return c->xmit_wait;
	default:
		return 0;
	}
}

static uint64_t value(const struct node_sample *s, unsigned i)
{
	uint64_t sum = 0;

	for (unsigned k = s->from; k <= s->to; k++) {
		wait_count(&s->node->port[k]);
		sum += quantity(&s->node->port[k].count, s->select[i]);
	}
	return sum;
}

static void due_after(struct node_sample *s, uint64_t at, uint32_t ticks)
{
	/* make_sample() has reserved room for it */
	(void)heap_set(&s->node->f->sample_due, &s->due, at + (uint64_t)ticks * PMA_TICK);
}

static void begin_interval(struct node_sample *s, uint64_t at)
{
	s->c.status = SAMPLE_RUNS;
	for (unsigned i = 0; i < COUNTERS; i++)
		s->was[i] = value(s, i);
	due_after(s, at, s->c.interval);
}

/* Ends the interval.  A counter that was cleared within it counts from 0. */
static void end_interval(struct node_sample *s)
{
	s->c.status = SAMPLE_DONE;
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t v = value(s, i), grown = v < s->was[i] ? v : v - s->was[i];

		s->result[i] = grown < UINT32_MAX ? (uint32_t)grown : UINT32_MAX;
	}
}

void pma_sample_run(struct fabric *f)
{
	struct heap_node *top;

	while ((top = heap_top(&f->sample_due)) && top->at <= f->now) {
		struct node_sample *s = container_of(top, struct node_sample, due);
		uint64_t at = top->at;

		heap_del(&f->sample_due, top);
		if (s->c.status == SAMPLE_STARTED)
			begin_interval(s, at);
		else
			end_interval(s);
	}
}

static struct node_sample *make_sample(struct fab_node *n)
{
	struct fabric *f = n->f;
	struct node_sample *s;

	if (n->sample || heap_reserve(&f->sample_due, f->samples + 1))
		return n->sample;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	f->samples++;
	s->node = n;
	return n->sample = s;
}

void pma_sample_free(struct fab_node *n)
{
	free(n->sample);
	n->sample = NULL;
}

static void begin_sample(struct node_sample *s, const struct port_samples *c,
			 const uint8_t *data)
{
	s->c = *c;
	for (unsigned i = 0; i < COUNTERS; i++)
		s->select[i] = (uint16_t)bits_get(data, AT_SELECTS + i * 16, 16);
	memset(s->result, 0, sizeof(s->result));
	if (!c->start) {
		begin_interval(s, s->node->f->now);
		return;
	}
	s->c.status = SAMPLE_STARTED;
	due_after(s, s->node->f->now, c->start);
}

uint16_t pma_samples_control(struct fab_port *in, bool set, uint8_t *data)
{
	struct node_sample *s = in->node->sample;
	struct port_samples c;
	unsigned from, to;

	attr_get(&attr_port_samples, data, &c);
	if (!pma_ports(in, c.select, &from, &to))
		return MAD_BAD_FIELD;
	if (set && (!s || s->c.status == SAMPLE_DONE)) {
		s = make_sample(in->node);
		if (!s)
			return MAD_BUSY;
		s->from = from;
		s->to = to;
		begin_sample(s, &c, data);
	}
	c = s ? s->c : (struct port_samples){ .select = c.select };
	c.tick = TICK_CODE;
	c.width = WIDTH_32;
	c.mask_0 = COUNTS_MANDATORY;
	c.masks_1_to_9 = COUNTS_NINE;
	c.masks_10_to_14 = COUNTS_NINE & 077777;
	c.mechanisms = 0; /* one */
	attr_put(&attr_port_samples, data, &c);
	for (unsigned i = 0; s && i < COUNTERS; i++)
		bits_put(data, AT_SELECTS + i * 16, 16, s->select[i]);
	return MAD_OK;
}

uint16_t pma_samples_result(struct fab_port *in, bool set, uint8_t *data)
{
	const struct node_sample *s = in->node->sample;

	if (set)
		return MAD_BAD_ATTR;
	memset(data, 0, attr_port_samples.bytes);
	if (!s)
		return MAD_OK;
	bits_put(data, 0, 16, s->c.tag);
	bits_put(data, AT_STATUS, 2, s->c.status);
	for (unsigned i = 0; s->c.status == SAMPLE_DONE && i < COUNTERS; i++)
		bits_put(data, AT_RESULTS + i * 32, 32, s->result[i]);
	return MAD_OK;
}
