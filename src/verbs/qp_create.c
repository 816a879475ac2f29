/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_create.c - making and destroying queue pairs (IBTA vol. 1, 10.2.4). */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/heap.h"
#include "sys/log.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/due.h"
#include "verbs/like.h"
#include "verbs/mcast.h"
#include "verbs/mr.h"
#include "verbs/qp_kind.h"
#include "verbs/ring.h"
#include "verbs/srq_hooks.h"
#include "verbs/transport.h"
#include "verbs/wr_op.h"

/* --- checks -------------------------------------------------------------- */

static int refuse_bits(int rc, const char *what, uint64_t bits, uint64_t known)
{
	log_info("create_qp refused: %s is %#llx, of which %#llx is possible", what,
		 (unsigned long long)bits, (unsigned long long)known);
	return rc;
}

static int refuse_more(int rc, const char *what, unsigned value, unsigned limit,
		       const char *whose)
{
	log_info("create_qp refused: %s is %u, and the limit is %u%s", what, value, limit,
		 whose);
	return rc;
}

static int check_caps(const struct ibv_qp_init_attr_ex *a)
{
	const struct {
		const char *name;
		uint32_t value, limit;
		enum like_limit like;
	} want[] = {
		{ "max_send_wr", a->cap.max_send_wr, caps.max_qp_wr, LIKE_max_qp_wr },
		{ "max_send_sge", a->cap.max_send_sge, caps.max_sge, LIKE_max_sge },
		{ "max_inline_data", a->cap.max_inline_data, caps.max_inline,
		  LIKE_max_inline_data },
		{ "max_recv_wr", a->srq ? 0 : a->cap.max_recv_wr, caps.max_qp_wr,
		  LIKE_max_qp_wr },
		{ "max_recv_sge", a->srq ? 0 : a->cap.max_recv_sge, caps.max_sge,
		  LIKE_max_sge },
	};
	char whose[LIKE_TEXT];

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (want[i].value > want[i].limit)
			return refuse_more(-EINVAL, want[i].name, want[i].value,
					   want[i].limit,
					   like_limit_text(want[i].like, whose));
	return 0;
}

static unsigned wr_type_of(const struct context *ctx, enum ibv_qp_type type)
{
	const struct device_kind *kind = ctx->dev->kind;

	return kind->wr_type ? kind->wr_type : (unsigned)type;
}

/* Refuses flags that this QP cannot have, SOURCE_QPN (for IP over InfiniBand in the
 * kernel) for all. Padding what goes over PCI is done where there is no PCI. */
static int check_flags(const struct ibv_qp_init_attr_ex *a)
{
	static const char *const names[] = {
		[1] = "create_flags BLOCK_SELF_MCAST_LB of a QP that is not UD",
		[8] = "create_flags SCATTER_FCS of a QP that is not of raw packets",
		[9] = "create_flags CVLAN_STRIPPING of a QP that is not of raw packets",
		[10] = "create_flags SOURCE_QPN",
	};
	const unsigned known =
		qp_kind_of(a->qp_type)->flags | IBV_QP_CREATE_PCI_WRITE_END_PADDING;
	const unsigned bad = a->create_flags & ~known;
	unsigned first = bad ? (unsigned)__builtin_ctz(bad) : 0;

	if (!bad)
		return 0;
	return refuse_bits(-EOPNOTSUPP,
			   first < sizeof(names) / sizeof(names[0]) && names[first]
				   ? names[first]
				   : "create_flags",
			   a->create_flags, known);
}

