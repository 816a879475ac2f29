/* SPDX-License-Identifier: BSD-2-Clause */
/* watch.h - what takes input in: the engine's thread, or the threads that poll; and
 * when a thread that polls lets go of its processor.
 *
 * Functions of events and time alone.  docs/driver.md has the table.
 */
#ifndef NIC_WATCH_H
#define NIC_WATCH_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WATCH_LOOK_NS = 1000000, /* what is left is looked after so often */
	WATCH_FIRST_NS = 50000,	 /* polled so lately: somebody polls, and takes input in
				  * before the thread */
	WATCH_LATE_MAX = 7,	 /* see watch.late */
	WATCH_SERVED = 2	 /* ... and what ends it */
};

/* One kind of input, such as sockets or rings. */
struct watch {
	bool left;	     /* to threads that poll; else the thread watches it */
	uint64_t not_before; /* it is not left again before */
	unsigned late;	     /* so often, running, it was in vain that it was left: it is
			      * watched for WATCH_LOOK_NS << late then */
	unsigned served;     /* looks since then that found others first */
};

/* What the thread sees when it wakes. */
struct watch_seen {
	uint64_t now;
	uint64_t slept;	 /* when it went to sleep */
	uint64_t polled; /* when a thread last polled; 0: never */
	bool armed;	 /* a CQ was armed since the last wake-up */
};

/* rang: this kind of input has woken the thread.
 * late: the thread has taken in some that a program may await without polling. */
void watch_see(struct watch *w, const struct watch_seen *s, bool rang, bool late);

/* Does a thread poll so often that it is first? */
static inline bool watch_is_first(const struct watch_seen *s)
{
	return s->polled + WATCH_FIRST_NS > s->now;
}

/* Does the thread that has woken take the turn?  If not, threads that poll serve what is
 * left to them.  watches: nothing is left; called: it is wanted for more than that. */
static inline bool watch_takes_turn(const struct watch_seen *s, bool watches, bool called)
{
	return watches || called || s->armed || !watch_is_first(s);
}

/* It does not take it: they were first, so what is left to them is so rightly. */
static inline void watch_served(struct watch *w)
{
	if (w->left && ++w->served == WATCH_SERVED)
		w->late = 0;
}

/* --- a poller's patience ------------------------------------------------------------ */

enum {
	SPIN_NS = 60000,	  /* it looks for so long, in vain, ... */
	SPIN_SHARED_NS = 1000,	  /* ... or so long, where others run when it yields: */
	SPIN_YIELD_MAX_NS = 2000, /* to yield took longer */
	SPIN_SLICE_NS = 500000,	  /* ... so long: they use up their time slices */
	SPIN_NAP_NS = 20000,	  /* then it looks so long and sleeps so long, */
	SPIN_NAPS_NS = 100000000  /* ... until it tries to yield once more */
};

/* The pollers of a process. */
struct spin {
	uint64_t busy; /* when a poll last found something, yielded or slept */
	bool shared;
	uint64_t nap_until; /* sleep instead of yielding */
};

enum spin_next { SPIN_ON, SPIN_YIELD, SPIN_NAP };

/* What is a thread to do after a poll?  If it yields: spin_yielded(); sleeps:
 * spin_slept(). */
enum spin_next spin_polled(struct spin *s, bool found, uint64_t now);
void spin_yielded(struct spin *s, uint64_t before, uint64_t after);
void spin_slept(struct spin *s, uint64_t after);

/* A poll found the turn taken; n polls running did, without the end of any turn among
 * them.  Its holder may be a thread that gets no processor: then the caller has a
 * higher priority (SCHED_FIFO), and only its sleep lets the holder run. */
enum { SPIN_MISSES = 64, SPIN_MISS_YIELDS = 32, SPIN_MISS_NAP_NS = 50000 };
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
