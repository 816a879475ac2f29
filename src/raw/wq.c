/* SPDX-License-Identifier: BSD-2-Clause */
/* wq.c - work queues and their tables. */
#include <errno.h>
#include <stdlib.h>

#include "raw/packet.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"

struct wq *wq_of(struct ibv_wq *ibv)
{
	return container_of(ibv, struct wq, ibv);
}

struct wq_table *wq_table_of(struct ibv_rwq_ind_table *ibv)
{
	return container_of(ibv, struct wq_table, ibv);
}

/* --- queues -------------------------------------------------------------- */

/* The flags of the QP within, which mean the same. Padding is as with other QPs. */
static uint32_t qp_flags(uint32_t flags)
{
	return (flags & IBV_WQ_FLAGS_CVLAN_STRIPPING ? IBV_QP_CREATE_CVLAN_STRIPPING
						     : 0) |
	       (flags & IBV_WQ_FLAGS_SCATTER_FCS ? IBV_QP_CREATE_SCATTER_FCS : 0);
}

static int check_flags(uint32_t flags)
{
	const uint32_t known = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS |
			       IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;

	if (!(flags & ~known))
		return 0;
	log_info("create_wq: create_flags%s 0x%x are more than 0x%x",
		 flags & IBV_WQ_FLAGS_DELAY_DROP ? " DELAY_DROP in" : "", flags, known);
	return -EOPNOTSUPP;
}

static int check_attr(const struct context *ctx, const struct ibv_wq_init_attr *a)
{
	if (!(kind_qp_types(ctx->dev->kind) & 1 << IBV_QPT_RAW_PACKET) ||
	    a->wq_type != IBV_WQT_RQ)
		return -EOPNOTSUPP;
	if (a->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS || !a->pd || !a->cq ||
	    !a->max_wr)
		return -EINVAL;
	return a->comp_mask & IBV_WQ_INIT_ATTR_FLAGS ? check_flags(a->create_flags) : 0;
}

static void fill_ibv(struct wq *wq, const struct ibv_wq_init_attr *a)
{
	wq->ibv.context = wq->qp->ctx->ibv;
	wq->ibv.wq_context = a->wq_context;
	wq->ibv.pd = a->pd;
	wq->ibv.cq = a->cq;
	wq->ibv.wq_num = wq->ibv.handle = wq->qp->qpn;
	wq->ibv.wq_type = IBV_WQT_RQ;
	wq->ibv.state = IBV_WQS_RESET;
}

/* Whatever happens to its QP, the queue fails. */
static void raise_event(struct qp *qp, enum ibv_event_type type)
{
	struct wq *wq = qp->ex.qp_base.qp_context;

	(void)type;
	async_raise(qp->ctx, IBV_EVENT_WQ_FATAL, &wq->ibv);
}

int wq_create(struct context *ctx, const struct ibv_wq_init_attr *attr, struct wq **out)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = attr->cq,
		.recv_cq = attr->cq,
		.cap = { .max_recv_wr = attr->max_wr, .max_recv_sge = attr->max_sge },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = attr->pd,
		.create_flags = attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS
					? qp_flags(attr->create_flags)
					: 0,
	};
	struct wq *wq;
	int rc = check_attr(ctx, attr);

	if (rc) {
		log_info("create_wq refused: type %d, %u entries, comp_mask 0x%x",
			 attr->wq_type, attr->max_wr, attr->comp_mask);
		return rc;
	}
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return -ENOMEM;
	rc = qp_create(ctx, &a, &packet_transport, &wq->qp);
	if (rc) {
		free(wq);
		return rc;
	}
	/* Programs cannot name the QP, which ends with the queue. */
	live_del(&wq->qp->live);
	wq->qp->ex.qp_base.qp_context = wq;
	wq->qp->raise = raise_event;
	fill_ibv(wq, attr);
	live_add(&wq->live, LIVE_WQ, ctx->ibv);
	*out = wq;
	return 0;
}

static int to(struct wq *wq, enum ibv_qp_state state, int more, uint64_t now)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1 };

	return qp_modify(wq->qp, &attr, IBV_QP_STATE | more, now);
}

/* Legal moves: RESET to RDY, RDY to ERR, and to RESET from any state; or none.  As with
 * QPs, RESET to ERR is none. */
