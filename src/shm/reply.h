/* SPDX-License-Identifier: BSD-2-Clause */
/* reply.h - room for the answers to READs and atomics, in the memory that two processes
 * share.  The process that asks reserves a place before it asks, names it in its request,
 * and gives it back when it has taken the answer; the other process writes the answer
 * there.  So who answers never waits for room.
 *
 * A request that nobody waits for any more may still lie in the ring and be answered.  So
 * its place is free only when the peer has read on from there. */
#ifndef SHM_REPLY_H
#define SHM_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/ring.h"

enum {
	REPLY_WORDS = 128, /* places of a slot, for atomics and short READs */
	REPLY_CHUNKS = 32, /* places of RING_CHUNK bytes */
	REPLIES = REPLY_WORDS + REPLY_CHUNKS,
};

/* The layout in shared memory: the places of one process that asks. */
struct reply_shared {
	_Alignas(SLOT) uint8_t word[REPLY_WORDS][SLOT];
	uint8_t chunk[REPLY_CHUNKS][RING_CHUNK];
};

/* The view of the process that asks. */
struct reply_room {
	struct reply_shared *s;
	unsigned words, chunks; /* free places: */
	uint16_t word[REPLY_WORDS], chunk[REPLY_CHUNKS];
	/* Places to be free when the peer has read as far as `until`. */
	unsigned nleft;
	struct {
		uint16_t place;
		uint32_t until;
	} left[REPLIES];
};

/* All places are free. */
void reply_open(struct reply_room *r, struct reply_shared *s);
/* Reserves a place for len bytes, RING_CHUNK at most.  Returns it, or -1 if there is
 * none. */
int reply_take(struct reply_room *r, uint32_t len);
void reply_give(struct reply_room *r, unsigned place);
/* Gives it, but not before the peer has read up to `until`, a position in the ring. */
void reply_leave(struct reply_room *r, unsigned place, uint32_t until);
/* The peer has read up to `tail`. */
void reply_gather(struct reply_room *r, uint32_t tail);
/* Where the place is, or NULL if there is none of that number or it has less than len
 * bytes. */
uint8_t *reply_at(struct reply_shared *s, uint32_t place, uint32_t len);

#endif
