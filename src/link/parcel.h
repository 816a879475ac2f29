/* SPDX-License-Identifier: BSD-2-Clause */
/* parcel.h - a datagram that a link keeps: its bytes in one piece, copied. */
#ifndef LINK_PARCEL_H
#define LINK_PARCEL_H

#include "link/dgram.h"
#include "sys/list.h"

struct parcel {
	struct list node; /* for its keeper */
	uint64_t due;	  /* likewise */
	unsigned after;	  /* likewise */
	struct dgram d;	  /* iov is d.one, which is bytes */
	uint8_t bytes[];
};

/* d's bytes into to, which has room for d->len.  0, or -EFAULT: the payload is
 * not mapped any more. */
int dgram_flatten(uint8_t *to, const struct dgram *d);

/* NULL: no memory, or the payload is not mapped any more. */
struct parcel *parcel_make(const struct dgram *d);

/* *v becomes the parcel's datagram as recv gives it: valid while the parcel
 * is. */
void parcel_show(struct parcel *p, struct dgram *v);

/* Free every parcel of the list. */
void parcels_free(struct list *head);

#endif
