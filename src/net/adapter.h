/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.h - a link to a simulated fabric through shared memory (adapter_ring.h). It
 * carries InfiniBand packets, whose addresses are struct lid_addr; lid.h wraps it. */
#ifndef NET_ADAPTER_H
#define NET_ADAPTER_H

#include <stdbool.h>

#include "net/link.h"

struct adapter_shared;

/* Makes a link over `shared`, which stays the caller's and must outlive the link.
 * kick(arg) wakes the fabric. Returns 0 or -ENOMEM. */
int adapter_link(struct link **out, struct adapter_shared *shared,
		 void (*kick)(void *arg), void *arg);

/* Marks the fabric as gone: whatever is sent from now on is lost. Any thread may call
 * it. */
void adapter_link_cut(struct link *link);

/* Is a received packet waiting? Any thread may call it. */
bool adapter_link_has(const struct link *link);
/* Tells the fabric whether it has to kick the program when a packet arrives. Gives the
 * buffers of received packets back first. The turn must be held. */
void adapter_link_sleeps(struct link *link, bool sleeps);

#endif
