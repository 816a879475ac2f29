/* SPDX-License-Identifier: BSD-2-Clause */
/* heap.c - a binary heap of deadlines; see heap.h. */
#include "sys/heap.h"
#include "sys/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void heap_init(struct heap *h)
{
	*h = (struct heap){ 0 };
}

void heap_fini(struct heap *h)
{
	free(h->v);
	heap_init(h);
}

int heap_reserve(struct heap *h, uint32_t n)
{
	struct heap_node **v;

	if (n <= h->cap)
		return 0;
	v = turn_alloc(n * sizeof(struct heap_node *));
	if (!v)
		return -ENOMEM;
	if (h->n)
		memcpy(v, h->v, h->n * sizeof(struct heap_node *));
	turn_free(h->v);
	h->v = v;
	h->cap = n;
	return 0;
}

static void put_node(struct heap *h, uint32_t i, struct heap_node *node)
{
	h->v[i] = node;
	node->pos = i + 1;
}

/* Moves the hole at i up or down until node fits into it. */
static void sift_node(struct heap *h, uint32_t i, struct heap_node *node)
{
	uint32_t kid;

	for (; i > 0 && h->v[(i - 1) / 2]->at > node->at; i = (i - 1) / 2)
		put_node(h, i, h->v[(i - 1) / 2]);
	for (; (kid = 2 * i + 1) < h->n; i = kid) {
		if (kid + 1 < h->n && h->v[kid + 1]->at < h->v[kid]->at)
			kid++;
		if (h->v[kid]->at >= node->at)
			break;
		put_node(h, i, h->v[kid]);
	}
	put_node(h, i, node);
}

int heap_set(struct heap *h, struct heap_node *node, uint64_t at)
{
	if (at == UINT64_MAX) {
		heap_del(h, node);
		return 0;
	}
	if (!node->pos) {
		if (h->n == h->cap) {
			int rc = heap_reserve(h, h->cap ? h->cap * 2 : 64);

			if (rc)
				return rc;
		}
		put_node(h, h->n++, node);
	}
	node->at = at;
	sift_node(h, node->pos - 1, node);
	return 0;
}

void heap_del(struct heap *h, struct heap_node *node)
{
	uint32_t i = node->pos;
	struct heap_node *last;

	if (!i)
		return;
	node->pos = 0;
	last = h->v[--h->n];
	if (last != node)
		sift_node(h, i - 1, last);
}
