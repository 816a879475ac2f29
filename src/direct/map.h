/* SPDX-License-Identifier: BSD-2-Clause */
/* map.h - regions of another process that are mapped here, too; for this room. */
#ifndef DIRECT_MAP_H
#define DIRECT_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "core/qp.h"
#include "direct/direct.h"

enum { LONG_COPY = 16 << 10 };

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

/* A copy of so many bytes does not keep the program from posting: under the turn nothing
 * of the QP changes but that requests are added.  At exit() the lock may never come
 * again. */
static inline bool lets_go(const struct by *by, uint32_t len)
{
	return len > LONG_COPY && !by->qp->core->leaving;
}

/* now.c: bytes [off, off + len) of the range are copied from, or to, the same of span,
 * where the range is mapped here; off and len lie in it.  False: not all. */
bool reach_mapped(const struct by *by, const struct range *at, const struct span *span,
		  uint32_t off, uint32_t len, bool read);

void maps_close(struct reach *r);
void maps_forked(struct reach *r);
void maps_fini(struct direct *d);
void maps_left_forked(struct direct *d);

#endif
