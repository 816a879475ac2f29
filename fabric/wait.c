/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c - PortXmitWait and PortVLXmitWait (IBTA vol. 1, 16.1.3.5, 16.1.4.9): the ticks
 * in which a port, or one of its VLs, had a packet for its link and sent none.
 *
 * Links take no time, so a packet waits at its port only while the buffer at the other
 * end has no credits for it.  A tick in which a packet was sent does not count, so each
 * interval between two packets counts its whole ticks.
 */
#include "fabric/fabric.h"
#include "fabric/model.h"

/* Adds the whole ticks of [*since, now) to *count and moves *since behind them.
 * *since 0: nothing waits. */
static void add_ticks(uint64_t *since, uint64_t now, uint64_t *count)
{
	uint64_t ticks;

	if (!*since || now <= *since)
		return;
	ticks = (now - *since) / PMA_TICK;
	*count += ticks;
	*since += ticks * PMA_TICK;
}

void wait_begin(struct fab_port *p, unsigned vl)
{
	struct port_data *d = p->data;
	uint64_t now = p->node->f->now;

	if (!d->waits[vl])
		d->waits[vl] = now;
	if (!d->waits_any)
		d->waits_any = now;
}

void wait_count(struct fab_port *p)
{
	struct port_data *d = p->data;
	uint64_t now = p->node->f->now;

	if (!d)
		return;
	add_ticks(&d->waits_any, now, &p->count.xmit_wait);
	for (unsigned i = 0; i < DATA_VLS; i++)
		add_ticks(&d->waits[i], now, &p->detail.xmit_wait[i]);
}

void wait_over(struct fab_port *p, unsigned vl)
{
	struct port_data *d = p->data;
	uint64_t now = p->node->f->now;
	bool others = false;

	wait_count(p);
	d->waits[vl] = 0;
	for (unsigned i = 0; i < DATA_VLS; i++)
		others |= d->waits[i] != 0;
	d->waits_any = others ? now : 0;
}
