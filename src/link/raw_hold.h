/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_hold.h - packets of RoCE v1 that wait for their neighbour's MAC address, as the
 * kernel holds its own.  For link/raw.c. */
#ifndef LINK_RAW_HOLD_H
#define LINK_RAW_HOLD_H

#include <stdint.h>

#include "link/dgram.h"
#include "sys/list.h"

struct raw_tx;

enum { RAW_HELD = 64 }; /* packets, of all destinations; what is more is lost */

struct raw_hold {
	struct list held; /* struct parcel, in the order in which they came */
	unsigned n;
	uint64_t look_at;    /* for their neighbours */
	uint64_t lost, said; /* log_allowed() */
};

void raw_hold_init(struct raw_hold *h);
/* d is copied, or lost. */
void raw_hold_put(struct raw_hold *h, const struct dgram *d, uint64_t now);
/* What has a way by now goes out by tx; what has waited too long is lost.  How many went
 * out, or -EBADF. */
int raw_hold_release(struct raw_hold *h, struct raw_tx *tx, uint64_t now);
/* When to look again; UINT64_MAX: nothing waits. */
uint64_t raw_hold_deadline(const struct raw_hold *h);
void raw_hold_free(struct raw_hold *h);

#endif