static int enter_state(struct wq *wq, enum ibv_wq_state state, uint64_t now)
{
	int rc;

	switch (state) {
	case IBV_WQS_RESET:
		return to(wq, IBV_QPS_RESET, 0, now);
	case IBV_WQS_ERR:
		return to(wq, IBV_QPS_ERR, 0, now);
	case IBV_WQS_RDY:
		if (wq->ibv.state == IBV_WQS_RDY)
			return 0;
		rc = to(wq, IBV_QPS_INIT, IBV_QP_PORT, now);
		return rc ? rc : to(wq, IBV_QPS_RTR, 0, now);
	case IBV_WQS_UNKNOWN:
		break;
	}
	return -EINVAL;
}

/* Of the flags only the stripping of tags may change, as on Linux. */
static int changes_of(const struct ibv_wq_attr *a, uint32_t *mask)
{
	*mask = a->attr_mask & IBV_WQ_ATTR_FLAGS ? a->flags_mask : 0;
	return *mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING ? -EOPNOTSUPP : 0;
}

static void change_flags(struct qp *qp, uint32_t mask, uint32_t flags)
{
	lock_take(&qp->lock);
	qp->create_flags = (qp->create_flags & ~qp_flags(mask)) | qp_flags(flags & mask);
	lock_give(&qp->lock);
}

int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now)
{
	const uint32_t known =
		IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
	uint32_t mask;
	int rc = -EINVAL;

	if (wq->qp->ctx->dead)
		return -EIO;
	if (changes_of(attr, &mask))
		return -EOPNOTSUPP;
	if (!(attr->attr_mask & ~known) && !(attr->attr_mask & IBV_WQ_ATTR_CURR_STATE &&
					     attr->curr_wq_state != wq->ibv.state))
		rc = attr->attr_mask & IBV_WQ_ATTR_STATE
			     ? enter_state(wq, attr->wq_state, now)
			     : 0;
	if (rc) {
		log_info(
			"work queue 0x%06x: modify_wq refused: state %d to %d, attr_mask 0x%x",
			wq->qp->qpn, wq->ibv.state, attr->wq_state, attr->attr_mask);
		return rc;
	}
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		wq->ibv.state = attr->wq_state;
	change_flags(wq->qp, mask, attr->flags);
	return 0;
}

int wq_destroy(struct wq *wq)
{
	struct context *ctx = wq->qp->ctx;

	if (wq->users) {
		log_info(
			"work queue 0x%06x is not destroyed: it is in an indirection table",
			wq->qp->qpn);
		return -EBUSY;
	}
	live_del(&wq->live);
	async_forget(ctx, &wq->ibv);
	qp_destroy(wq->qp);
	context_free(ctx, wq);
	return 0;
}

/* --- tables -------------------------------------------------------------- */

int wq_table_create(struct context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
		    struct wq_table **out)
{
	const uint32_t log_size = attr->log_ind_tbl_size;
	struct wq_table *t;

	if (!(kind_qp_types(ctx->dev->kind) & 1 << IBV_QPT_RAW_PACKET))
		return -EOPNOTSUPP;
	if (ctx->dead)
		return -EIO;
	if (attr->comp_mask || log_size > RSS_TABLE_LOG || !attr->ind_tbl) {
		log_info("create_rwq_ind_table refused: 2^%u queues, comp_mask 0x%x",
			 log_size, attr->comp_mask);
		return -EINVAL;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->ctx = ctx;
	t->size = 1u << log_size;
	for (uint32_t i = 0; i < t->size; i++) {
		t->wq[i] = wq_of(attr->ind_tbl[i]);
		atomic_fetch_add(&t->wq[i]->users, 1);
	}
	t->ibv.context = ctx->ibv;
	t->ibv.ind_tbl_handle = t->ibv.ind_tbl_num = (int)core_handle(ctx->core);
	live_add(&t->live, LIVE_WQ_TABLE, ctx->ibv);
	*out = t;
	return 0;
}

int wq_table_destroy(struct wq_table *t)
{
	if (t->users) {
		log_info("an indirection table is not destroyed: %u QPs use it",
			 atomic_load(&t->users));
		return -EBUSY;
	}
	live_del(&t->live);
	for (uint32_t i = 0; i < t->size; i++)
		atomic_fetch_sub(&t->wq[i]->users, 1);
	context_free(t->ctx, t);
	return 0;
}
