/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - carries records from one process to another through shared memory: one writer,
 * one reader, either of which may be hostile.
 *
 * Positions count slots of 64 bytes and run free.  A record lies in consecutive slots.
 * Its first word, the stamp, contains its position and is written last.  By then the word
 * behind the record must not be a valid stamp: the writer clears it where payload of the
 * lap before would pass for one. */
#ifndef SHM_RING_H
#define SHM_RING_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shm/rec.h"

enum {
	SLOT = 64,
	RING_SLOTS = 8192,     /* 512 KiB: what a reader that sleeps is behind */
	RING_NEAR = 2048,      /* 128 KiB: what processors' caches keep */
	RING_LONG = 16,	       /* slots of a record that makes its lap long */
	RING_CHUNK = 16 << 10, /* largest payload of a record */
	RING_RECORD_SLOTS = RING_CHUNK / SLOT + 1,
	RING_SHARE = 1024, /* 64 KiB: what a QP may write while others wait */
	RING_TELL = 1024,  /* 64 KiB: what a reader reads before it tells the writer */
	/* Slots kept free for answers: a ring is emptied in 128 turns of SERVE records,
	 * and in each 8 QPs may answer with an ACK. */
	RING_ANSWER_SLOTS = 1024,
};

/* The layout in shared memory. */
struct ring_shared {
	_Alignas(SLOT) _Atomic uint32_t tail;	   /* written by the reader */
	_Alignas(SLOT) _Atomic uint32_t want_kick; /* set by a reader that sleeps */
	/* Set by a writer that waits for room */
	_Alignas(SLOT) _Atomic uint32_t want_space;
	_Alignas(SLOT) uint8_t slot[RING_SLOTS][SLOT];
};

/* The writer's view of a ring.  A lap has RING_NEAR slots, and then a pad; it has all
 * RING_SLOTS if a long record comes there, or if the reader is behind then. */
struct ring_out {
	struct ring_shared *s;
	uint32_t head, tail; /* tail: as last read from s */
	uint32_t end;	     /* no record of this lap lies beyond */
};

/* The reader's view of a ring. */
struct ring_in {
	struct ring_shared *s;
	uint32_t tail, told; /* told: the value written to s->tail */
};

