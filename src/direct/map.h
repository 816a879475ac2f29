/* SPDX-License-Identifier: BSD-2-Clause */
/* map.h - regions of peers that are mapped in this process. Inside direct/ only. */
#ifndef DIRECT_MAP_H
#define DIRECT_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "direct/direct.h"
#include "verbs/core.h"
#include "verbs/qp.h"

enum { LONG_COPY = 16 << 10 };

/* A peer's region that is mapped here. Constant, except for `bad`. */
struct mapping {
	struct list node; /* in direct->left once removed from the table */
	struct lent lent;
	const _Atomic uint32_t *version; /* of its entry; no longer lent.version: the
					  * region has gone */
	uint32_t torn;			 /* the peer's exports->torn, read before use */
	uint32_t pd, access;
	uint64_t va, length; /* the range as requests name it */
	uint8_t *at;	     /* address of va in this process */
	void *start;	     /* result of mmap() */
	size_t size;
	atomic_bool bad; /* some of its pages are missing */
};

static inline uint64_t maps_serial(const struct reach *r)
{
	return atomic_load_explicit(&r->maps_serial, memory_order_acquire);
}
/* A mapping was removed or is bad: gives the peer a serial that no peer has had. */
void maps_changed(struct reach *r);

static inline unsigned map_place(uint32_t key)
{
	return key >> 8 & (MAPS - 1);
}

/* Is a copy long enough to release qp->lock meanwhile, so that the program may post?
 * The turn is held, so the QP changes only by added requests. Not in exit(), where the
 * lock may never come back. */
static inline bool lets_go(const struct by *by, uint32_t len)
{
	return len > LONG_COPY && !by->qp->core->leaving;
}

/* In now.c: copies bytes [off, off + len) of the range from or to the same bytes of
 * span, if the range is mapped here and the peer allows the access (0: its QP sends
 * these bytes); off and len lie in the range. False: not all was copied. */
bool reach_mapped(const struct by *by, const struct range *at, const struct span *span,
		  uint32_t off, uint32_t len, unsigned access);

void maps_close(struct reach *r);
void maps_forked(struct reach *r);
void maps_fini(struct direct *d);
void maps_left_forked(struct direct *d);

#endif
