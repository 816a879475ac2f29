/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h - what the verbs objects and the engine ask of a transport.
 *
 * Every call but at_once() is made with the engine's turn and qp->lock held and takes the
 * time; none blocks, reads a clock, or calls up except to complete work
 * (sq_complete, rq_complete) and to move the QP to ERR (qp_fail).
 */
#ifndef CORE_TRANSPORT_H
#define CORE_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qp;
struct swqe;
struct batch;

struct transport {
	const char *name;	    /* "ib", "iwarp", "local" */
	int (*open)(struct qp *qp); /* make qp->tp, in RESET */
	void (*close)(struct qp *qp);
	/* The QP has entered qp->state, checked by qp_check_modify(), and
	 * qp->attr holds what was set.  Called for every modify, also for
	 * RTS -> RTS; from RESET the transport forgets everything. */
	int (*enter)(struct qp *qp, enum ibv_qp_state from, uint64_t now);
	/* What it has to say goes by a connection of its own: output() puts it out and
	 * plans nothing, whatever a link says that is full. */
	bool stream;
	/* Append what may be sent now to b, until b or the QP's share of it is
	 * full: a plan, in which nothing counts as sent before commit().  A QP
	 * is asked once for a batch.  Returns true if it could send more. */
	bool (*output)(struct qp *qp, struct batch *b, uint64_t now);
	/* Of the datagrams that output() has put into the batch from place
	 * `first` on the link has taken n, and drops the rest: those are planned
	 * anew.  Returns the next deadline, as run() does.  NULL: as output, or
	 * it plans none. */
	uint64_t (*commit)(struct qp *qp, unsigned first, unsigned n, uint64_t now);
	/* The work request w at sq.head, which is not posted yet: post it (sq.head++),
	 * do all of it and complete it, if nothing that was posted waits to be begun
	 * and that can be done without the turn, which is not held.  sge: its SGEs;
	 * of the request itself what is not the transport's or UD's is there.  False:
	 * it is not posted.  What was posted may have been completed, so that the QP
	 * is in ERR, or that it has posted requests of its own: then sq.head has
	 * moved, and w is one of those.  NULL: never. */
	bool (*at_once)(struct qp *qp, const struct swqe *w, const struct ibv_sge *sge);
	/* What has just been posted goes out, where the QP has nothing else to do and is
	 * told no time: what run() would find out is found out by a deadline, or when the
	 * QP is due.  *next: the next deadline.  False: not all of it, or nothing; run()
	 * and output() are to be called.  NULL: never. */
	bool (*posted)(struct qp *qp, uint64_t *next);
	/* Run what is due by now; returns the next deadline or UINT64_MAX.  Called
	 * before output(), and after one that planned nothing. */
	uint64_t (*run)(struct qp *qp, uint64_t now);
	/* Where the QP stands, in words of the transport: PSNs, retries, what is
	 * outstanding.  "" where there is nothing to say. */
	void (*describe)(const struct qp *qp, char *buf, size_t size);
};

#endif
