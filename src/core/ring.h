/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - inside core/ only: zeroed memory for work queues, of which only
 * what is touched is resident; or the program's own, if their parent domain says so. */
#ifndef CORE_RING_H
#define CORE_RING_H

#include <stddef.h>

struct pd;

/* n times size bytes, or NULL.  The product is small: callers check caps.  pd: where
 * the object is in, or NULL. */
void *ring_alloc(struct pd *pd, size_t n, size_t size);
void ring_free(struct pd *pd, void *ring, size_t n, size_t size); /* ring may be NULL */

#endif
