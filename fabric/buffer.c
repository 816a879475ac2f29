/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer.c - the buffers of packets of data; see buffer.h. */
#include "fabric/buffer.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"

static void queue_init(struct vl_queue *q, struct fab_port *p, unsigned vl, bool inner)
{
	q->port = p;
	q->vl = (uint8_t)vl;
	q->inner = inner;
	list_init(&q->fl);
	list_init(&q->stand);
}

static void outlet_init(struct outlet *o)
{
	list_init(&o->turn);
	for (unsigned i = 0; i < DATA_VLS; i++)
		list_init(&o->stand[i]);
}

struct port_data *buffer_make(struct fab_port *p)
{
	struct fabric *f = p->node->f;
	struct port_data *d;

	if (heap_reserve(&f->life_due, f->datas + 1))
		return NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	f->datas++;
	d->port = p;
	for (unsigned i = 0; i < DATA_VLS; i++) {
		queue_init(&d->in[i], p, i, false);
		queue_init(&d->out[i], p, i, true);
	}
	outlet_init(&d->link);
	outlet_init(&d->up);
	list_init(&d->for_room);
	return p->data = d;
}

static void unref(struct fabric *f, struct fabric_data *d)
{
	if (d && --d->refs == 0 && f->ops->done)
		f->ops->done(f->ctx, d);
}

static void free_queue(struct vl_queue *q)
{
	list_for_safe(node, &q->fl)
	{
		struct flight *fl = container_of(node, struct flight, node);

		unref(q->port->node->f, fl->pkt.data);
		free(fl);
	}
}

void data_free(struct fab_port *p)
{
	for (unsigned i = 0; p->data && i < DATA_VLS; i++) {
		free_queue(&p->data->in[i]);
		free_queue(&p->data->out[i]);
	}
	free(p->data);
	p->data = NULL;
}

int buffer_put(struct vl_queue *q, const struct mad_pkt *pkt, uint8_t hops)
{
	struct fabric *f = q->port->node->f;
	struct flight *fl = flight_new(f);

	if (!fl)
		return -ENOMEM;
	fl->spread = false;
	fl->entered = f->now;
	memset(fl->ports, 0, sizeof(fl->ports));
	memcpy(&fl->pkt, pkt, pkt->data ? offsetof(struct mad_pkt, mad) : sizeof(*pkt));
	fl->pkt.hops = hops;
	if (pkt->data)
		pkt->data->refs++;
	else
		q->mads++;
	q->blocks += blocks_of(pkt);
	if (list_empty(&q->fl))
		buffer_ready(q);
	list_add_tail(&q->fl, &fl->node);
	return 0;
}

/* Removes q's first packet, and gives its credits to the sending port. */
void buffer_pop(struct vl_queue *q)
{
	struct fab_port *p = q->port;
	struct fabric *f = p->node->f;
	struct flight *fl = buffer_first(q);

	q->blocks -= blocks_of(&fl->pkt);
	q->mads -= !fl->pkt.data;
	q->since = 0;
	unref(f, fl->pkt.data);
	list_del(&fl->node);
	list_add_tail(&f->unused, &fl->node);
	if (!q->inner && p->peer && p->peer->data)
		outlet_turn(&f->links, &p->peer->data->link, q->vl);
}

static unsigned queue_waits(const struct vl_queue *q, struct fabric_wait *to)
{
	if (list_empty(&q->fl))
		return 0;
	*to = (struct fabric_wait){ q->vl, q->inner, 0, q->blocks * BLOCK, q->since };
	list_for(node, &q->fl) to->packets++;
	return 1;
}

unsigned fabric_waiting(const struct fabric *f, uint32_t node, uint8_t port,
			struct fabric_wait to[FABRIC_WAITS])
{
	const struct fab_port *p = NULL;
	unsigned n = 0;

	if (node < f->nodes && port <= f->node[node].ports)
		p = &f->node[node].port[port];
	for (unsigned i = 0; p && p->data && i < DATA_VLS; i++) {
		n += queue_waits(&p->data->in[i], to + n);
		n += queue_waits(&p->data->out[i], to + n);
	}
	return n;
}
