/* SPDX-License-Identifier: BSD-2-Clause */
/* round.h - what the engine and the transports tell each other during a turn: the time,
 * whether all input has been taken in, and the work that is done and still to be done.
 * All of it is under the turn.
 */
#ifndef VERBS_ROUND_H
#define VERBS_ROUND_H

#include <stdbool.h>
#include <stdint.h>

struct round {
	uint64_t (*clock)(void); /* NULL: time stands still during a turn */
	/* Everything that arrived by this time has been taken in. NEVER where the engine
	 * sets no time: there all input is taken in before timers run. */
	uint64_t heard;
	bool must_hear; /* a timer waits for heard to advance */
	uint32_t spent; /* work of this turn that sent nothing, in datagrams */
	bool hurry;	/* send everything that might otherwise wait */
	/* Much goes by a ring of this host, either way: more follows soon.  Set by who
	 * reads or fills the ring in a turn, cleared when the engine's turn ends. */
	bool bulk;
};

/* Has time `at` passed, with all packets that arrived by then taken in? If this
 * process was stopped meanwhile, packets may still lie in a socket or a ring. Then
 * this returns false, and the next turns take in all of them first; the timer need
 * only ask again. */
bool silent_until(struct round *r, uint64_t at, uint64_t now);

/* Returns the current time after the turn that began at now has sent something. The
 * process may have been stopped in between, and timers run from when the packets were
 * sent. */
uint64_t went_out(const struct round *r, uint64_t now);

#endif
