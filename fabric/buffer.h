/* SPDX-License-Identifier: BSD-2-Clause */
/* buffer.h - the buffers of packets of data: a queue for each VL of a port. */
#ifndef FABRIC_BUFFER_H
#define FABRIC_BUFFER_H

#include "fabric/model.h"

enum { BLOCK = 64, VL_BLOCKS = 512 /* BLOCK: bytes; VL_BLOCKS: 32 KiB for each VL */ };

/* The size of a packet in blocks of 64 bytes, as credits and arbiter weights count it. */
static inline uint32_t blocks_of(const struct mad_pkt *pkt)
{
	return (pkt_words(pkt) * 4 + BLOCK - 1) / BLOCK;
}

static inline struct flight *buffer_first(const struct vl_queue *q)
{
	return container_of(q->fl.next, struct flight, node);
}

/* Queues q for data_run(), which finds the outlet of q's first packet. */
static inline void buffer_ready(struct vl_queue *q)
{
	list_del(&q->stand);
	list_add_tail(&q->port->node->f->ready, &q->stand);
}

/* Makes a port's buffers when its first packet comes, since most ports of a large subnet
 * never see one.  NULL: no memory. */
struct port_data *buffer_make(struct fab_port *p);

static inline struct port_data *buffers(struct fab_port *p)
{
	return p->data ? p->data : buffer_make(p);
}

/* Appends a packet to q, for which the caller has checked that there is room.  hops: the
 * hops that the packet has made.  Returns 0 or -ENOMEM. */
int buffer_put(struct vl_queue *q, const struct mad_pkt *pkt, uint8_t hops);
/* Removes the first packet. */
void buffer_pop(struct vl_queue *q);

#endif
