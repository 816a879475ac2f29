/* SPDX-License-Identifier: BSD-2-Clause */
/* target_state.h - what a QP remembers as the target of its peer's requests, and why it
 * refuses one (verbs/target.h).
 */
#ifndef VERBS_TARGET_STATE_H
#define VERBS_TARGET_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "verbs/mr.h"
#include "verbs/rq.h"
#include "verbs/verr.h"

enum refusal {
	ACCEPTED,
	REFUSED_NO_RECV,    /* no receive is posted */
	REFUSED_RECV_SHORT, /* the message is longer than its receive */
	REFUSED_RECV_SGE,   /* an SGE of the receive: key, rights or memory */
	REFUSED_INVALIDATE, /* the rkey cannot be invalidated */
	REFUSED_PLACE,	    /* the packet does not continue the message */
	REFUSED_LENGTH,	    /* the length does not fit the packet or the message */
	REFUSED_TOO_LONG,   /* longer than REQUEST_MAX */
	REFUSED_OPERATION,  /* not allowed by qp_access_flags */
	REFUSED_ALIGNMENT,  /* an atomic's address is not a multiple of 8 */
	REFUSED_TOO_MANY,   /* more READs and atomics than max_dest_rd_atomic */
	REFUSED_KEY,	    /* wrong rkey, range or rights: target.refused.why */
	REFUSED_MEMORY,	    /* the region's memory is unmapped */
	REFUSED_SRQ,	    /* the request names an SRQ that the QP may not use */
	REFUSALS
};

/* A QP's state as target; initially zeroed. */
struct target {
	/* The receive that the current message fills. */
	bool have_recv;
	struct rwqe recv;
	uint64_t filled;
	/* The WRITE in progress. */
	struct {
		uint64_t va;
		uint32_t rkey, len, left;
	} write;
	/* Who has posted the request, for src/check: a process of this host, as far as
	 * that is known (pid 0: no), before that time of CLOCK_MONOTONIC (0: not known).
	 */
	struct {
		bool known;
		pid_t pid;
		uint64_t posted;
	} source;
	/* Details of the latest REFUSED_KEY or REFUSED_RECV_SGE. */
	struct {
		uint64_t va, len;
		uint32_t rkey;
		int access;
		enum mr_why why;
		enum verr verr;
	} refused;
};

#endif
