/* SPDX-License-Identifier: BSD-2-Clause */
/* answers.h - is a message that goes one way soon answered by one that goes the
 * other?  Then what is due meanwhile may wait for the answer's company: an ACK
 * (ib/ack.c), a completion (iwarp/requester.c).
 *
 * It may if nearly all of the last messages were: 33 in a row at first, later
 * on more than 7 of 8.
 */
#ifndef CORE_ANSWERS_H
#define CORE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ANSWER_PROMPT_NS = 50000,	/* an answer that may be waited for ... */
	ANSWER_WAIT_NS = 200000,	/* ... so long; one that takes longer is none */
	ANSWERS_ALL = 1 << 16, ANSWERS_LIKELY = ANSWERS_ALL / 8 * 7, ANSWERS_PART = 16,
};

struct answers {			/* zeroed at first */
	uint64_t asked_at;		/* of a message not answered yet; 0: none */
	uint32_t share;			/* of prompt answers, of ANSWERS_ALL */
};

static inline void answers_none(struct answers *a)
{
	a->share -= a->share / ANSWERS_PART;
}

/* A message goes.  True: it is worth while to wait for the answer. */
static inline bool answers_ask(struct answers *a, uint64_t now)
{
	bool likely = !a->asked_at && a->share >= ANSWERS_LIKELY;

	if (a->asked_at)		/* a stream: nobody answers */
		answers_none(a);
	a->asked_at = now;
	return likely;
}

/* One goes the other way: the answer, if there was a question. */
static inline void answers_came(struct answers *a, uint64_t now)
{
	if (!a->asked_at)
		return;
	if (now - a->asked_at >= ANSWER_WAIT_NS)
		answers_none(a);
	else if (now - a->asked_at < ANSWER_PROMPT_NS)
		a->share += (ANSWERS_ALL - a->share) / ANSWERS_PART;
	a->asked_at = 0;
}

#endif
