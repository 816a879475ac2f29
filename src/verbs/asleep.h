/* SPDX-License-Identifier: BSD-2-Clause */
/* asleep.h - finds threads that sleep in ibv_get_cq_event() while completions wait: the
 * program has armed no completion queue, or has not polled after an event.
 *
 * A thread that goes to sleep looks at the queues of its channel.  If one is armed and
 * empty, as in programs without this defect, that is all.  Otherwise the engine looks
 * after a second, and then less and less often.  Nothing is said while any queue of the
 * channel may still raise an event, since programs leave the completions of sends where
 * they are; nor if several threads wait, arm or poll, since one of them may be about to
 * poll; nor of entries that are not solicited, where events have come for solicited ones.
 * A program that arms for any entry, leaves one on purpose and waits for the next looks
 * like one that has forgotten to poll. */
#ifndef VERBS_ASLEEP_H
#define VERBS_ASLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct channel;
struct core;
struct source;

/* The caller is about to sleep. Returns true if the engine is to look at its deadline. */
bool asleep_begin(struct channel *ch);
void asleep_end(void *channel);

/* core->asleep, a source of the engine, looks when its time has come. The core's lock
 * guards that time. */
struct source *asleep_source(struct core *core);

#endif
