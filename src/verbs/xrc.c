/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - see xrc.h. */
#include "verbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/draft.h"
#include "verbs/like.h"
#include "verbs/qp.h"
#include "verbs/qp_kind.h"
#include "verbs/rq.h"
#include "verbs/srq_hooks.h"

/* In core->xrc.domains, under core->lock. */
struct xrc_domain {
	struct list node;
	const struct device *dev;
	bool named; /* has an inode */
	dev_t fs;
	ino_t inode;
	unsigned handles;
	void *claim; /* from core->xrc.claim(); not NULL: other processes see the
		      * name */
};

struct xrcd *xrcd_of(struct ibv_xrcd *ibv)
{
	return container_of(ibv, struct xrcd, ibv);
}

/* --- domains --------------------------------------------------------------- */

static struct xrc_domain *find_domain(struct core *core, const struct xrc_domain *like)
	REQUIRES(core->lock)
{
	list_for(n, &core->xrc.domains)
	{
		struct xrc_domain *d = container_of(n, struct xrc_domain, node);

		if (d->named && like->named && d->dev == like->dev && d->fs == like->fs &&
		    d->inode == like->inode)
			return d;
	}
	return NULL;
}

static struct xrc_name name_of(const struct xrc_domain *d)
{
	return (struct xrc_name){
		.guid = d->dev->guid,
		.number = d->dev->number,
		.fs = (uint64_t)d->fs,
		.inode = (uint64_t)d->inode,
	};
}

static void unclaim(struct core *core, struct xrc_domain *d)
{
	if (!d->claim)
		return;
	turn_take(&core->turn);
	core->xrc.unclaim(d->claim);
	turn_give(&core->turn);
}

/* No other process can make domain d unseen meanwhile, because each process first
 * announces its claim and then looks for others. If two make it with O_EXCL at once,
 * both may fail. */
static int claim(struct core *core, struct xrc_domain *d, int oflags)
{
	const struct xrc_name name = name_of(d);
	bool elsewhere = false;
	int rc;

	if (d->named && core->xrc.claim) {
		turn_take(&core->turn);
		rc = core->xrc.claim(core, &name, &d->claim);
		turn_give(&core->turn);
		if (rc)
			return rc;
		if (oflags != O_CREAT)
			elsewhere = core->xrc.elsewhere(core, &name);
	}
	if (elsewhere ? !(oflags & O_EXCL) : oflags & O_CREAT)
		return 0;
	unclaim(core, d);
	return elsewhere ? -EINVAL : -EAGAIN;
}

static struct xrc_domain *find_again(struct core *core, const struct xrc_domain *like)
{
	struct xrc_domain *d;

	lock_take(&core->lock);
	d = find_domain(core, like);
	if (d)
		d->handles++;
	lock_give(&core->lock);
	return d;
}

static bool is_last(struct core *core, struct xrc_domain *d)
{
	bool last;

	lock_take(&core->lock);
	last = --d->handles == 0;
	if (last)
		list_del(&d->node);
	lock_give(&core->lock);
	return last;
}

static void put_domain(struct core *core, struct xrc_domain *d)
{
	if (!is_last(core, d))
		return;
	unclaim(core, d);
	free(d);
}

/* Finds the domain that equals `like`, or makes it. */
static int get_domain(struct core *core, const struct xrc_domain *like, int oflags,
		      struct xrc_domain **out)
{
	struct xrc_domain *d = find_again(core, like);
	int rc;

	if (d) {
		if (oflags & O_EXCL)
			put_domain(core, d);
		*out = d;
		return oflags & O_EXCL ? -EINVAL : 0;
	}
	d = malloc(sizeof(*d));
	if (!d)
		return -ENOMEM;
	*d = *like;
	d->handles = 1;
	rc = claim(core, d, oflags);
	if (rc) {
		free(d);
		return rc;
	}
	lock_take(&core->lock);
	list_add_tail(&core->xrc.domains, &d->node);
	lock_give(&core->lock);
	*out = d;
	return 0;
}

static int describe(const struct ibv_xrcd_init_attr *attr, struct xrc_domain *like)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct stat st;

	if (attr->comp_mask != both || attr->oflags & ~(O_CREAT | O_EXCL))
		return -EINVAL;
	if (attr->fd == -1)
		return 0;
	if (fstat(attr->fd, &st) != 0)
		return -errno;
	like->named = true;
	like->fs = st.st_dev;
	like->inode = st.st_ino;
	return 0;
}

