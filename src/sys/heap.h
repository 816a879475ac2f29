/* SPDX-License-Identifier: BSD-2-Clause */
/* heap.h - deadlines in order: an intrusive binary heap.
 *
 * The user embeds a zeroed struct heap_node in each object.  Setting a node that is in
 * the heap moves it; the deadline UINT64_MAX (NEVER) takes it out. */
#ifndef SYS_HEAP_H
#define SYS_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t at;
	uint32_t pos; /* index in v, from 1; 0: not in the heap */
};

struct heap {
	struct heap_node **v; /* [cap]; v[0] is the earliest */
	uint32_t n, cap;
};

void heap_init(struct heap *h);
void heap_fini(struct heap *h); /* the nodes belong to the user */

/* Makes room for n nodes, so that heap_set() cannot fail.  Returns 0 or -ENOMEM. */
int heap_reserve(struct heap *h, uint32_t n);

int heap_set(struct heap *h, struct heap_node *node, uint64_t at);
void heap_del(struct heap *h, struct heap_node *node); /* node need not be in the heap */

/* The earliest node, or NULL. */
static inline struct heap_node *heap_top(const struct heap *h)
{
	return h->n ? h->v[0] : NULL;
}

static inline bool heap_has(const struct heap_node *node)
{
	return node->pos != 0;
}

/* The earliest deadline; UINT64_MAX: none. */
static inline uint64_t heap_next(const struct heap *h)
{
	return h->n ? h->v[0]->at : UINT64_MAX;
}

#endif
