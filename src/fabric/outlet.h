/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - outputs for which packets of several VLs compete: a port's link, or the
 * programs of an adapter. */
#ifndef FABRIC_OUTLET_H
#define FABRIC_OUTLET_H

#include "fabric/model.h"

/* The first packet of q waits at that outlet for its turn. */
void outlet_stand(struct vl_queue *q, struct fab_port *out, uint8_t vl);
void outlet_stand_up(struct vl_queue *q);

/* Sends one packet, or finds that the waiting ones cannot go. f->links or f->ups must
 * not be empty. */
void outlet_send(struct fabric *f);
/* Passes a packet to an adapter's programs. Returns the outlet's `turn` if no other VL
 * waited there, so the next packet may go at once, too; else NULL. */
const struct list *outlet_deliver(struct fabric *f);

/* The packet of q has left by port num, or cannot: it need not leave by that port any
 * more. */
void outlet_gone(struct vl_queue *q, unsigned num);

#endif