/* Refuses extensions that ask for something not supported. */
static int check_extensions(const struct context *ctx,
			    const struct ibv_qp_init_attr_ex *a)
{
	const uint64_t ops = wr_send_ops(wr_type_of(ctx, a->qp_type));
	const uint32_t known = qp_kind_of(a->qp_type)->attrs | IBV_QP_INIT_ATTR_PD |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	const uint32_t never = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;

	if (a->comp_mask & ~known)
		return refuse_bits(-EINVAL, "comp_mask", a->comp_mask, known);
	if (a->comp_mask & never)
		return refuse_bits(-EOPNOTSUPP, "comp_mask", a->comp_mask,
				   known & ~never);
	if (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && check_flags(a))
		return -EOPNOTSUPP;
	if (a->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER && a->max_tso_header)
		return refuse_more(-EOPNOTSUPP, "max_tso_header", a->max_tso_header, 0,
				   "");
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    like_lacks(LIKE_WR_API, "create_qp"))
		return -EOPNOTSUPP;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && a->send_ops_flags & ~ops)
		return refuse_bits(-EOPNOTSUPP, "send_ops_flags", a->send_ops_flags, ops);
	return 0;
}

/* The caller has checked that the objects exist and belong to ctx. */
static int check_objects(const struct ibv_qp_init_attr_ex *a)
{
	const char *lacks = qp_attr_lacks(a);

	if (lacks) {
		log_info("create_qp refused: %s is missing", lacks);
		return -EINVAL;
	}
	if (a->srq && srq_of(a->srq)->hooks)
		return srq_of(a->srq)->hooks->check(srq_of(a->srq), a);
	return 0;
}

static int check_init(const struct context *ctx, const struct ibv_qp_init_attr_ex *a)
{
	const unsigned types = kind_qp_types(ctx->dev->kind);
	int rc;

	if ((unsigned)a->qp_type < 32 && like_lacks_type(a->qp_type))
		return -EOPNOTSUPP;
	if ((unsigned)a->qp_type >= 32 || !(types & 1u << a->qp_type)) {
		log_info("create_qp refused: qp_type is %d, which the device does not "
			 "have",
			 (int)a->qp_type);
		return -EOPNOTSUPP;
	}
	rc = check_extensions(ctx, a);
	if (!rc)
		rc = check_objects(a);
	if (!rc)
		rc = check_caps(a);
	return rc;
}

/* --- queues -------------------------------------------------------------- */

static void sq_fini(struct sq *sq)
{
	ring_free(sq->in, sq->wqe, sq->size, sizeof(*sq->wqe));
	ring_free(sq->in, sq->sge, (size_t)sq->size * sq->max_sge, sizeof(*sq->sge));
	ring_free(sq->in, sq->inl, sq->size, sq->max_inline);
}

static uint32_t max32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* own: extra places for the QP's own requests. The program may use them too, but
 * neither side may take places that the other is entitled to. */
static int sq_init(struct sq *sq, struct pd *in, const struct ibv_qp_cap *cap,
		   uint32_t own)
{
	sq->in = in;
	sq->size = 1;
	while (sq->size < cap->max_send_wr + 2 * own)
		sq->size *= 2;
	sq->cap = cap->max_send_wr ? cap->max_send_wr + own : 0;
	sq->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	sq->max_inline = cap->max_inline_data;
	sq->wqe = ring_alloc(sq->in, sq->size, sizeof(*sq->wqe));
	sq->sge = ring_alloc(sq->in, (size_t)sq->size * sq->max_sge, sizeof(*sq->sge));
	if (sq->max_inline)
		sq->inl = ring_alloc(sq->in, sq->size, sq->max_inline);
	if (!sq->wqe || !sq->sge || (sq->max_inline && !sq->inl)) {
		sq_fini(sq);
		return -ENOMEM;
	}
	return 0;
}

static uint32_t own_sends(const struct qp *qp)
{
	return qp->hooks ? qp->hooks->own_sends : 0;
}

static int queues_init(struct qp *qp, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_cap sends = *cap;
	int rc;

	if (qp->hooks) {
		sends.max_send_sge = max32(sends.max_send_sge, qp->hooks->own_sges);
		sends.max_inline_data =
			max32(sends.max_inline_data, qp->hooks->own_inline);
	}
	rc = sq_init(&qp->sq, qp->in, &sends, own_sends(qp));
	if (rc || qp->srq)
		return rc;
	rc = rq_init(&qp->rq, qp->in,
		     like_depth(LIKE_DEPTH_max_recv_wr, cap->max_recv_wr, caps.max_qp_wr),
		     cap->max_recv_sge);
	if (rc)
		sq_fini(&qp->sq);
	return rc;
}

