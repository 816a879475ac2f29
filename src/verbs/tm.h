/* SPDX-License-Identifier: BSD-2-Clause */
/* tm.h - tag matching: the list of tags of an SRQ (tm.c), and the data that a QP READs
 * for a rendezvous (tm_rndv.c). See docs/dev/tag-matching.md.
 */
#ifndef VERBS_TM_H
#define VERBS_TM_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/list.h"
#include "verbs/limits.h"
#include "verbs/qp.h"
#include "verbs/rq.h"
#include "verbs/target_state.h"
#include "verbs/verr.h"

struct cqe;
struct qp;
struct swqe;

enum {
	TM_OWN = 8, /* most of the QP's own requests in its send queue */
	TM_FIN = sizeof(struct ibv_tmh),
};

/* A place for a tag: free, posted, or used by a rendezvous in progress. */
struct tm_tag {
	struct list node; /* tm->free, tm->posted; or qp->tm.rndv */
	uint64_t tag, mask, recv_wr_id;
	uint32_t handle; /* generation | place (16 bits) */
	bool posted;	 /* it is in tm->posted */
	bool active;	 /* posted and may match */
	unsigned num_sge;
	struct ibv_sge sge[TM_SGES];
	/* Only of a rendezvous: */
	struct ibv_tmh tmh;
	uint64_t va;
	uint32_t rkey, len;
	bool fetched; /* the data has arrived; when FIN is posted, the place is free */
};

/* An SRQ's tags; under srq->lock. */
struct tm_list {
	struct srq *srq;
	struct list posted, free;
	uint64_t unexpected; /* unexpected messages received since creation */
	uint64_t known;	     /* of these, what the program says it has seen */
	uint32_t size;
	struct tm_tag tag[];
};

/* --- the list (tm.c) ----------------------------------------------------- */

/* The tags of an SRQ; NULL if it matches none.  The list is under srq->lock. */
struct tm_list *tm_list_of(const struct srq *srq);
/* Makes an SRQ that matches tags; what its QPs receive completes to cq. */
int srq_create_tm(struct context *ctx, struct pd *pd, struct cq *cq,
		  const struct ibv_tm_cap *cap, struct ibv_srq_init_attr *attr,
		  struct srq **out);
/* Executes list operations in order; each completes here. *bad is the first refused
 * one. Returns 0, -EINVAL, -ENOMEM or -EIO. */
int tm_post(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
/* Frees a place. */
void tm_free(struct tm_list *tm, struct tm_tag *tag);

/* --- rendezvous (tm_rndv.c); qp->lock is held ---------------------------- */

/* The data of tag's rendezvous has been READ. */
void tm_fetch(struct qp *qp, struct tm_tag *tag) REQUIRES(qp->lock);
/* Posts the READs and FINs that wait, as far as possible now. Returns false if it
 * posted nothing. */
bool tm_go_on(struct qp *qp);
/* As ended, flush and clear of struct srq_hooks: what waits ends with WR_FLUSH_ERR
 * completions, or without. */
bool tm_ended(struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
	      enum verr verr, uint64_t now);
void tm_flush(struct qp *qp, uint64_t now);
void tm_clear(struct qp *qp);

#endif
