/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.c - see qp1.h. */
#include "verbs/qp1.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"
#include "verbs/post.h"
#include "verbs/psn.h"

/* QP1's objects are in no table of existing objects: no program may name them. */
struct qp1 {
	struct list node; /* in core->qp1s */
	struct core *core;
	const struct qp1_user *user;
	struct device all; /* stands for all devices of this link */
	struct ibv_context ibv;
	struct context ctx;
	struct pd pd;
	struct cq *cq;
	struct qp *qp;
	uint64_t said;	 /* for log_allowed() */
	struct mkey key; /* of the memory behind the SGEs: */
	uint8_t in[LINK_HEAD_LEN + QP1_MAD];
};

/* --- making one ---------------------------------------------------------- */

static struct device *all_devices(struct qp1 *q)
{
	struct device *dev = &q->all;

	dev->kind = &device_roce;
	device_init_port(dev, &(struct port){ .link_layer = IBV_LINK_LAYER_ETHERNET,
					      .active = true,
					      .max_mtu = IBV_MTU_256,
					      .active_mtu = IBV_MTU_256,
					      .pkeys = 1,
					      .pkey = { PKEY_DEFAULT } });
	return dev;
}

static void set_up(struct qp1 *q, struct core *core, struct device *dev,
		   struct link *link)
{
	list_init(&q->node);
	q->core = core;
	q->ctx = (struct context){
		.core = core,
		.dev = dev ? dev : all_devices(q),
		.link = link,
		.ibv = &q->ibv,
		.async.fd = -1, /* nobody reads its events */
	};
	lock_init(&q->ctx.async.lock);
	list_init(&q->ctx.async.waiting);
	list_init(&q->ctx.async.got);
	q->pd.core = core;
	q->key = (struct mkey){
		.valid = true,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.base = (uintptr_t)q->in,
		.length = sizeof(q->in),
		.host = q->in,
		.pd = &q->pd,
	};
}

static void post_recv(struct qp1 *q)
{
	struct ibv_sge sge = { q->key.base, sizeof(q->in), q->key.key };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (qp_post_recv(q->qp, &wr, &bad))
		log_error("QP1 could not post its receive: rdma_cm receives no "
			  "messages any more");
}

static int bring_up(struct qp *qp) REQUIRES(qp->core->turn)
{
	static const struct {
		enum ibv_qp_state to;
		int with;
	} steps[] = {
		{ IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
		{ IBV_QPS_RTR, 0 },
		{ IBV_QPS_RTS, IBV_QP_SQ_PSN },
	};
	struct ibv_qp_attr a = { .port_num = 1, .qkey = QKEY_GSI };
	int rc = 0;

	lock_take(&qp->lock);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !rc; i++) {
		a.qp_state = steps[i].to;
		rc = qp_modify_held(qp, &a, IBV_QP_STATE | steps[i].with, 0);
	}
	lock_give(&qp->lock);
	return rc;
}

static int make_qp(struct qp1 *q, const struct transport *transport)
	REQUIRES(q->ctx.core->turn)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = (struct ibv_cq *)&q->cq->ex,
		.recv_cq = (struct ibv_cq *)&q->cq->ex,
		.cap = { .max_send_wr = QP1_SENDS,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = QP1_MAD },
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &q->pd.ibv,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	return qp_make_gsi(&q->ctx, &a, transport, &q->qp);
}

int qp1_open(struct core *core, struct device *dev, struct link *link,
	     const struct transport *transport, const struct qp1_user *user,
	     struct qp1 **out)
{
	struct qp1 *q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return -ENOMEM;
	set_up(q, core, dev, link);
	q->user = user;
	rc = mkey_add(&core->mkeys, &q->key);
	if (rc)
		goto free_qp1;
	rc = cq_create(&q->ctx, QP1_SENDS + 1, NULL, NULL, &q->cq);
	if (rc)
		goto del_key;
	live_del(&q->cq->live);
	turn_take(&core->turn);
	turn_is_held(q->ctx.core); /* q->ctx.core is core, whose turn is held */
	rc = make_qp(q, transport);
	if (!rc) {
		turn_is_held(q->qp->core);
		rc = bring_up(q->qp);
	}
	if (!rc) {
		post_recv(q);
		list_add_tail(&core->qp1s, &q->node);
	}
	turn_give(&core->turn);
	if (rc)
		goto destroy_cq;
	*out = q;
	return 0;

destroy_cq:
	if (q->qp) {
		turn_take(&core->turn);
		turn_is_held(q->qp->core);
		qp_free_gsi(q->qp);
		turn_give(&core->turn);
	}
	cq_destroy(q->cq);
del_key:
	mkey_del(&core->mkeys, &q->key);
free_qp1:
	free(q);
	return rc;
}

