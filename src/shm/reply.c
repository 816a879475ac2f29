/* SPDX-License-Identifier: BSD-2-Clause */
/* reply.c - see reply.h.  The place that was given last is taken first, since it is in
 * the cache. */
#include "shm/reply.h"

#include <assert.h>

void reply_open(struct reply_room *r, struct reply_shared *s)
{
	r->s = s;
	r->words = r->chunks = r->nleft = 0;
	for (unsigned i = REPLIES; i > 0; i--)
		reply_give(r, i - 1);
}

int reply_take(struct reply_room *r, uint32_t len)
{
	if (len <= SLOT && r->words)
		return r->word[--r->words];
	return r->chunks ? r->chunk[--r->chunks] : -1;
}

void reply_give(struct reply_room *r, unsigned place)
{
	assert(place < REPLIES);
	if (place < REPLY_WORDS)
		r->word[r->words++] = (uint16_t)place;
	else
		r->chunk[r->chunks++] = (uint16_t)place;
}

void reply_leave(struct reply_room *r, unsigned place, uint32_t until)
{
	assert(r->nleft < REPLIES);
	r->left[r->nleft].place = (uint16_t)place;
	r->left[r->nleft++].until = until;
}

void reply_gather(struct reply_room *r, uint32_t tail)
{
	unsigned n = 0;

	/* What is not read is in the ring, and no farther ahead: positions come around.
	 */
	for (unsigned i = 0; i < r->nleft; i++)
		if (r->left[i].until - tail - 1 < RING_SLOTS)
			r->left[n++] = r->left[i];
		else
			reply_give(r, r->left[i].place);
	r->nleft = n;
}

uint8_t *reply_at(struct reply_shared *s, uint32_t place, uint32_t len)
{
	if (place < REPLY_WORDS)
		return len <= SLOT ? s->word[place] : NULL;
	return place < REPLIES && len <= RING_CHUNK ? s->chunk[place - REPLY_WORDS]
						    : NULL;
}
