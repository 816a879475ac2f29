/* SPDX-License-Identifier: BSD-2-Clause */
/* watch.h - decides who takes input in, the engine's thread or the threads that poll,
 * and when a polling thread gives up its processor.
 *
 * All functions depend on events and time only. docs/dev/driver.md has the table.
 */
#ifndef DRIVER_WATCH_H
#define DRIVER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/tuning.h"

/* One kind of input, such as sockets or rings. */
struct watch {
	bool left;	     /* left to polling threads; else the thread watches it */
	uint64_t not_before; /* ns; not left to pollers before this time */
	/* consecutive times that leaving it to pollers was in vain: the thread then
	 * watches it for WATCH_LOOK_NS << late */
	unsigned late;
	unsigned served; /* since then, looks at which pollers had been first */
};

/* What the thread sees when it wakes up. */
struct watch_seen {
	uint64_t now;
	uint64_t slept;	 /* ns; when it went to sleep */
	uint64_t polled; /* ns; when a thread last polled; 0: never */
	bool armed;	 /* a CQ was armed since the last wake-up */
};

/* Updates w after a wake-up. rang: this kind of input woke the thread. late: the thread
 * took in input that a program may await without polling. */
void watch_see(struct watch *w, const struct watch_seen *s, bool rang, bool late);

/* Does a thread poll so often that it takes input before the engine's thread? */
static inline bool watch_is_first(const struct watch_seen *s)
{
	return s->polled + WAKE_UP_NS > s->now;
}

/* Does the thread, just woken, take the turn? If not, polling threads serve the input
 * that is left to them. watches: none is left to them; called: the thread is wanted for
 * more than input. */
static inline bool watch_takes_turn(const struct watch_seen *s, bool watches, bool called)
{
	return watches || called || s->armed || !watch_is_first(s);
}

/* The thread did not take the turn, because pollers were first: leaving them the input
 * was right. */
static inline void watch_served(struct watch *w)
{
	if (w->left && ++w->served == WATCH_SERVED)
		w->late = 0;
}

/* --- the thread's patience ---------------------------------------------------------- */

/* Datagrams in bulk are followed by more.  To sleep between two bursts, and to be woken,
 * takes longer than to take a burst in; so the thread looks for more for a while. */
struct bulk {
	uint64_t until;	      /* ns; looks for more until then */
	uint64_t rests_until; /* ns; does not look for more until then */
	unsigned looks;
};

/* A turn has taken n datagrams in. */
static inline void bulk_took(struct bulk *b, unsigned n, uint64_t now)
{
	if (n >= BULK && now >= b->rests_until)
		b->until = now + WAKE_UP_NS;
}

/* Does the thread look for more, instead of sleeping? */
static inline bool bulk_goes_on(const struct bulk *b, uint64_t now)
{
	return now < b->until;
}

/* Must this look go to all descriptors, although those of input would do? */
static inline bool bulk_looks_round(struct bulk *b)
{
	return ++b->looks % BULK_LOOKS == 0;
}

/* --- a thread that waits for an event ------------------------------------------------
 */

/* By what earlier waits at its channel took, a thread that waits for an event */
enum wait_how {
	WAIT_AWAY,  /* leaves the NIC to the engine's thread, */
	WAIT_SLEEP, /* sleeps on the NIC's descriptors and takes input in itself, or */
	WAIT_LOOK,  /* looks for input before it does so. */
};

/* took: what the last wait took, in ns; 0: not known. rests: it must not look. */
static inline enum wait_how wait_how(uint64_t took, unsigned rests)
{
	return !took || took >= WATCH_LOOK_NS  ? WAIT_AWAY
	       : took < WAIT_LOOK_NS && !rests ? WAIT_LOOK
					       : WAIT_SLEEP;
}

/* A thread has looked, in vain or not. Returns in how many waits it does not look. */
static inline unsigned wait_looked(unsigned *vain, bool in_vain)
{
	if (!in_vain) {
		*vain = 0;
		return 0;
	}
	if (*vain < WAIT_VAIN_MAX)
		++*vain;
	return 1u << *vain;
}

/* --- a poller's patience ------------------------------------------------------------ */

/* Shared by the polling threads of a process. */
struct spin {
	uint64_t busy; /* ns; when a poll last found something, yielded or slept */
	bool shared;
	unsigned vain;	    /* yields to other threads since a poll found something */
	uint64_t nap_until; /* ns; until then, sleep instead of yielding */
};

enum spin_next { SPIN_ON, SPIN_YIELD, SPIN_NAP };

/* The engine's thread has yielded while it looked for more input.  If another thread
 * wanted the processor, the thread sleeps after this.  If that used up its time slice,
 * the thread sleeps after each turn for a while: Linux wakes it sooner than it gives the
 * processor back after a yield. */
static inline void bulk_yielded(struct bulk *b, uint64_t before, uint64_t after)
{
	if (after - before > SPIN_YIELD_MAX_NS)
		b->until = 0;
	if (after - before > SPIN_SLICE_NS)
		b->rests_until = after + SPIN_NAPS_NS;
}

/* What should a thread do after a poll? If it yields, it reports by spin_yielded(); if
 * it sleeps, by spin_slept(). */
enum spin_next spin_polled(struct spin *s, bool found, uint64_t now);
void spin_yielded(struct spin *s, uint64_t before, uint64_t after);
void spin_slept(struct spin *s, uint64_t after);

/* A poll found the turn taken, as n polls in a row did, without any turn ending among
 * them. The holder may be a thread that gets no processor because the caller has a
 * higher priority (SCHED_FIFO); only sleep lets the holder run. */
static inline bool spin_asks(unsigned n)
{
	return n % SPIN_MISSES == 0;
}
static inline enum spin_next spin_missed(unsigned n)
{
	return !spin_asks(n)			    ? SPIN_ON
	       : n < SPIN_MISSES * SPIN_MISS_YIELDS ? SPIN_YIELD
						    : SPIN_NAP;
}

#endif