static struct ibv_qp_cap granted(const struct qp *qp)
{
	return (struct ibv_qp_cap){
		.max_send_wr = qp->sq.cap ? qp->sq.cap - own_sends(qp) : 0,
		.max_send_sge = qp->sq.max_sge,
		.max_recv_wr = qp->rq.cap,
		.max_recv_sge = qp->rq.max_sge,
		.max_inline_data = qp->sq.max_inline,
	};
}

/* --- create -------------------------------------------------------------- */

/* The turn is held, so no other thread adds or removes QPs meanwhile. */
static int number_and_open(struct core *core, struct qp *qp) REQUIRES(core->turn)
{
	const uint32_t count = numbers_count(&core->qps);
	uint32_t index;
	int rc;

	if (count >= caps.max_qp)
		return refuse_more(-ENOMEM, "number of QPs", count + 1, caps.max_qp, "");
	if (core->timers && heap_reserve(core->timers, count + 1))
		return -ENOMEM;
	rc = numbers_next(&core->qps, &index);
	if (rc)
		return rc;
	qp->qpn = qpn_make(core->slot, index);
	qp->ex.qp_base.qp_num = qp->qpn;
	qp->ex.qp_base.handle = qp->qpn;

	lock_take(&qp->lock);
	rc = qp->transport->open(qp);
	lock_give(&qp->lock);
	if (!rc)
		numbers_add(&core->qps, qp);
	return rc;
}

static void fill_ibv(struct qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *ibv = &qp->ex.qp_base;

	ibv->context = qp->ctx->ibv;
	ibv->qp_context = a->qp_context;
	ibv->pd = a->pd;
	ibv->send_cq = a->send_cq;
	ibv->recv_cq = a->recv_cq;
	ibv->srq = a->srq;
	ibv->qp_type = a->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	qp->init = (struct ibv_qp_init_attr){
		.qp_context = a->qp_context,
		.send_cq = a->send_cq,
		.recv_cq = a->recv_cq,
		.srq = a->srq,
		.cap = granted(qp),
		.qp_type = a->qp_type,
		.sq_sig_all = a->sq_sig_all,
	};
}

static void count_users(struct qp *qp, unsigned n)
{
	if (qp->kind->use) {
		qp->kind->use(qp, n);
		return;
	}
	atomic_fetch_add(&qp->send_cq->users, n);
	if (qp->init.recv_cq)
		atomic_fetch_add(&cq_of(qp->init.recv_cq)->users, n);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, n);
}

static void release_qp(struct qp *qp)
{
	sq_fini(&qp->sq);
	rq_fini(&qp->rq);
	pthread_cond_destroy(&qp->ex.qp_base.cond);
	pthread_mutex_destroy(&qp->ex.qp_base.mutex);
	if (!qp->stays)
		context_free(qp->ctx, qp);
}

