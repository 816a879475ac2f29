/* SPDX-License-Identifier: BSD-2-Clause */
/* answers.h - predicts whether a message sent to the peer will soon be answered by a
 * message from the peer. If so, an ACK (ib/ack.c) or a completion (iwarp/requester.c)
 * that is due meanwhile may wait and go with the answer.
 *
 * The prediction is a moving share of messages answered within 100 us, with weight
 * 1/16 for each new one: 33 prompt answers in a row make waiting worth while, one
 * awaited answer that is late takes back a sixteenth. So waiting goes on at a host
 * that is late now and then, and stops where one message in seven is not answered.
 */
#ifndef VERBS_ANSWERS_H
#define VERBS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ANSWER_PROMPT_NS = 100000, /* an answer within this time is prompt */
	ANSWER_WAIT_NS = 200000,   /* longest wait for an answer */
	ANSWERS_ALL = 1 << 16,
	ANSWERS_LIKELY = ANSWERS_ALL / 8 * 7,
	ANSWERS_PART = 16,
};

/* zeroed at first */
struct answers {
	uint64_t asked_at; /* when the unanswered message was sent; 0: none */
	uint32_t share;	   /* of promptly answered messages, in 1/ANSWERS_ALL */
	bool awaited;	   /* somebody waits for its answer */
};

/* Notes that a message is sent. Returns true if it is worth while to wait for the
 * answer. */
static inline bool answers_ask(struct answers *a, uint64_t now)
{
	bool first = !a->asked_at;

	if (!first) /* a second message before any answer: a stream */
		a->share -= a->share / ANSWERS_PART;
	a->asked_at = now;
	a->awaited = first && a->share >= ANSWERS_LIKELY;
	return a->awaited;
}

/* Notes that a message from the peer came; it is the answer if one is outstanding. A
 * late answer counts against the share only if it was awaited: otherwise the delay may
 * only mean that this program did not poll. */
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
