/* SPDX-License-Identifier: BSD-2-Clause */
/* turn.h - the engine's turn: who holds it drives the NIC.
 *
 * Registered memory is touched, packets are taken in and put out, and timers
 * run only by the holder of the turn.  So whoever has made an object
 * unreachable and then passes through the turn once knows that nobody is
 * still inside it: that is how regions and QPs are freed.
 *
 * Pollers try; control calls take.  A taker comes for the turn as pollers do at
 * first: between two turns there is time enough.  Where it was too late again and
 * again it makes tries fail, so that a spinning poller cannot starve it; but
 * until it has woken nobody has the turn.  Takers that come then let it go first,
 * too; if it is too late for them again and again, they queue up behind it.
 *
 * Takers that wait stand in line.  A signal handler that came upon one of them must not
 * take the turn: it would wait for the thread that it interrupts.
 *
 * Passing takes nothing: it waits for the end of the turn under way.
 *
 * The holder is not cancelled (pthread_cancel) until it gives the turn: to
 * poll a CQ is no cancellation point, though it makes system calls that are.  Who
 * makes none, but such as hold it off themselves (sys/cancel.h), may have the turn
 * without that: two atomic instructions less.
 */
#ifndef SYS_TURN_H
#define SYS_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "sys/lock.h"

struct CAPABILITY("turn") turn {
	struct lock lock;
	_Atomic uint32_t ended;	 /* turns; written by the holder */
	_Atomic unsigned takers; /* threads that make tries fail */
	int cancel;		 /* the holder's pthread_setcancelstate() */
	_Atomic uint32_t came;	 /* such threads, ever */
	struct lock_cond served; /* ... which have had their turn */
};

void turn_init(struct turn *t);
/* In the child, which has the turn: those that waited for it are the parent's. */
void turn_forked(struct turn *t);
bool turn_try(struct turn *t) TRY_ACQUIRES(true, *t);
/* For what comes to no cancellation point; or until it is prolonged.  A turn that was
 * not is given by turn_give_brief(). */
bool turn_try_brief(struct turn *t) TRY_ACQUIRES(true, *t);
void turn_prolong(struct turn *t) REQUIRES(*t);
void turn_give_brief(struct turn *t) RELEASES(*t);
void turn_take(struct turn *t) ACQUIRES(*t);
void turn_give(struct turn *t) RELEASES(*t);

/* How many have ended; wraps. */
static inline uint32_t turn_ended(const struct turn *t)
{
	return atomic_load_explicit(&t->ended, memory_order_relaxed);
}

/* Let threads run that have a lower priority; errno stays. */
void turn_nap(long ns);

/* Wait until every turn that began before this call has ended.  What the caller
 * made unreachable before is so for all turns that end later. */
void turn_pass(struct turn *t) EXCLUDES(*t);

#endif
