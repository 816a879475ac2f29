/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - inside verbs/ only: zeroed memory for work queues, of which only touched
 * pages are resident. With a parent domain that has allocators, the program's memory
 * is used instead. */
#ifndef VERBS_RING_H
#define VERBS_RING_H

#include <stddef.h>

struct pd;

/* Returns n * size zeroed bytes, or NULL. Callers check caps first, so the product is
 * small. pd: the PD that the object was created in, or NULL. */
void *ring_alloc(struct pd *pd, size_t n, size_t size);
void ring_free(struct pd *pd, void *ring, size_t n, size_t size); /* ring may be NULL */

#endif
