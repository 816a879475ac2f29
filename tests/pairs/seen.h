/* SPDX-License-Identifier: BSD-2-Clause */
/* seen.h - what an end has seen of a row, as a line: how its send queue's work requests
 * completed, its receive queue's, the QP's state and events, and whether the memory that
 * the row is about has changed:
 *
 *	OK REM_ACCESS FLUSH*2, FLUSH*2, ERR QP_FATAL
 */
#ifndef TESTS_PAIRS_SEEN_H
#define TESTS_PAIRS_SEEN_H

#include "pairs.h"

extern unsigned patience_ms;

void seen_begin(bool some); /* some: do not report how many requests completed */
void seen_refused(int rc);  /* records the errno of a post by A */
/* Waits ms, in which A must have no completion; one that comes is recorded. */
void seen_nothing_for(struct side *a, unsigned ms);
/* Waits until the QPs of both ends, which are in this process, are in ERR. */
void seen_until_err(struct side *a);
/* Waits until the line is as wanted, at most patience_ms. */
void seen_until(struct side *s, const char *want, bool (*changed)(const struct side *));
void seen_say(struct side *s, const char *name, bool (*changed)(const struct side *));

#endif
