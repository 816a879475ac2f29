/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - inside core/ only: zeroed memory for work queues, of which only
 * what is touched is resident. */
#ifndef CORE_RING_H
#define CORE_RING_H

#include <stddef.h>

/* n times size bytes, or NULL.  The product is small: callers check caps. */
void *ring_alloc(size_t n, size_t size);
void ring_free(void *ring, size_t n, size_t size); /* ring may be NULL */

#endif
