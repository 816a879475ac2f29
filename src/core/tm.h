/* SPDX-License-Identifier: BSD-2-Clause */
/* tm.h - tag matching: the list of tags of an SRQ (tm.c), and the data that a QP fetches
 * for a rendezvous (tm_rndv.c).  docs/tag-matching.md is the page.
 */
#ifndef CORE_TM_H
#define CORE_TM_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/rq.h"
#include "core/target.h"
#include "core/verr.h"
#include "sys/list.h"

struct cqe;
struct qp;
struct swqe;

enum {
	TM_OWN = 8, /* requests of a QP's own in its send queue */
	TM_FIN = sizeof(struct ibv_tmh),
};

/* A place in the list: free, posted, or of a rendezvous under way. */
struct tm_tag {
	struct list node; /* tm->free, tm->posted; or qp->rndv */
	uint64_t tag, mask, recv_wr_id;
	uint32_t handle; /* generation, place (16) */
	bool posted;	 /* it is in the list */
	bool active;	 /* ... and may match */
	unsigned num_sge;
	struct ibv_sge sge[TM_SGES];
	/* Of a rendezvous: */
	struct ibv_tmh tmh;
	uint64_t va;
	uint32_t rkey, len;
	bool fetched; /* FIN is next; the place is free once that is posted */
};

/* Of an SRQ; under srq->lock. */
struct tm_list {
	struct srq *srq;
	struct list posted, free;
	uint64_t unexpected; /* messages, ever */
	uint64_t known;	     /* ... that the program says it has seen */
	uint32_t size;
	struct tm_tag tag[];
};

/* --- the list (tm.c) ----------------------------------------------------- */

/* -EINVAL, -ENOMEM. */
int tm_create(struct srq *srq, const struct ibv_tm_cap *cap);
/* Operations in their order; each completes here.  *bad is the first that was refused.
 * -EINVAL, -ENOMEM, -EIO. */
int tm_post(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
/* A place is free again. */
void tm_free(struct tm_list *tm, struct tm_tag *tag);

/* A SEND begins with these n bytes; whole: there are no more.  It has a receive, or
 * qp->tm_tag, then; *skip of its bytes belong to nobody.  REFUSED_NO_RECV,
 * REFUSED_RECV_SHORT.  Turn held. */
enum refusal tm_begin(struct qp *qp, struct target *t, const void *data, uint32_t n,
		      bool whole, uint32_t *skip) REQUIRES(qp->lock);
/* What its completion says of it. */
void tm_describe(const struct target *t, struct cqe *cqe);

/* --- rendezvous (tm_rndv.c); qp->lock is held ---------------------------- */

/* What is to be fetched for tag, is. */
void tm_fetch(struct qp *qp, struct tm_tag *tag) REQUIRES(qp->lock);
/* Post what waits, if it may be posted now.  False: nothing was. */
bool tm_go_on(struct qp *qp) REQUIRES(qp->lock);
/* A request of the QP's own has ended.  False: the CQ is overrun. */
bool tm_ended(struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
	      enum verr verr, uint64_t now) REQUIRES(qp->lock);
/* What waits ends with WR_FLUSH_ERR, or without a word. */
void tm_flush(struct qp *qp, uint64_t now) REQUIRES(qp->lock);
void tm_drop(struct qp *qp) REQUIRES(qp->lock);

#endif
