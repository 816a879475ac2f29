/* SPDX-License-Identifier: BSD-2-Clause */
/* answers.h - is a message that goes one way soon answered by one that goes the
 * other?  Then what is due meanwhile may wait for the answer's company: an ACK
 * (ib/ack.c), a completion (iwarp/requester.c).
 *
 * It may after 33 that were, within 100 us.  One that is awaited and is not takes
 * back a sixteenth, so that on a host which is always late with some they are
 * awaited all the same, and not for ever where every seventh is never answered.
 */
#ifndef CORE_ANSWERS_H
#define CORE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ANSWER_PROMPT_NS = 100000, /* an answer that may be waited for ... */
	ANSWER_WAIT_NS = 200000,   /* ... so long */
	ANSWERS_ALL = 1 << 16,
	ANSWERS_LIKELY = ANSWERS_ALL / 8 * 7,
	ANSWERS_PART = 16,
};

/* zeroed at first */
struct answers {
	uint64_t asked_at; /* of a message not answered yet; 0: none */
	uint32_t share;	   /* of prompt answers, of ANSWERS_ALL */
	bool awaited;	   /* its answer is */
};

/* A message goes.  True: it is worth while to wait for the answer. */
static inline bool answers_ask(struct answers *a, uint64_t now)
{
	bool first = !a->asked_at;

	if (!first) /* a stream: nobody answers */
		a->share -= a->share / ANSWERS_PART;
	a->asked_at = now;
	a->awaited = first && a->share >= ANSWERS_LIKELY;
	return a->awaited;
}

/* One goes the other way: the answer, if there was a question.  That one comes late
 * which is not awaited says little: it may be for want of somebody who polls. */
static inline void answers_came(struct answers *a, uint64_t now)
{
	if (!a->asked_at)
		return;
	if (now - a->asked_at < ANSWER_PROMPT_NS)
		a->share += (ANSWERS_ALL - a->share) / ANSWERS_PART;
	else if (a->awaited)
		a->share -= a->share / ANSWERS_PART;
	a->asked_at = 0;
}

#endif
