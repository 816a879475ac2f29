/* SPDX-License-Identifier: BSD-2-Clause */
/* tell.h - tells the parts that are used of an event: TELL(post, qp, w). */
#ifndef CHECK_TELL_H
#define CHECK_TELL_H

#include "check/check.h"

/* The events of struct check_part. */
#define TELL_EVENTS(EVENT)                                                               \
	EVENT(post)                                                                      \
	EVENT(refused)                                                                   \
	EVENT(recv)                                                                      \
	EVENT(unusual)                                                                   \
	EVENT(complete)                                                                  \
	EVENT(fails)                                                                     \
	EVENT(reaped)                                                                    \
	EVENT(wrote)                                                                     \
	EVENT(reaches)                                                                   \
	EVENT(spoke)                                                                     \
	EVENT(reads)                                                                     \
	EVENT(empty)                                                                     \
	EVENT(armed)                                                                     \
	EVENT(waits)                                                                     \
	EVENT(modified)                                                                  \
	EVENT(made)                                                                      \
	EVENT(destroys)                                                                  \
	EVENT(gone)                                                                      \
	EVENT(stale)                                                                     \
	EVENT(meets)                                                                     \
	EVENT(denied)                                                                    \
	EVENT(exits)

enum { TELL_PARTS = 32 };

/* For each event the functions of the parts that want it, up to a NULL: a message passes
 * several events, and most parts want few. */
extern struct tell {
#define TELL_MEMBER(event)                                                               \
	__typeof__(((struct check_part *)0)->event) event[TELL_PARTS + 1];
	TELL_EVENTS(TELL_MEMBER)
#undef TELL_MEMBER
} tell;

#define TELL(event, ...)                                                                 \
	do {                                                                             \
		for (unsigned i_ = 0; tell.event[i_]; i_++)                              \
			tell.event[i_](__VA_ARGS__);                                     \
	} while (0)

#endif
