/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - where packets of several VLs want the same: to leave by a port, or to be
 * taken by the programs of an adapter. */
#ifndef FABRIC_OUTLET_H
#define FABRIC_OUTLET_H

#include "fabric/model.h"

/* The first packet of q stands there, for its turn. */
void outlet_stand(struct vl_queue *q, struct fab_port *out, uint8_t vl);
void outlet_stand_up(struct vl_queue *q);

/* One packet goes, or what waits finds that it cannot.  f->links, f->ups: not empty. */
void outlet_send(struct fabric *f);
/* The outlet's turn, if no other VL was there: the next packet may go at once, too. */
const struct list *outlet_deliver(struct fabric *f);

/* The packet of q went there, or not: it needs that port no more. */
void outlet_gone(struct vl_queue *q, unsigned num);

#endif