int xrcd_open(struct context *ctx, const struct ibv_xrcd_init_attr *attr,
	      struct xrcd **out)
{
	struct xrc_domain like = { .dev = ctx->dev };
	struct xrcd *x;
	int rc;

	if (ctx->dead)
		return -EIO;
	if (like_lacks(LIKE_XRC, "open_xrcd") ||
	    !(kind_qp_types(ctx->dev->kind) & 1 << IBV_QPT_XRC_RECV))
		return -EOPNOTSUPP;
	rc = describe(attr, &like);
	if (rc)
		return rc;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	lock_take(&ctx->core->xrc.opening);
	rc = get_domain(ctx->core, &like, attr->oflags, &x->domain);
	lock_give(&ctx->core->xrc.opening);
	if (rc) {
		free(x);
		return rc;
	}
	x->core = ctx->core;
	x->ibv.context = ctx->ibv;
	live_add(&x->live, LIVE_XRCD, ctx->ibv);
	*out = x;
	return 0;
}

int xrcd_close(struct xrcd *x)
{
	unsigned users = atomic_load(&x->users);

	if (users) {
		log_info("XRC domain is not closed: %u SRQs and QPs use it", users);
		return -EBUSY;
	}
	live_del(&x->live);
	lock_take(&x->core->xrc.opening);
	put_domain(x->core, x->domain);
	lock_give(&x->core->xrc.opening);
	free(x);
	return 0;
}

struct xrcd *xrcd_second(const struct xrcd *x)
{
	struct xrcd *own = calloc(1, sizeof(*own));

	if (!own)
		return NULL;
	own->core = x->core;
	own->domain = x->domain;
	lock_take(&x->core->lock);
	own->domain->handles++;
	lock_give(&x->core->lock);
	return own;
}

/* A process that makes a domain of this name has either looked for it before or claims
 * the name after this turn. */
void xrcd_drop(struct xrcd *x)
{
	struct xrc_domain *d = x->domain;

	if (is_last(x->core, d)) {
		if (d->claim)
			x->core->xrc.unclaim(d->claim);
		free(d);
	}
	free(x);
}

bool xrcd_name(const struct xrcd *x, struct xrc_name *out)
{
	*out = name_of(x->domain);
	return x->domain->named;
}

/* --- QPs ----------------------------------------------------------------------- */

int draft_to_srq(struct qp *qp, uint32_t srqn)
{
	if (qp->type != IBV_QPT_XRC_SEND || srqn > 0xffffff)
		return post_refuse(
			qp,
			"the remote SRQ number has more than 24 bits, or the QP is not XRC");
	draft_last(&qp->sq)->srqn = srqn;
	return 0;
}

static int address(struct qp *qp, const struct ibv_send_wr *wr)
{
	return draft_to_srq(qp, wr->qp_type.xrc.remote_srqn);
}

const struct qp_kind qp_kind_xrc_send = {
	.name = "XRC_SEND",
	.reliable = true,
	.connected = true,
	.has = QP_HAS_PD | QP_SENDS,
	.address = address,
};

void xrc_join(struct qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	qp->xrc.domain = xrcd_of(a->xrcd);
	list_init(&qp->xrc.openers);
}

/* A target counts in its domain, and not in the SRQ that it borrows from. */
void xrc_use(struct qp *qp, unsigned n)
{
	atomic_fetch_add(&qp->xrc.domain->users, n);
}

/* --- SRQs ---------------------------------------------------------------------- */

static struct xrcd *domain_of(const struct srq *srq)
{
	return srq->kind;
}

static int open_srq(struct srq *srq, const void *how)
{
	srq->kind = (void *)(uintptr_t)how;
	atomic_fetch_add(&domain_of(srq)->users, 1);
	return 0;
}

static void close_srq(struct srq *srq)
{
	atomic_fetch_sub(&domain_of(srq)->users, 1);
}

/* As on Linux. */
static int check(const struct srq *srq, const struct ibv_qp_init_attr_ex *a)
{
	(void)a;
	log_info("create_qp refused: SRQ 0x%06x is of an XRC domain: requests name it, "
		 "and no QP",
		 srq->num);
	return -EINVAL;
}

