/* SPDX-License-Identifier: BSD-2-Clause */
/* tm.c - the tag list of an SRQ, and matching messages to tags
 * (docs/dev/tag-matching.md). */
#include "verbs/tm.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/like.h"
#include "verbs/qp.h"
#include "verbs/srq_hooks.h"
#include "verbs/target.h"

enum {
	PLACE_BITS = 16,
	FAR_BEHIND = 1 << 14, /* messages not seen by the program, from which it is
			       * asked to synchronise */
};

_Static_assert(TM_TAGS <= 1 << PLACE_BITS, "a handle names every tag");
_Static_assert(sizeof(struct ibv_tmh) == 16 && sizeof(struct ibv_rvh) == 16,
	       "the headers as they are on the wire");

/* The tags of an SRQ that is known to match them. */
static struct tm_list *tm_of(struct srq *srq) REQUIRES(srq->lock)
{
	return srq->kind;
}

static int open_list(struct srq *srq, const void *how)
{
	const struct ibv_tm_cap *cap = how;
	struct tm_list *tm;

	if (cap->max_num_tags == 0 || cap->max_num_tags > TM_TAGS ||
	    cap->max_ops > TM_OPS) {
		log_info("create_srq refused: %u tags, %u operations (limits %u, %u)",
			 cap->max_num_tags, cap->max_ops, TM_TAGS, TM_OPS);
		return -EINVAL;
	}
	tm = calloc(1, sizeof(*tm) + cap->max_num_tags * sizeof(tm->tag[0]));
	if (!tm)
		return -ENOMEM;
	tm->srq = srq;
	tm->size = cap->max_num_tags;
	list_init(&tm->posted);
	list_init(&tm->free);
	for (uint32_t i = 0; i < tm->size; i++) {
		tm->tag[i].handle = i;
		list_add_tail(&tm->free, &tm->tag[i].node);
	}
	srq->kind = tm;
	return 0;
}

static void close_list(struct srq *srq)
{
	free(srq->kind);
}

/* --- operations ---------------------------------------------------------- */

static bool in_sync(const struct tm_list *tm)
{
	return tm->known == tm->unexpected;
}

/* The program says that it has seen `count` unexpected messages, modulo 2^16. */
static void learn(struct tm_list *tm, uint32_t count)
{
	tm->known = tm->unexpected - (uint16_t)(tm->unexpected - count);
	if (!in_sync(tm))
		return;
	/* Tags that may not match yet lie behind those that may. */
	for (struct list *n = tm->posted.prev; n != &tm->posted; n = n->prev) {
		struct tm_tag *tag = container_of(n, struct tm_tag, node);

		if (tag->active)
			return;
		tag->active = true;
	}
}

static void put_back(struct tm_list *tm, struct tm_tag *tag)
{
	tag->handle += 1u << PLACE_BITS; /* invalidates the program's handle */
	tag->posted = tag->active = tag->fetched = false;
	list_add_tail(&tm->free, &tag->node);
}

static int add_tag(struct tm_list *tm, struct ibv_ops_wr *wr)
{
	struct tm_tag *tag;
	int n = wr->tm.add.num_sge;

	if (n < 0 || n > TM_SGES || (n && !wr->tm.add.sg_list))
		return -EINVAL;
	if (list_empty(&tm->free))
		return -ENOMEM;
	tag = container_of(tm->free.next, struct tm_tag, node);
	list_del(&tag->node);
	tag->tag = wr->tm.add.tag;
	tag->mask = wr->tm.add.mask;
	tag->recv_wr_id = wr->tm.add.recv_wr_id;
	tag->num_sge = (unsigned)n;
	if (n)
		memcpy(tag->sge, wr->tm.add.sg_list, (size_t)n * sizeof(tag->sge[0]));
	tag->posted = true;
	tag->active = in_sync(tm);
	list_add_tail(&tm->posted, &tag->node);
	wr->tm.handle = tag->handle;
	return 0;
}

