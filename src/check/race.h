/* SPDX-License-Identifier: BSD-2-Clause */
/* race.h - which requests of this process may meet in the same bytes without an order
 * between them (docs/dev/races.md).
 *
 * A pure model: requests are numbered as they are posted, by one clock for all queues.
 * What is known to have been executed is a vector clock with a component for each queue
 * pair; an access is open until the clock has passed it.  The shadow holds open accesses
 * only, so many at most; where it is full the oldest is forgotten.
 *
 * One lock around all calls; no call allocates but race_new(). */
#ifndef CHECK_RACE_H
#define CHECK_RACE_H

#include <stdbool.h>
#include <stdint.h>

struct race;

enum race_kind {
	RACE_READS,  /* bytes are read */
	RACE_WRITES, /* bytes are written, in the order of their queue */
	RACE_ATOMIC, /* a word is changed in one step; meets neither reads nor atomics */
	/* Bytes are written when an answer comes: later requests of the same queue do not
	 * wait for it without a fence. */
	RACE_ANSWERS,
};

struct race_access {
	uint64_t space; /* accesses to different spaces never meet */
	uint64_t at;
	uint64_t len; /* up to 2^32; nothing meets 0 bytes */
	uint64_t tag; /* the caller's */
	uint32_t queue;
	enum race_kind kind;
};

/* An open access that a new one meets.  Calls nothing of race.h. */
typedef void race_met(const struct race_access *open, uint64_t number, void *arg);

/* most: open accesses, a power of two.  Returns NULL without memory. */
struct race *race_new(uint32_t most);
void race_free(struct race *r);

/* A queue pair begins and ends; it ends all its accesses.  0: there are too many, and
 * accesses of queue 0 are not seen. */
enum { RACE_QUEUES = 1 << 14 };
uint32_t race_queue(struct race *r);
void race_queue_end(struct race *r, uint32_t queue);

/* The next request is posted.  Returns its number: more than 0. */
uint64_t race_post(struct race *r);

/* Calls met for each open access that an access of the newest request meets.  Returns how
 * many. */
unsigned race_meet(struct race *r, const struct race_access *a, race_met *met, void *arg);
/* An access of the newest request is open from now on. */
void race_open(struct race *r, const struct race_access *a);

/* May there be an open access of RACE_ANSWERS? */
bool race_has_answers(const struct race *r);
/* The number of the newest request; 0: none. */
uint64_t race_newest(const struct race *r);

/* Is the request's access still open?  No if it was forgotten. */
bool race_is_open(const struct race *r, const struct race_access *a, uint64_t number);

/* --- what orders -------------------------------------------------------------- */

/* The program has the completion of that request, or of one that covers it. */
void race_done(struct race *r, uint32_t queue, uint64_t number);
/* Requests after this one begin when all before it have been answered: a fence. */
void race_fence(struct race *r, uint32_t queue, uint64_t number);
/* The newest request shows others that all before it on its queue were executed: a SEND,
 * a WRITE with immediate data, an atomic. */
void race_tell(struct race *r, uint32_t queue, uint64_t number);
/* The process has heard from outside: who spoke may have known of everything that was
 * posted so far. */
void race_heard(struct race *r);

/* Open accesses that were forgotten, since the shadow was full. */
uint64_t race_forgotten(const struct race *r);

#endif
