/* SPDX-License-Identifier: BSD-2-Clause */
/* turn.h - the engine's turn: who holds it drives the NIC.
 *
 * Registered memory is touched, packets are taken in and put out, and timers
 * run only by the holder of the turn.  So whoever has made an object
 * unreachable and then passes through the turn once knows that nobody is
 * still inside it: that is how regions and QPs are freed.
 *
 * Pollers try; control calls take.  A taker that waits makes tries fail, so
 * that a spinning poller cannot starve it.
 *
 * The holder is not cancelled (pthread_cancel) until it gives the turn: to
 * poll a CQ is no cancellation point, though it makes system calls that are.
 */
#ifndef SYS_TURN_H
#define SYS_TURN_H

#include <pthread.h>
#include <stdatomic.h>

#include "sys/lock.h"

struct CAPABILITY("turn") turn {
	struct lock lock;
	_Atomic unsigned takers;	/* threads waiting in turn_take() */
	int cancel;			/* the holder's pthread_setcancelstate() */
};

void turn_init(struct turn *t);
bool turn_try(struct turn *t) TRY_ACQUIRES(true, *t);
void turn_take(struct turn *t) ACQUIRES(*t);
void turn_give(struct turn *t) RELEASES(*t);

/* Wait until every turn that began before this call has ended. */
void turn_pass(struct turn *t) EXCLUDES(*t);

#endif