void qp1_close(struct qp1 *q)
{
	turn_take(&q->core->turn);
	turn_is_held(q->qp->core); /* q->qp->core is core, whose turn is held */
	list_del(&q->node);
	qp_free_gsi(q->qp);
	turn_give(&q->core->turn);
	cq_destroy(q->cq);
	mkey_del(&q->core->mkeys, &q->key);
	free(q);
}

/* --- out ----------------------------------------------------------------- */

bool qp1_has_room(const struct qp1 *q)
{
	return q->qp->sq.head - q->qp->sq.tail < q->qp->sq.cap;
}

uint32_t qp1_psn(const struct qp1 *q)
{
	return psn_add(q->qp->attr.sq_psn, q->qp->sq.head); /* each message has one
							     * PSN */
}

uint16_t qp1_pkey(const struct qp1 *q, uint16_t pkey_index)
{
	return pkey_index < PKEY_TABLE ? q->ctx.dev->pkey[pkey_index] : 0;
}

/* QP1's sends are unsignalled, and nobody needs to know that they have gone. */
static void reclaim(struct qp *qp)
{
	lock_take(&qp->lock);
	sq_reclaim(qp);
	lock_give(&qp->lock);
}

int qp1_send(struct qp1 *q, const struct link_to *to, uint16_t pkey_index,
	     const uint8_t *mad)
{
	struct path path = { .link = q->ctx.link,
			     .pkey_index = pkey_index,
			     .sl = to->sl };
	struct link_to from_here = *to;
	struct qp *qp = q->qp;
	struct swqe *w;
	const char *why;
	int rc;

	if (!qp1_has_room(q))
		return -ENOMEM;
	if (!pkey_valid(qp1_pkey(q, pkey_index)))
		return -EINVAL;
	from_here.slid = device_lid(q->ctx.dev);
	why = path.link->ops->resolve(&from_here, &path.addr);
	if (why) {
		if (log_level >= LOG_INFO && log_allowed(&q->said))
			log_info("a message of connection management cannot be sent: %s",
				 why);
		return -EINVAL;
	}
	reclaim(qp);
	post_start(qp);
	qp->ex.wr_flags = 0;
	w = post_draft(qp, IBV_WR_SEND);
	if (w) {
		w->ud.path = path;
		w->ud.qpn = QP_GSI;
		w->ud.qkey = QKEY_GSI;
	}
	post_inline(qp, mad, QP1_MAD);
	rc = post_complete(qp);
	if (!rc)
		due_add(q->core, qp);
	return rc;
}

/* --- in ------------------------------------------------------------------ */

struct qp1 *qp1_of(const struct core *core, const struct link *link)
{
	list_for(n, &core->qp1s)
	{
		struct qp1 *q = container_of(n, struct qp1, node);

		if (q->ctx.link == link)
			return q;
	}
	return NULL;
}

struct qp *qp1_qp(const struct qp1 *q)
{
	return q->qp;
}

void qp1_arrived(struct qp1 *q, uint32_t port, uint64_t now)
{
	struct cqe cqe;

	while (cq_pop(q->cq, &cqe)) {
		const struct qp1_mad m = {
			.head = q->in,
			.bytes = q->in + LINK_HEAD_LEN,
			.len = cqe.byte_len - LINK_HEAD_LEN,
			.slid = cqe.slid,
			.sl = cqe.sl,
			.pkey_index = cqe.pkey_index,
			.port = port,
		};

		if (cqe.status != IBV_WC_SUCCESS)
			continue;
		q->user->take(q->user, &m, now);
		post_recv(q);
	}
}