static struct qp *make_qp(struct context *ctx, const struct ibv_qp_init_attr_ex *a,
			  const struct transport *transport)
{
	struct qp *qp = calloc(1, sizeof(*qp));

	qp_is_held(qp); /* the QP is new: no other thread knows it */
	if (!qp)
		return NULL;
	qp->core = ctx->core;
	qp->ctx = ctx;
	qp->dev = ctx->dev;
	qp->in = a->pd ? pd_of(a->pd) : NULL;
	qp->pd = qp->in ? pd_proper(qp->in) : NULL;
	qp->send_cq = a->send_cq ? cq_of(a->send_cq) : NULL;
	qp->recv_cq = a->recv_cq ? cq_of(a->recv_cq) : NULL;
	qp->srq = a->srq ? srq_of(a->srq) : NULL;
	qp->hooks = qp->srq ? qp->srq->hooks : NULL;
	if (qp->hooks) {
		qp->recv_cq = qp->srq->cq;
		qp->hooks->join(qp);
	}
	qp->type = a->qp_type;
	qp->kind = qp_kind_of(a->qp_type);
	qp->reliable = qp->kind->reliable;
	if (qp->kind->join)
		qp->kind->join(qp, a);
	qp->wr_type = wr_type_of(ctx, a->qp_type);
	qp->sig_all = a->sq_sig_all != 0;
	if (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		qp->create_flags = a->create_flags;
	if (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		qp->send_ops = a->send_ops_flags;
	qp->transport = transport;
	if (queues_init(qp, &a->cap)) {
		free(qp);
		return NULL;
	}
	qp_init_nodes(qp);
	fill_ibv(qp, a);
	qp_set_state(qp, IBV_QPS_RESET);
	return qp;
}

int qp_create(struct context *ctx, struct ibv_qp_init_attr_ex *attr,
	      const struct transport *transport, struct qp **out)
{
	struct ibv_qp_init_attr_ex a = qp_proper_attr(attr);
	struct core *core = ctx->core;
	struct qp *qp;
	int rc;

	if (ctx->dead)
		return -EIO;
	rc = check_init(ctx, &a);
	if (rc)
		return rc;
	qp = make_qp(ctx, &a, transport);
	if (!qp)
		return -ENOMEM;
	turn_take(&core->turn);
	rc = number_and_open(core, qp);
	turn_give(&core->turn);
	if (rc) {
		release_qp(qp);
		return rc;
	}
	if (qp->in)
		pd_use(qp->in);
	count_users(qp, 1);
	live_add(&qp->live, LIVE_QP, ctx->ibv);
	attr->cap = qp->init.cap;
	*out = qp;
	return 0;
}

struct qp *qp_make_handle(struct context *ctx, const struct ibv_qp_init_attr_ex *a,
			  uint32_t qpn)
{
	struct qp *qp = make_qp(ctx, a, NULL);

	if (!qp)
		return NULL;
	qp->qpn = qp->ex.qp_base.qp_num = qp->ex.qp_base.handle = qpn;
	qp->ex.qp_base.state = IBV_QPS_UNKNOWN;
	count_users(qp, 1);
	return qp;
}

void qp_free_handle(struct qp *qp)
{
	count_users(qp, (unsigned)-1);
	release_qp(qp);
}

/* --- destroy ------------------------------------------------------------- */

/* Removes the QP from everything that the engine visits. Until the transport has closed
 * it, a thread that posts to its SRQ may make it due (verbs/await.h). */
static void close_qp(struct core *core, struct qp *qp) REQUIRES(core->turn)
{
	lock_take(&qp->lock);
	qp->transport->close(qp);
	qp_clear(qp);
	lock_give(&qp->lock);
	due_forget(core, qp);
}

/* After this neither the engine nor a packet finds the QP. */
static void unhook(struct core *core, struct qp *qp) REQUIRES(core->turn)
{
	numbers_del(&core->qps, qpn_index(qp->qpn));
	if (qp->kind->ended)
		qp->kind->ended(qp);
	close_qp(core, qp);
}

void qp_end(struct qp *qp)
{
	unhook(qp->core, qp);
	mw_forget_qp(qp->core, qp->qpn);
	count_users(qp, (unsigned)-1);
	release_qp(qp);
}

int qp_destroy(struct qp *qp)
{
	struct core *core = qp->core;
	struct pd *in;

	turn_take(&core->turn);
	if (mcast_any(core, qp)) {
		turn_give(&core->turn);
		log_info("QP 0x%06x is not destroyed: it is in a multicast group",
			 qp->qpn);
		return -EBUSY;
	}
	if (qp->users) {
		turn_give(&core->turn);
		log_info("QP 0x%06x is not destroyed: %u rules (ibv_create_flow) use it",
			 qp->qpn, qp->users);
		return -EBUSY;
	}
	live_del(&qp->live);
	unhook(core, qp);
	mw_forget_qp(core, qp->qpn);
	turn_give(&core->turn);

	qp_forget_cqes(qp);
	async_forget(qp->ctx, &qp->ex.qp_base);
	count_users(qp, (unsigned)-1);
	in = qp->in;
	release_qp(qp);
	if (in)
		pd_unuse(in);
	return 0;
}
