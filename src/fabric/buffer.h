/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer.h - where packets of data lie: a queue for each VL of a port. */
#ifndef FABRIC_BUFFER_H
#define FABRIC_BUFFER_H

#include "fabric/model.h"

enum { BLOCK = 64, VL_BLOCKS = 512 /* 32 KiB for each VL */ };

/* Bytes of a packet, as credits and weights count them. */
static inline uint32_t blocks_of(const struct mad_pkt *pkt)
{
	return (pkt_words(pkt) * 4 + BLOCK - 1) / BLOCK;
}

static inline struct flight *buffer_first(const struct vl_queue *q)
{
	return container_of(q->fl.next, struct flight, node);
}

/* Its first packet may be able to go: it looks for its way. */
static inline void buffer_ready(struct vl_queue *q)
{
	list_del(&q->stand);
	list_add_tail(&q->port->node->f->ready, &q->stand);
}

/* Buffers are made for the first packet: most ports of a large subnet see none.  NULL:
 * no memory. */
struct port_data *buffer_make(struct fab_port *p);

static inline struct port_data *buffers(struct fab_port *p)
{
	return p->data ? p->data : buffer_make(p);
}

/* Last in q, which was looked at: hops is what it has made by now.  0 or -ENOMEM. */
int buffer_put(struct vl_queue *q, const struct mad_pkt *pkt, uint8_t hops);
/* The first packet is gone. */
void buffer_pop(struct vl_queue *q);

#endif
