/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c - records in shared memory; see ring.h. */
#include "shm/ring.h"

static void *at(const struct ring_shared *s, uint32_t pos)
{
	return (void *)s->slot[pos % RING_SLOTS];
}

/* --- writing ------------------------------------------------------------- */

bool ring_look(struct ring_out *r)
{
	uint32_t tail = atomic_load_explicit(&r->s->tail, memory_order_acquire);

	if (r->head - tail > RING_SLOTS || tail - r->tail > RING_SLOTS)
		return false;
	__atomic_store_n(&r->tail, tail, __ATOMIC_RELAXED); /* as head: ring_publish() */
	return true;
}

/* One slot stays free: its first word is cleared for the next record. */
static bool fits_lap(const struct ring_out *r, uint32_t n)
{
	return n < RING_SLOTS - (r->head - r->tail);
}

static bool make_room(struct ring_out *r, uint32_t n)
{
	return fits_lap(r, n) || (ring_look(r) && fits_lap(r, n));
}

/* Returns the slots of the pad that a request of n slots needs before it, or 0.  A pad
 * that has no room is not needed: the lap goes on. */
static uint32_t pad_for(struct ring_out *r, uint32_t n)
{
	const uint32_t at = r->head % RING_SLOTS, left = RING_SLOTS - at;

	if (!at)
		r->end = r->head + RING_NEAR;
	else if (n > r->end - r->head && n <= left &&
		 (n >= RING_LONG || !make_room(r, left + n + RING_ANSWER_SLOTS)))
		r->end = r->head + left;
	return n > r->end - r->head ? left : 0;
}

/* Only a record that does not fit before the ring's end must have a pad. */
bool ring_has_room(struct ring_out *r)
{
	const uint32_t left = RING_SLOTS - r->head % RING_SLOTS;
	uint32_t n = RING_RECORD_SLOTS + RING_ANSWER_SLOTS;

	if (RING_RECORD_SLOTS > left)
		n += left;
	if (make_room(r, n))
		return true;
	atomic_store(&r->s->want_space, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (!make_room(r, n))
		return false;
	/* Relaxed: should the reader miss it, a KICK comes in vain. */
	atomic_store_explicit(&r->s->want_space, 0, memory_order_relaxed);
	return true;
}

struct rec *ring_reserve(struct ring_out *r, uint32_t bytes)
{
	const uint32_t n = ring_slots(bytes), end = pad_for(r, n);
	struct rec *pad;

	if (!make_room(r, end + n + RING_ANSWER_SLOTS))
		return NULL;
	if (end) {
		pad = at(r->s, r->head);
		pad->kind = REC_PAD;
		pad->flags = 0;
		ring_publish(r, pad, end * SLOT);
		r->end = r->head + RING_NEAR;
	}
	return at(r->s, r->head);
}

struct rec *ring_reserve_answer(struct ring_out *r)
{
	if (!make_room(r, 1))
		return NULL;
	if (r->head ==
	    r->end) /* an answer needs no pad: the lap goes on, or one begins */
		r->end += r->head % RING_SLOTS ? RING_SLOTS - r->head % RING_SLOTS
					       : RING_NEAR;
	return at(r->s, r->head);
}

/* --- reading ------------------------------------------------------------- */

/* A pad must reach the end of the ring but not be all of it, so that no reader goes round
 * for ever. */
bool ring_skip(struct ring_in *r, const struct rec *rec)
{
	const uint32_t at = r->tail % RING_SLOTS;

	if (!at || rec->bytes != (RING_SLOTS - at) * SLOT)
		return false;
	ring_release(r, rec);
	return true;
}

bool ring_tell(struct ring_in *r)
{
	if (r->told != r->tail) {
		r->told = r->tail;
		atomic_store(&r->s->tail, r->tail);
	}
	return atomic_load(&r->s->want_space) && atomic_exchange(&r->s->want_space, 0);
}
