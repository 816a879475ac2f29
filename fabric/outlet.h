/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.h - where packets of several VLs compete: for the link of a port, or for the
 * programs at an adapter. */
#ifndef FABRIC_OUTLET_H
#define FABRIC_OUTLET_H

#include "fabric/model.h"

/* Puts q, whose first packet is to leave by `out`, in the line of the VL at its outlet;
 * outlet_stand_up() takes it out of the line. */
void outlet_stand(struct vl_queue *q, struct fab_port *out, uint8_t vl);
void outlet_stand_up(struct vl_queue *q);

/* Sends one packet of the first outlet in f->links, which is not empty, or finds that it
 * has to wait. */
void outlet_send(struct fabric *f);
/* Does the same for f->ups.  Returns the outlet's turn if only one VL was there, so that
 * the next packet may go at once. */
const struct list *outlet_deliver(struct fabric *f);

/* q's first packet was sent to port num or dropped there: removes it, or, if it is a
 * multicast packet with other ports to go to, only that port. */
void outlet_gone(struct vl_queue *q, unsigned num);

#endif
