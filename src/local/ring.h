/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.h - records from one process to another through shared memory: one
 * writer, one reader, either of which may be hostile.
 *
 * Positions count slots of 64 bytes and run free.  A record lies in
 * consecutive slots.  Its stamp, the first word, names its position and is
 * written last; the word behind a record is no stamp by then (it is cleared where
 * what was payload a lap ago would pass for one).
 */
#ifndef LOCAL_RING_H
#define LOCAL_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "local/rec.h"

enum {
	SLOT = 64,
	RING_SLOTS = 2048,     /* 128 KiB */
	RING_CHUNK = 16 << 10, /* payload of a record, at most */
	RING_RECORD_SLOTS = RING_CHUNK / SLOT + 1,
	/* Free for answers only: 32 turns of SERVE records empty a ring, with an ACK
	 * each of 8 QPs. */
	RING_ANSWER_SLOTS = 256,
};

/* As it lies in shared memory. */
struct ring_shared {
	_Alignas(SLOT) _Atomic uint32_t tail;	    /* the reader's */
	_Alignas(SLOT) _Atomic uint32_t want_kick;  /* the reader sleeps */
	_Alignas(SLOT) _Atomic uint32_t want_space; /* the writer waits */
	_Alignas(SLOT) uint8_t slot[RING_SLOTS][SLOT];
};

/* the writer's view */
struct ring_out {
	struct ring_shared *s;
	uint32_t head, tail; /* tail: as last seen */
};

/* the reader's */
struct ring_in {
	struct ring_shared *s;
	uint32_t tail, told; /* told: what s->tail says */
};

/* Room for a record of that many bytes, headers included, which the caller
 * fills but for stamp and bytes.  NULL: none now. */
struct rec *ring_reserve(struct ring_out *r, uint32_t bytes);
/* The same for an answer of one slot, for which there is room though there is none for
 * requests: else two writers whose rings are full wait for each other. */
struct rec *ring_reserve_answer(struct ring_out *r);
void ring_publish(struct ring_out *r, struct rec *rec, uint32_t bytes);
/* Is there room for any request?  False: want_space is set. */
bool ring_has_room(struct ring_out *r);
/* How far the reader has come.  False: it cannot be there. */
bool ring_look(struct ring_out *r);

/* The next record: 1, its headers copied to *rec and its payload in the ring
 * until ring_release(); 0: none; -EPROTO: what no urnic writes. */
int ring_next(struct ring_in *r, struct rec *rec, const uint8_t **payload, uint32_t *len);
void ring_release(struct ring_in *r, const struct rec *rec);
/* Let the writer know how far the reader has come.  True: it waits for that. */
bool ring_tell(struct ring_in *r);
bool ring_empty(const struct ring_in *r);

#endif
