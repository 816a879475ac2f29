/* SPDX-License-Identifier: BSD-2-Clause */
/* srq_hooks.h - what an SRQ of a rare kind does, and does for its QPs, in place of what
 * others do.  Only the code of the kind knows what kinds there are.  Other SRQs and their
 * QPs have no hooks, and cost nothing but the look.
 *
 * All from join() on are called with the turn and qp->lock held, if nothing else is said;
 * they complete work, and call qp_fail() at most by that.  A kind whose check() refuses
 * all QPs has none of them.
 */
#ifndef VERBS_SRQ_HOOKS_H
#define VERBS_SRQ_HOOKS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/target_state.h"
#include "verbs/verr.h"

struct cqe;
struct qp;
struct srq;
struct swqe;

struct srq_hooks {
	/* Sets srq->kind; how: the attributes of the kind. Returns 0 or -errno. */
	int (*open)(struct srq *srq, const void *how);
	void (*close)(struct srq *srq);
	/* The SRQ is found by its number no more. NULL: nothing. Turn held. */
	void (*gone)(struct srq *srq);
	/* May a QP with these attributes use the SRQ?  0, or -EINVAL after logging why.
	 */
	int (*check)(const struct srq *srq, const struct ibv_qp_init_attr_ex *a);
	/* A QP of the SRQ is made: no lock is held, nobody knows it yet. */
	void (*join)(struct qp *qp);
	/* The QP's own requests (SWQE_OWN) in its send queue: how many at most, and of so
	 * many SGEs and inline bytes. */
	uint32_t own_sends, own_sges, own_inline;
	/* One of these has ended.  Returns false if a CQ is overrun. */
	bool (*ended)(struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
		      enum verr verr, uint64_t now);
	/* The program builds no more requests: posts what waited for that.  Returns false
	 * if nothing did.  Without the turn. */
	bool (*built)(struct qp *qp);
	/* As target_begin_send() and target_complete() (verbs/target.h). */
	enum refusal (*begin)(struct qp *qp, struct target *t, const void *data,
			      uint32_t n, bool whole, uint32_t *skip);
	void (*complete)(struct qp *qp, struct target *t, struct cqe *cqe,
			 bool solicited);
	/* The QP is flushed, with completions; or cleared, without. */
	void (*flush)(struct qp *qp, uint64_t now);
	void (*clear)(struct qp *qp);
};

#endif
