/* SPDX-License-Identifier: BSD-2-Clause */
/* turn.c - see turn.h. */
#include "sys/turn.h"

void turn_init(struct turn *t)
{
	lock_init(&t->lock);
	atomic_init(&t->takers, 0);
}

/* A signal handler may poll while its own thread holds the turn: trylock
 * answers no then, as for anybody else. */
NO_TSA bool turn_try(struct turn *t)
{
	if (atomic_load_explicit(&t->takers, memory_order_relaxed) != 0)
		return false;
	if (!lock_try(&t->lock))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t->cancel);
	return true;
}

NO_TSA void turn_take(struct turn *t)
{
	atomic_fetch_add_explicit(&t->takers, 1, memory_order_relaxed);
	lock_take(&t->lock);
	atomic_fetch_sub_explicit(&t->takers, 1, memory_order_relaxed);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t->cancel);
}

NO_TSA void turn_give(struct turn *t)
{
	int cancel = t->cancel;

	lock_give(&t->lock);
	pthread_setcancelstate(cancel, NULL);
}

void turn_pass(struct turn *t)
{
	turn_take(t);
	turn_give(t);
}