/* Takes a tag off the list by its handle. False: it is not listed any more. */
static bool take_out(struct tm_list *tm, uint32_t handle)
{
	struct tm_tag *tag = &tm->tag[handle & ((1u << PLACE_BITS) - 1)];

	if (tag->handle != handle || !tag->posted)
		return false;
	list_del(&tag->node);
	put_back(tm, tag);
	return true;
}

/* Adds an entry to the SRQ's CQ. If the CQ is full, the program learns of it by
 * IBV_EVENT_CQ_ERR. */
static void tell_done(struct srq *srq, const struct ibv_ops_wr *wr,
		      enum ibv_wc_opcode opcode, bool done, bool sync)
{
	struct cqe cqe = {
		.wr_id = wr->wr_id,
		.now = clock_ns(),
		.opcode = (uint8_t)opcode,
		.status = done ? IBV_WC_SUCCESS : IBV_WC_TM_ERR,
		.vendor_err = done ? VERR_NONE : VERR_TAG_GONE,
		.flags = sync ? IBV_WC_TM_SYNC_REQ : 0,
	};

	if (!done || wr->flags & IBV_OPS_SIGNALED)
		cq_push(srq->cq, &cqe, false);
}

static int operate(struct srq *srq, struct ibv_ops_wr *wr) REQUIRES(srq->lock)
{
	struct tm_list *tm = tm_of(srq);
	enum ibv_wc_opcode opcode = IBV_WC_TM_SYNC;
	bool done = true;
	int rc = 0;

	if (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC) ||
	    (unsigned)wr->opcode > IBV_WR_TAG_SYNC)
		return -EINVAL;
	if (wr->opcode == IBV_WR_TAG_DEL &&
	    (wr->tm.handle & ((1u << PLACE_BITS) - 1)) >= tm->size)
		return -EINVAL;
	if (wr->opcode == IBV_WR_TAG_ADD) {
		opcode = IBV_WC_TM_ADD;
		rc = add_tag(tm, wr);
	} else if (wr->opcode == IBV_WR_TAG_DEL) {
		opcode = IBV_WC_TM_DEL;
		done = take_out(tm, wr->tm.handle);
	}
	if (rc)
		return rc;
	if (wr->flags & IBV_OPS_TM_SYNC)
		learn(tm, wr->tm.unexpected_cnt);
	tell_done(srq, wr, opcode, done, opcode != IBV_WC_TM_SYNC && !in_sync(tm));
	return 0;
}

int tm_post(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	bool called = false;
	int rc = 0;

	lock_take(&srq->lock);
	if (srq->ctx->dead)
		rc = -EIO;
	else if (!tm_list_of(srq))
		rc = -EINVAL;
	for (; !rc && wr; wr = wr->next) {
		rc = operate(srq, wr);
		if (rc)
			break;
	}
	if (!list_empty(&srq->awaiting)) /* a tag may match any of them */
		called = srq_call_awaiting(srq, UINT32_MAX);
	lock_give(&srq->lock);
	if (rc)
		log_info(
			"SRQ 0x%06x: list operation refused: %s", srq->num,
			rc == -ENOMEM ? "it holds as many tags as it was created for"
			: rc == -EIO
				? "its device is lost"
				: "opcode, flags, handle or num_sge are wrong, or the SRQ "
				  "matches no tags");
	if (rc && bad)
		*bad = wr;
	return rc ? rc : called;
}

void tm_free(struct tm_list *tm, struct tm_tag *tag)
{
	lock_take(&tm->srq->lock);
	put_back(tm, tag);
	lock_give(&tm->srq->lock);
}

/* --- messages ------------------------------------------------------------ */

/* Takes the first matching tag off the list. */
static struct tm_tag *match(struct tm_list *tm, uint64_t of)
{
	list_for(n, &tm->posted)
	{
		struct tm_tag *tag = container_of(n, struct tm_tag, node);

		if (!tag->active)
			return NULL; /* the tags behind it are inactive too */
		if ((of & tag->mask) != tag->tag)
			continue;
		list_del(&tag->node);
		tag->posted = tag->active = false;
		return tag;
	}
	return NULL;
}

