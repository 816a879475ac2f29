/* SPDX-License-Identifier: BSD-2-Clause */
/* map.h - regions of another process that are mapped here, too; for this room. */
#ifndef DIRECT_MAP_H
#define DIRECT_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "direct/direct.h"

/* A region of the other that lies here.  It does not change, but that it turns bad. */
struct mapping {
	struct list node; /* direct->left: in no table any more */
	struct lent lent;
	const _Atomic uint32_t *version; /* its entry's: lent.version, or it has gone */
	uint32_t torn; /* the other's export table, before it was looked at */
	uint32_t pd, access;
	uint64_t va, length; /* what requests call what lies here */
	uint8_t *at;	     /* va is here */
	void *start;	     /* what mmap() gave */
	size_t size;
	atomic_bool bad; /* some of it is not there */
};

static inline unsigned map_place(uint32_t key)
{
	return key >> 8 & (MAPS - 1);
}

void maps_close(struct reach *r);
void maps_forked(struct reach *r);
void maps_fini(struct direct *d);
void maps_left_forked(struct direct *d);

#endif
