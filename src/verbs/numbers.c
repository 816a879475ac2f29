/* SPDX-License-Identifier: BSD-2-Clause */
/* numbers.c - see numbers.h. */
#include "verbs/numbers.h"

#include <errno.h>
#include <stdlib.h>

enum { PLACES = QPN_INDICES - QPN_FIRST };

int numbers_init(struct numbers *n)
{
	/* calloc, so that the table costs memory only where it is used. */
	n->object = calloc(QPN_INDICES, sizeof(*n->object));
	return n->object ? 0 : -ENOMEM;
}

void numbers_fini(struct numbers *n)
{
	free(n->free);
	free((void *)n->object);
}

static int fill_numbers(struct numbers *n)
{
	n->free = calloc(PLACES, sizeof(*n->free));
	if (!n->free)
		return -ENOMEM;
	for (unsigned i = 0; i < PLACES; i++)
		n->free[i] = (uint16_t)(QPN_FIRST + i);
	return 0;
}

/* Draws the index at the next place from those that were never given. They lie behind
 * it: an index that was freed is put before it until all have been given once. */
static void draw_numbers(struct numbers *n)
{
	uint32_t from = n->next + secret_below(&n->secret, PLACES - n->next);
	uint16_t index = n->free[from];

	n->free[from] = n->free[n->next];
	n->free[n->next] = index;
	n->drawn++;
}

int numbers_next(struct numbers *n, uint32_t *index)
{
	if (n->count == PLACES || (!n->free && fill_numbers(n)))
		return -ENOMEM;
	if (n->next == n->drawn)
		draw_numbers(n);
	*index = n->free[n->next];
	return 0;
}

void numbers_add(struct numbers *n, void *object)
{
	n->object[n->free[n->next]] = object;
	n->next = (n->next + 1) % PLACES;
	n->count++;
}

void numbers_del(struct numbers *n, uint32_t index)
{
	n->object[index] = NULL;
	n->free[(n->next + PLACES - n->count) % PLACES] = (uint16_t)index;
	n->count--;
}
