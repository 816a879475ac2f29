/* SPDX-License-Identifier: BSD-2-Clause */
/* transport.h - what the verbs objects and the engine ask of a transport.
 *
 * Every call except at_once(), post() and push() is made with the turn and qp->lock held
 * and is given the time. No call blocks, reads a clock, or calls up except to complete
 * work (sq_complete, rq_complete) and to move the QP to ERR (qp_fail).
 */
#ifndef VERBS_TRANSPORT_H
#define VERBS_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qp;
struct swqe;
struct batch;

/* What is left to do after a transport has sent without the turn. */
enum post_left {
	POST_NOTHING,
	POST_ECHO, /* the process wrote to itself, and has to take that in */
	POST_DUE,  /* make the QP due */
};

/* Most bytes that one post copies by itself: some 250 us. */
enum { POST_AT_ONCE = 8 << 20 };

struct transport {
	const char *name;	    /* "ib", "iwarp", "packet", "local" (shm/) */
	int (*open)(struct qp *qp); /* make qp->tp.state, in RESET */
	void (*close)(struct qp *qp);
	/* The QP has entered qp->state, checked by qp_check_modify(), and qp->attr
	 * holds the new attributes. Called for every modify, also RTS -> RTS; on
	 * entering RESET the transport forgets everything. */
	int (*enter)(struct qp *qp, enum ibv_qp_state from, uint64_t now);
	/* The transport sends by a connection of its own: output() sends directly and
	 * plans nothing, even when the link is full. */
	bool stream;
	/* Plans: appends what may be sent now to b, until b or the QP's share of it is
	 * full. Nothing counts as sent before commit(). Asked at most once per QP and
	 * batch. Returns true if the QP could send more. */
	bool (*output)(struct qp *qp, struct batch *b, uint64_t now);
	/* Of the datagrams that output() put into the batch from place `first` on, the
	 * link took n and drops the rest, which are planned anew. Returns the next
	 * deadline, as run() does. NULL if output is NULL or plans nothing. */
	uint64_t (*commit)(struct qp *qp, unsigned first, unsigned n, uint64_t now);
	/* Executes the requests of a list without the turn, one after the other, as far
	 * as possible: up to POST_AT_ONCE bytes, and only if no earlier request waits
	 * to be begun. Each counts as posted at sq.head and is completed; the last may
	 * be posted and only begun. Returns the first request that was not posted.
	 * Even then earlier requests may have been completed, so that the QP is in ERR
	 * or has posted requests of its own. Every SGE is within the limits of the QP,
	 * and inline data is where its SGE says. Called where qp->tp.at_once is set.
	 * NULL: never possible. */
	struct ibv_send_wr *(*at_once)(struct qp *qp, struct ibv_send_wr *wr);
	/* Posts requests of a list and sends them without the turn, as far as that is
	 * possible. Returns the first request that was not posted; NULL: all were. NULL:
	 * never possible. Takes qp->lock. */
	struct ibv_send_wr *(*post)(struct qp *qp, struct ibv_send_wr *wr,
				    enum post_left *left);
	/* The same for requests that were posted already. */
	enum post_left (*push)(struct qp *qp);
	/* Does what is due by now; returns the next deadline or UINT64_MAX. Called
	 * before output(), and after an output() that planned nothing. */
	uint64_t (*run)(struct qp *qp, uint64_t now);
	/* Describes the transport's state, with marked values (sys/mark.h): PSNs,
	 * retries, what is outstanding; "" if there is nothing to say. */
	void (*describe)(const struct qp *qp, char *buf, size_t size);
	/* Names the peer of a connected QP, and the PSN that it waits for, for a line of
	 * the log; "" if there is none. NULL: there is never one. */
	void (*peer)(const struct qp *qp, char *buf, size_t size);
};

#endif