/* A position, of which other threads may be writing the next value. */
static inline uint32_t ring_mark(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

/* The slots of a record; bytes is at most what a ring holds. */
static inline uint32_t ring_slots(uint32_t bytes)
{
	return (bytes + SLOT - 1) / SLOT;
}

static inline uint32_t ring_stamp(uint32_t pos)
{
	return pos << 1 | 1; /* never 0 */
}

/* --- writing ------------------------------------------------------------- */

/* Reserves a record of that many bytes, headers included.  The caller fills all of it but
 * stamp and bytes.  Returns NULL if there is no room now. */
struct rec *ring_reserve(struct ring_out *r, uint32_t bytes);
/* Reserves one slot for an answer.  Answers have RING_ANSWER_SLOTS that requests may not
 * use: otherwise two writers whose rings are full would wait for each other. */
struct rec *ring_reserve_answer(struct ring_out *r);
/* Is there room for the largest request?  If not, sets want_space, so that the reader
 * sends a KICK. */
bool ring_has_room(struct ring_out *r);
/* Reads how far the reader has come.  Returns false if the position is impossible. */
bool ring_look(struct ring_out *r);

/* ring_reserve() for the common case: room for the record, by the last look at the
 * reader, and no pad. */
static inline struct rec *ring_reserve_near(struct ring_out *r, uint32_t bytes)
{
	const uint32_t n = ring_slots(bytes);

	if (__builtin_expect(n + RING_ANSWER_SLOTS >= RING_SLOTS - (r->head - r->tail) ||
				     n > r->end - r->head,
			     0))
		return ring_reserve(r, bytes);
	return (struct rec *)(void *)r->s->slot[r->head % RING_SLOTS];
}

static inline void ring_publish(struct ring_out *r, struct rec *rec, uint32_t bytes)
{
	const uint32_t end = r->head + ring_slots(bytes);
	struct rec *next = (void *)r->s->slot[end % RING_SLOTS];

	rec->bytes = bytes;
	/* Clears the next word only if old payload there would pass for the next stamp.
	 * Usually it does not; then the cache line stays with the reader, which polls
	 * it. Relaxed: this side wrote what is there, and the release of this record's
	 * stamp comes after. */
	if (__builtin_expect(__atomic_load_n(&next->stamp, __ATOMIC_RELAXED) ==
				     ring_stamp(end),
			     0))
		__atomic_store_n(&next->stamp, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->stamp, ring_stamp(r->head), __ATOMIC_RELEASE);
	/* Others read it without the writers' lock: ring_mark(). */
	__atomic_store_n(&r->head, end, __ATOMIC_RELAXED);
}

/* --- reading ------------------------------------------------------------- */

/* Where the reader finds the next record. */
static inline const struct rec *ring_at(const struct ring_in *r)
{
	return (const void *)r->s->slot[r->tail % RING_SLOTS];
}

static inline bool ring_empty(const struct ring_in *r)
{
	return __atomic_load_n(&ring_at(r)->stamp, __ATOMIC_ACQUIRE) !=
	       ring_stamp(r->tail);
}

static inline void ring_release(struct ring_in *r, const struct rec *rec)
{
	r->tail += ring_slots(rec->bytes);
}

/* Takes the pad *rec out of the ring.  Returns false if it is not valid. */
bool ring_skip(struct ring_in *r, const struct rec *rec);

/* Copies n bytes of the next record's headers, if there is one.  What is checked is the
 * copy: the writer may change the original at any time, so it is not read again. */
static inline const struct rec *ring_peek(const struct ring_in *r, struct rec *rec,
					  size_t n)
{
	const struct rec *from = ring_at(r);

	if (__atomic_load_n(&from->stamp, __ATOMIC_ACQUIRE) != ring_stamp(r->tail))
		return NULL;
	memcpy(rec, from, n);
	__asm__ volatile("" : "+m"(*rec));
	return from;
}

/* Is a record of so many bytes, of which `len`, at most `most`, follow the headers, all
 * in the ring? */
static inline bool ring_holds(const struct ring_in *r, uint32_t bytes, uint32_t len,
			      uint32_t most)
{
	return len <= most && ring_slots(bytes) <= RING_SLOTS - r->tail % RING_SLOTS;
}

/* Gets the next record: its first header; a second one is at *payload, and counts in *len
 * (ring_more()).  Returns 1, and the payload stays in the ring until ring_release(); 0 if
 * there is none; -EPROTO if the record is not valid. */
static inline int ring_next(struct ring_in *r, struct rec *rec, const uint8_t **payload,
			    uint32_t *len)
{
	const struct rec *from;

	while ((from = ring_peek(r, rec, REC_HEAD))) {
		if (__builtin_expect(rec->kind != REC_PAD, 1)) {
			*payload = (const uint8_t *)from + REC_HEAD;
			*len = rec->bytes - REC_HEAD;
			return rec->kind < REC_KINDS &&
					       ring_holds(r, rec->bytes, *len,
							  RING_CHUNK + REC_HEAD_WIDE -
								  REC_HEAD)
				       ? 1
				       : -EPROTO;
		}
		if (!ring_skip(r, rec))
			return -EPROTO;
	}
	return 0;
}

/* Copies the second header, which begins at `at`. */
static inline void ring_more(struct rec *rec, const uint8_t *at)
{
	memcpy((uint8_t *)rec + REC_HEAD, at, REC_HEAD_WIDE - REC_HEAD);
	__asm__ volatile("" : "+m"(*rec));
}

/* Tells the writer how far the reader has come.  Returns true if the writer waits for
 * room. */
bool ring_tell(struct ring_in *r);

#endif