static void forget_srq(struct qp *qp, const struct srq *srq)
{
	lock_take(&qp->lock);
	if (qp->srq == srq) {
		qp_await_no_recv(qp);
		qp->recv.held = false;
		qp->srq = NULL;
		qp->recv_cq = NULL;
	}
	lock_give(&qp->lock);
}

/* All target QPs give up what they borrowed. */
static void gone(struct srq *srq)
{
	struct core *core = srq->core;

	turn_is_held(core);
	for (unsigned i = 0; i < QPN_INDICES; i++) {
		struct qp *qp = numbers_at(&core->qps, i);

		if (qp && qp->xrc.domain)
			forget_srq(qp, srq);
	}
	list_for(n, &core->xrc.stand_ins)
		forget_srq(container_of(n, struct qp, xrc.node), srq);
}

static const struct srq_hooks srq_hooks = {
	.open = open_srq,
	.close = close_srq,
	.gone = gone,
	.check = check,
};

int srq_create_xrc(struct context *ctx, struct pd *pd, struct xrcd *xrcd, struct cq *cq,
		   struct ibv_srq_init_attr *attr, struct srq **out)
{
	return srq_create_kind(ctx, pd, cq, &srq_hooks, xrcd, attr, out);
}

/* --- requests at their target ------------------------------------------------ */

/* Returns the XRC SRQ of that number. */
static struct srq *srq_at(const struct core *core, uint32_t srqn)
{
	struct srq *srq = qpn_slot(srqn) == core->slot
				  ? numbers_at(&core->srqs, qpn_index(srqn))
				  : NULL;

	return srq && srq->hooks == &srq_hooks ? srq : NULL;
}

/* Returns the SRQ and makes its PD the QP's; NULL: no such SRQ in the domain. */
static struct srq *reach(struct qp *qp, uint32_t srqn)
{
	struct srq *srq = srq_at(qp->core, srqn);

	if (!srq || domain_of(srq)->domain != qp->xrc.domain->domain)
		return NULL;
	qp->pd = srq->pd;
	return srq;
}

enum refusal xrc_reach(struct qp *qp, uint32_t srqn)
{
	return reach(qp, srqn) ? ACCEPTED : REFUSED_SRQ;
}

static enum refusal aim(struct qp *qp, struct srq *srq)
{
	if (!srq || (qp->recv.held && srq != qp->srq))
		return REFUSED_SRQ;
	qp->srq = srq;
	qp->recv_cq = srq->cq;
	return ACCEPTED;
}

enum refusal xrc_aim(struct qp *qp, uint32_t srqn)
{
	return aim(qp, reach(qp, srqn));
}

/* --- stand-ins ----------------------------------------------------------------- */

void xrc_stand_in(struct core *core, struct qp *qp, struct xrcd *none)
{
	qp_is_held(qp); /* the QP is new: no other thread knows it */
	qp->core = core;
	qp->type = IBV_QPT_XRC_RECV;
	qp->kind = qp_kind_of(qp->type);
	qp->reliable = true;
	qp->xrc.domain = none;
	qp_init_nodes(qp);
	qp_set_state(qp, IBV_QPS_RTR);
	list_add_tail(&core->xrc.stand_ins, &qp->xrc.node);
}

void xrc_stand_down(struct core *core, struct qp *qp, uint64_t now)
{
	(void)core;
	lock_take(&qp->lock);
	qp_fail(qp, false, -1, now);
	lock_give(&qp->lock);
	list_del(&qp->xrc.node);
}

struct srq *xrc_find(struct core *core, uint32_t srqn, const struct xrc_name *name)
{
	struct srq *srq = srq_at(core, srqn);
	struct xrc_name own;

	if (!srq || !xrcd_name(domain_of(srq), &own) ||
	    memcmp(&own, name, sizeof(own)) != 0)
		return NULL;
	return srq;
}

enum refusal xrc_aim_by_name(struct qp *qp, uint32_t srqn, const struct xrc_name *name)
{
	enum refusal why;
	struct srq *srq;

	turn_is_held(qp->core);
	srq = xrc_find(qp->core, srqn, name);
	why = aim(qp, srq);
	if (!why)
		qp->pd = srq->pd;
	return why;
}
