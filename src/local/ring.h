/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - carries records from one process to another through shared memory: one writer,
 * one reader, either of which may be hostile.
 *
 * Positions count slots of 64 bytes and run free.  A record lies in consecutive slots.
 * Its first word, the stamp, contains its position and is written last.  By then the word
 * behind the record must not be a valid stamp: the writer clears it where payload of the
 * lap before would pass for one. */
#ifndef LOCAL_RING_H
#define LOCAL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "local/rec.h"

enum {
	SLOT = 64,
	RING_SLOTS = 2048,     /* 128 KiB */
	RING_CHUNK = 16 << 10, /* largest payload of a record */
	RING_RECORD_SLOTS = RING_CHUNK / SLOT + 1,
	/* Slots kept free for answers: a ring is emptied in 32 turns of SERVE records,
	 * and in each 8 QPs may answer with an ACK. */
	RING_ANSWER_SLOTS = 256,
};

/* The layout in shared memory. */
struct ring_shared {
	_Alignas(SLOT) _Atomic uint32_t tail;	   /* written by the reader */
	_Alignas(SLOT) _Atomic uint32_t want_kick; /* set by a reader that sleeps */
	/* Set by a writer that waits for room */
	_Alignas(SLOT) _Atomic uint32_t want_space;
	_Alignas(SLOT) uint8_t slot[RING_SLOTS][SLOT];
};

/* The writer's view of a ring. */
struct ring_out {
	struct ring_shared *s;
	uint32_t head, tail; /* tail: as last read from s */
};

/* The reader's view of a ring. */
struct ring_in {
	struct ring_shared *s;
	uint32_t tail, told; /* told: the value written to s->tail */
};

/* Reserves a record of that many bytes, headers included.  The caller fills all of it but
 * stamp and bytes.  Returns NULL if there is no room now. */
struct rec *ring_reserve(struct ring_out *r, uint32_t bytes);
/* Reserves one slot for an answer.  Answers have RING_ANSWER_SLOTS that requests may not
 * use: otherwise two writers whose rings are full would wait for each other. */
struct rec *ring_reserve_answer(struct ring_out *r);
void ring_publish(struct ring_out *r, struct rec *rec, uint32_t bytes);
/* Is there room for the largest request?  If not, sets want_space, so that the reader
 * sends a KICK. */
bool ring_has_room(struct ring_out *r);
/* Reads how far the reader has come.  Returns false if the position is impossible. */
bool ring_look(struct ring_out *r);

/* ring_reserve() for the common case: room for the record, by the last look at the
 * reader, and no pad. */
static inline struct rec *ring_reserve_near(struct ring_out *r, uint32_t bytes)
{
	const uint32_t n = (bytes + SLOT - 1) / SLOT, at = r->head % RING_SLOTS;

	if (__builtin_expect(n + RING_ANSWER_SLOTS >= RING_SLOTS - (r->head - r->tail) ||
				     n > RING_SLOTS - at,
			     0))
		return ring_reserve(r, bytes);
	return (struct rec *)(void *)r->s->slot[at];
}

/* Gets the next record.  Returns 1 with its headers in *rec and its payload in the ring
 * until ring_release(); 0 if there is none; -EPROTO if the record is not valid. */
int ring_next(struct ring_in *r, struct rec *rec, const uint8_t **payload, uint32_t *len);
void ring_release(struct ring_in *r, const struct rec *rec);
/* Tells the writer how far the reader has come.  Returns true if the writer waits for
 * room. */
bool ring_tell(struct ring_in *r);
bool ring_empty(const struct ring_in *r);

#endif
