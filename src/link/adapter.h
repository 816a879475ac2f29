/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.h - a link to a fabric, over the memory that is shared with it: packets of
 * InfiniBand, whose addresses are struct lid_addr.  lid.h goes around it. */
#ifndef LINK_ADAPTER_H
#define LINK_ADAPTER_H

#include <stdbool.h>

#include "link/link.h"

struct adapter_shared;

/* kick wakes the fabric.  The memory stays the caller's, and outlives the link.  0 or
 * -ENOMEM. */
int adapter_link(struct link **out, struct adapter_shared *shared,
		 void (*kick)(void *arg), void *arg);

/* Nobody is there any more: what is sent is lost.  Any thread. */
void adapter_link_cut(struct link *link);

/* Is there something to receive?  Any thread. */
bool adapter_link_has(const struct link *link);
/* The fabric is to kick from now on, or not; what was received is given back.  Turn
 * held. */
void adapter_link_sleeps(struct link *link, bool sleeps);

#endif
