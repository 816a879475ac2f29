/* SPDX-License-Identifier: BSD-2-Clause */
/* quicker.h - which of two ways takes a stream of requests in less time?  All go the
 * first way until the second has been tried and was clearly quicker (docs/dev/shm.md,
 * "The way of a request").  What is compared is the time from one request to the RUN-th
 * after it, with all that the program does between them.
 *
 * A function of the calls and the time. */
#ifndef SHM_QUICKER_H
#define SHM_QUICKER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	QUICKER_RUN = 256, /* requests that are timed together */
	QUICKER_LOOK = 32, /* ... and between two looks at the clock on the second way */
};

/* All zero: nothing is known. */
struct quicker {
	uint64_t since;	   /* ns: when the run began; 0: none has */
	uint64_t first_ns; /* the shortest run on the first way before a trial */
	uint32_t n;	   /* requests of this run */
	uint16_t left;	   /* runs on this way before something else is tried */
	uint16_t pause;	   /* runs on the first way before the next trial */
	uint16_t stay;	   /* runs on the second way before the first is timed again */
	uint8_t late; /* runs on the second way that took longer than the first way */
	bool second;  /* this run goes the second way */
	bool trial;   /* ... to see how long it takes */
};

/* Counts a request that is about to go.  Must quicker_look() be called for it? */
static inline bool quicker_is_due(struct quicker *t)
{
	return ++t->n > QUICKER_RUN || !t->since || t->trial ||
	       (t->second && t->n % QUICKER_LOOK == 0);
}

/* t->second says afterwards which way the request goes. */
void quicker_look(struct quicker *t, uint64_t now);

#endif
