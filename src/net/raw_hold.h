/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_hold.h - holds RoCE v1 packets until their neighbour's MAC address is known, as
 * the kernel holds its own packets. For net/raw.c. */
#ifndef NET_RAW_HOLD_H
#define NET_RAW_HOLD_H

#include <stdint.h>

#include "net/dgram.h"
#include "sys/list.h"

struct raw_tx;

enum { RAW_HELD = 64 }; /* packets held for all destinations together; more are lost */

struct raw_hold {
	struct list held; /* struct parcel, oldest first */
	unsigned n;
	uint64_t look_at;    /* ns; when to look for the neighbours again */
	uint64_t lost, said; /* for log_allowed() */
};

void raw_hold_init(struct raw_hold *h);
/* Holds a copy of d, or counts it as lost. now is in ns. */
void raw_hold_put(struct raw_hold *h, const struct dgram *d, uint64_t now);
/* Sends the packets whose neighbour is known by now, and drops those that waited too
 * long. Returns the number sent, or -EBADF. */
int raw_hold_release(struct raw_hold *h, struct raw_tx *tx, uint64_t now);
/* Returns when to look again, in ns; UINT64_MAX: nothing waits. */
uint64_t raw_hold_deadline(const struct raw_hold *h);
void raw_hold_free(struct raw_hold *h);

#endif
