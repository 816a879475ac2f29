/* SPDX-License-Identifier: BSD-2-Clause */
/* parcel.h - a copy of a datagram, in one piece, that a link keeps for later. */
#ifndef NET_PARCEL_H
#define NET_PARCEL_H

#include "net/dgram.h"
#include "sys/list.h"

enum { PARCEL_NOTE = 144 };

struct parcel {
	struct list node;	/* for the link that keeps it */
	uint64_t due;		/* ns; for the link that keeps it */
	unsigned after;		/* datagrams to let pass; for the link that keeps it */
	char note[PARCEL_NOTE]; /* for a capture; for the link that keeps it */
	struct dgram d;		/* d.iov points to d.one, which points to bytes */
	uint8_t bytes[];
};

/* Copies d's d->len bytes to `to`. Returns 0, or -EFAULT if the payload is no longer
 * mapped. */
int dgram_flatten(uint8_t *to, const struct dgram *d);

/* Returns NULL if memory is short or the payload is no longer mapped. */
struct parcel *parcel_make(const struct dgram *d);

/* Sets *v to the parcel's datagram in the form that recv() gives; valid as long as the
 * parcel. */
void parcel_show(struct parcel *p, struct dgram *v);

void parcels_free(struct list *head);

#endif
