/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h - what the verbs objects and the engine ask of a transport.
 *
 * Every call is made with the engine's turn and qp->lock held and takes the
 * time; none blocks, reads a clock, or calls up except to complete work
 * (sq_complete, rq_complete) and to move the QP to ERR (qp_fail).
 */
#ifndef CORE_TRANSPORT_H
#define CORE_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct qp;
struct batch;

struct transport {
	const char *name;			/* "ib", "iwarp", "local" */
	int  (*open)(struct qp *qp);		/* make qp->tp, in RESET */
	void (*close)(struct qp *qp);
	/* The QP has entered qp->state, checked by qp_check_modify(), and
	 * qp->attr holds what was set.  Called for every modify, also for
	 * RTS -> RTS; from RESET the transport forgets everything. */
	int  (*enter)(struct qp *qp, enum ibv_qp_state from, uint64_t now);
	/* NULL of a transport of bytes: the engine asks it in its own terms
	 * (iwarp/iwarp.h).
	 * Append what may be sent now to b, until b or the QP's share of it is
	 * full.  The datagrams count as sent: take_back() undoes that.
	 * Returns true if the QP could have sent more. */
	bool (*output)(struct qp *qp, struct batch *b, uint64_t now);
	/* The link did not take the QP's datagrams from psn on.  NULL as output. */
	void (*take_back)(struct qp *qp, uint32_t psn, uint64_t now);
	/* Run what is due by now; returns the next deadline or UINT64_MAX. */
	uint64_t (*run)(struct qp *qp, uint64_t now);
};

#endif
