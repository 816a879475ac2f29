/* SPDX-License-Identifier: BSD-2-Clause */
/* turn.h - the engine's turn: the thread that holds it drives the NIC.
 *
 * Only the holder of the turn touches registered memory, takes packets in, sends them,
 * and runs timers.  So code that has made an object unreachable and then passes through
 * the turn once knows that no thread is still using the object: that is how regions and
 * QPs are freed.
 *
 * Pollers try for the turn; control calls (takers) take it.  A taker at first tries as
 * pollers do, since between two turns there is time enough.  After it was too late
 * several times it makes all tries fail, so that spinning pollers cannot starve it; the
 * price is that nobody has the turn until the taker has woken.  Takers that come later
 * let it go first, too; if they are too late several times, they queue up behind it.
 *
 * Takers that wait stand in line.  A signal handler that interrupted one of them must not
 * take the turn: it would wait for the very thread that it interrupts.
 *
 * Passing through the turn takes no lock: it waits until the present turn ends.
 *
 * The holder is not cancelled (pthread_cancel) until it gives the turn: polling a CQ is
 * no cancellation point, although it makes system calls that are.  A holder that reaches
 * no cancellation point, except where the callee holds cancellation off itself
 * (sys/cancel.h), may use the brief turn, which leaves the cancellation state alone and
 * saves two atomic instructions. */
#ifndef SYS_TURN_H
#define SYS_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "sys/lock.h"

struct CAPABILITY("turn") turn {
	struct lock lock;
	_Atomic uint32_t ended;	 /* number of turns; written by the holder */
	_Atomic unsigned takers; /* takers that make tries fail */
	bool prolonged;		 /* `cancel` is to be restored; the holder's */
	int cancel;		 /* the holder's pthread_setcancelstate() */
	_Atomic uint32_t came;	 /* how many such takers there ever were */
	struct lock_cond served; /* changes: how many of them have had their turn */
};

void turn_init(struct turn *t);
/* In the child of a fork, whose thread holds the turn: the waiting threads are not in
 * it. */
void turn_forked(struct turn *t);
bool turn_try(struct turn *t) TRY_ACQUIRES(true, *t);
/* For a holder that reaches no cancellation point, or not before turn_prolong(), which
 * may be called twice. */
bool turn_try_brief(struct turn *t) TRY_ACQUIRES(true, *t);
void turn_prolong(struct turn *t) REQUIRES(*t);
void turn_take(struct turn *t) ACQUIRES(*t);
/* As lock_get(). A thread that has the turn already does not wait for it. */
bool turn_get(struct turn *t, enum lock_how how) TRY_ACQUIRES(true, *t);
void turn_give(struct turn *t) RELEASES(*t);

/* The number of turns that have ended; wraps. */
static inline uint32_t turn_ended(const struct turn *t)
{
	return atomic_load_explicit(&t->ended, memory_order_relaxed);
}

/* Sleeps, so that threads of a lower priority can run; keeps errno. */
void turn_nap(long ns);

/* Waits until every turn that began before this call has ended.  Later turns see all that
 * the caller wrote before it, so they cannot reach an object that it has unlinked. */
void turn_pass(struct turn *t) EXCLUDES(*t);

#endif