static uint64_t room_of(const struct tm_tag *tag)
{
	uint64_t room = 0;

	for (unsigned i = 0; i < tag->num_sge; i++)
		room += tag->sge[i].length;
	return room;
}

/* The tag's buffer is the receive that the message fills. */
static void receive_into(struct qp *qp, struct target *t, const struct tm_tag *tag)
	REQUIRES(qp->lock)
{
	t->recv.wr_id = tag->recv_wr_id;
	t->recv.num_sge = tag->num_sge;
	memcpy(t->recv.sge, tag->sge, tag->num_sge * sizeof(tag->sge[0]));
	t->recv.length = room_of(tag);
	t->have_recv = true;
	qp_hold_recv(qp, tag->recv_wr_id, true);
}

/* Can this QP carry out the rendezvous? */
static bool can_fetch(const struct qp *qp, const struct ibv_rvh *rvh, uint32_t n)
	REQUIRES(qp->lock)
{
	return (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp->attr.max_rd_atomic > 0 && n <= TM_HEADERS &&
	       be32toh(rvh->len) <= caps.max_msg;
}

/* Finds a tag for the message, if it asks for one. *counts: without a tag the message
 * counts as unexpected. */
static struct tm_tag *find_tag(struct qp *qp, struct tm_list *tm, const void *data,
			       uint32_t n, bool whole, bool *counts) REQUIRES(qp->lock)
{
	struct ibv_tmh tmh;
	struct ibv_rvh rvh;
	struct tm_tag *tag;

	*counts = false;
	if (n < sizeof(tmh))
		return NULL;
	memcpy(&tmh, data, sizeof(tmh));
	*counts = tmh.opcode == IBV_TMH_EAGER || tmh.opcode == IBV_TMH_RNDV;
	if (tmh.opcode == IBV_TMH_RNDV) {
		if (!whole || n < sizeof(tmh) + sizeof(rvh))
			return NULL;
		memcpy(&rvh, (const uint8_t *)data + sizeof(tmh), sizeof(rvh));
		if (!can_fetch(qp, &rvh, n))
			return NULL;
	}
	tag = *counts ? match(tm, be64toh(tmh.tag)) : NULL;
	if (!tag)
		return NULL;
	tag->tmh = tmh;
	if (tmh.opcode == IBV_TMH_RNDV) {
		tag->va = be64toh(rvh.va);
		tag->rkey = be32toh(rvh.rkey);
		tag->len = be32toh(rvh.len);
	}
	return tag;
}

/* Takes a receive of the SRQ for a message that matches no tag. The message is counted
 * before a tag can be added: a tag that would have matched it must wait until the
 * program knows of the message. */
static enum refusal unexpected(struct qp *qp, struct srq *srq, struct target *t,
			       bool counts) REQUIRES(qp->lock) REQUIRES(srq->lock)
{
	struct tm_list *tm = tm_of(srq);

	if (!srq_pop_locked(srq, &t->recv))
		return REFUSED_NO_RECV;
	t->have_recv = true;
	qp_hold_recv(qp, t->recv.wr_id, false);
	qp->tm.found.opcode = counts ? IBV_WC_TM_RECV : IBV_WC_TM_NO_TAG;
	if (counts && ++tm->unexpected - tm->known >= FAR_BEHIND)
		qp->tm.found.flags = IBV_WC_TM_SYNC_REQ;
	return ACCEPTED;
}

/* On success the message has a receive, or qp->tm.tag. */
static enum refusal begin(struct qp *qp, struct target *t, const void *data, uint32_t n,
			  bool whole, uint32_t *skip)
{
	struct qp_tm *m = &qp->tm;
	struct srq *srq = qp->srq;
	enum refusal why = ACCEPTED;
	struct tm_tag *tag;
	bool counts;

	qp_is_held(qp);
	memset(&m->found, 0, sizeof(m->found));
	t->filled = 0;
	if (!qp_receives(qp))
		return REFUSED_NO_RECV;
	lock_take(&srq->lock);
	tag = find_tag(qp, tm_of(srq), data, n, whole, &counts);
	if (!tag)
		why = unexpected(qp, srq, t, counts);
	lock_give(&srq->lock);
	if (!tag)
		return why;
	m->found.opcode = IBV_WC_TM_RECV;
	m->found.flags = IBV_WC_TM_MATCH;
	m->found.tag = be64toh(tag->tmh.tag);
	m->found.priv = be32toh(tag->tmh.app_ctx);
	receive_into(qp, t, tag);
	*skip = sizeof(struct ibv_tmh);
	if (tag->tmh.opcode == IBV_TMH_EAGER) {
		m->found.flags |= IBV_WC_TM_DATA_VALID;
		tm_free(m->list, tag);
		return ACCEPTED;
	}
	m->tag = tag;
	*skip = n;
	return tag->len > t->recv.length ? REFUSED_RECV_SHORT : ACCEPTED;
}

/* Fills in the completion's fields about the tag. */
static void describe(struct qp_tm *m, struct cqe *cqe)
{
	cqe->opcode = m->found.opcode;
	cqe->flags |= m->found.flags;
	cqe->tm_tag = m->found.tag;
	if (m->found.flags & IBV_WC_TM_MATCH)
		cqe->tm_priv = m->found.priv;
	m->found.opcode = 0;
}

static void complete(struct qp *qp, struct target *t, struct cqe *cqe, bool solicited)
{
	struct tm_tag *tag = qp->tm.tag;

	qp_is_held(qp);
	if (qp->tm.found.opcode)
		describe(&qp->tm, cqe);
	if (tag)
		cqe->byte_len = tag->len;
	qp->tm.tag = NULL;
	rq_complete(qp, &t->recv, cqe, solicited);
	if (!tag)
		return;
	if (qp_receives(qp))
		tm_fetch(qp, tag);
	else /* the CQ is overrun */
		tm_free(qp->tm.list, tag);
}

/* --- the SRQ and its QPs --------------------------------------------------- */

/* Tag matching needs RC, since the QP READs the data of a rendezvous, and one PD for
 * QP and SRQ. */
static int check(const struct srq *srq, const struct ibv_qp_init_attr_ex *a)
{
	if (a->qp_type == IBV_QPT_RC && pd_proper(pd_of(a->pd)) == srq->pd)
		return 0;
	log_info("create_qp refused: SRQ 0x%06x matches tags, so its QPs "
		 "must be RC QPs of the same PD",
		 srq->num);
	return -EINVAL;
}

static void join(struct qp *qp)
{
	qp->tm.list = tm_list_of(qp->srq);
	list_init(&qp->tm.rndv);
}

static const struct srq_hooks tm_hooks = {
	.open = open_list,
	.close = close_list,
	.check = check,
	.join = join,
	.own_sends = TM_OWN,
	.own_sges = TM_SGES,
	.own_inline = TM_FIN,
	.ended = tm_ended,
	.built = tm_go_on,
	.begin = begin,
	.complete = complete,
	.flush = tm_flush,
	.clear = tm_clear,
};

struct tm_list *tm_list_of(const struct srq *srq)
{
	return srq->hooks == &tm_hooks ? srq->kind : NULL;
}

int srq_create_tm(struct context *ctx, struct pd *pd, struct cq *cq,
		  const struct ibv_tm_cap *cap, struct ibv_srq_init_attr *attr,
		  struct srq **out)
{
	if (!ctx->dev->kind->tag_matching)
		return -EOPNOTSUPP;
	if (like_lacks(LIKE_TM, "create_srq"))
		return -EOPNOTSUPP;
	return srq_create_kind(ctx, pd, cq, &tm_hooks, cap, attr, out);
}
