/* SPDX-License-Identifier: BSD-2-Clause */
/* answers.h - is a message that goes one way soon answered by one that goes the
 * other?  Then what is due meanwhile may wait for the answer's company: an ACK
 * (ib/ack.c), a completion (iwarp/requester.c).
 *
 * It may if nearly all of the last messages were, within 50 us: 33 in a row at
 * first, later on more than 7 of 8; of those that are awaited and come after
 * more than 200 us, or never, less than 1 of 50.
 */
#ifndef CORE_ANSWERS_H
#define CORE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ANSWER_PROMPT_NS = 50000,	/* an answer that may be waited for ... */
	ANSWER_WAIT_NS = 200000,	/* ... so long */
	ANSWERS_ALL = 1 << 16, ANSWERS_LIKELY = ANSWERS_ALL / 8 * 7,
	ANSWERS_PART = 16, ANSWERS_IN_VAIN = 2,
};

struct answers {			/* zeroed at first */
	uint64_t asked_at;		/* of a message not answered yet; 0: none */
	uint32_t share;			/* of prompt answers, of ANSWERS_ALL */
	bool awaited;			/* its answer is */
};

/* Some 50 that are prompt make good for one that was awaited in vain. */
static inline void answers_none(struct answers *a, bool in_vain)
{
	a->share -= a->share / (in_vain ? ANSWERS_IN_VAIN : ANSWERS_PART);
}

/* A message goes.  True: it is worth while to wait for the answer. */
static inline bool answers_ask(struct answers *a, uint64_t now)
{
	bool first = !a->asked_at;

	if (!first)			/* a stream: nobody answers */
		answers_none(a, a->awaited);
	a->asked_at = now;
	a->awaited = first && a->share >= ANSWERS_LIKELY;
	return a->awaited;
}

/* One goes the other way: the answer, if there was a question. */
static inline void answers_came(struct answers *a, uint64_t now)
{
	if (!a->asked_at)
		return;
	if (now - a->asked_at < ANSWER_PROMPT_NS)
		a->share += (ANSWERS_ALL - a->share) / ANSWERS_PART;
	else
		answers_none(a, a->awaited && now - a->asked_at >= ANSWER_WAIT_NS);
	a->asked_at = 0;
}

#endif
