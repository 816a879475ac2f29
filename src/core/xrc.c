/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - see xrc.h. */
#include "core/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/core.h"
#include "core/device.h"
#include "core/qp.h"
#include "core/rq.h"
#include "sys/log.h"

/* In core->xrc_domains, under core->lock. */
struct xrc_domain {
	struct list node;
	const struct device *dev;
	bool named; /* by the inode */
	dev_t fs;
	ino_t inode;
	unsigned handles;
};

struct xrcd *xrcd_of(struct ibv_xrcd *ibv)
{
	return container_of(ibv, struct xrcd, ibv);
}

/* --- domains --------------------------------------------------------------- */

static struct xrc_domain *find(struct core *core, const struct xrc_domain *like)
	REQUIRES(core->lock)
{
	list_for(n, &core->xrc_domains)
	{
		struct xrc_domain *d = container_of(n, struct xrc_domain, node);

		if (d->named && like->named && d->dev == like->dev && d->fs == like->fs &&
		    d->inode == like->inode)
			return d;
	}
	return NULL;
}

/* The domain that is like this one, made where there is none. */
static int get(struct core *core, const struct xrc_domain *like, int oflags,
	       struct xrc_domain **out) REQUIRES(core->lock)
{
	struct xrc_domain *d = find(core, like);

	if (d && oflags & O_EXCL)
		return -EINVAL;
	if (!d && !(oflags & O_CREAT))
		return -EAGAIN;
	if (!d) {
		d = malloc(sizeof(*d));
		if (!d)
			return -ENOMEM;
		*d = *like;
		list_add_tail(&core->xrc_domains, &d->node);
	}
	d->handles++;
	*out = d;
	return 0;
}

static void put(struct core *core, struct xrc_domain *d)
{
	lock_take(&core->lock);
	if (--d->handles == 0) {
		list_del(&d->node);
		free(d);
	}
	lock_give(&core->lock);
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
	if (!ctx->dev->kind->xrc)
		return -EOPNOTSUPP;
	rc = describe(attr, &like);
	if (rc)
		return rc;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	lock_take(&ctx->core->lock);
	rc = get(ctx->core, &like, attr->oflags, &x->domain);
	lock_give(&ctx->core->lock);
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
	put(x->core, x->domain);
	free(x);
	return 0;
}

/* --- requests at their target ------------------------------------------------ */

/* The SRQ, whose PD the QP has from now on; or NULL. */
static struct srq *reach(struct qp *qp, uint32_t srqn)
{
	struct srq *srq =
		qpn_slot(srqn) == qp->core->slot ? qp->core->srqs[qpn_index(srqn)] : NULL;

	if (!srq || !srq->xrcd || srq->xrcd->domain != qp->xrcd->domain)
		return NULL;
	qp->pd = srq->pd;
	return srq;
}

enum refusal xrc_reach(struct qp *qp, uint32_t srqn)
{
	return reach(qp, srqn) ? ACCEPTED : REFUSED_SRQ;
}

enum refusal xrc_aim(struct qp *qp, uint32_t srqn)
{
	struct srq *srq = reach(qp, srqn);

	if (!srq || (qp->held && srq != qp->srq))
		return REFUSED_SRQ;
	qp->srq = srq;
	qp->recv_cq = srq->cq;
	return ACCEPTED;
}

void xrc_forget(struct core *core, const struct srq *srq)
{
	for (unsigned i = 0; i < QPN_INDICES; i++) {
		struct qp *qp = core->qps[i];

		if (!qp || !qp->xrcd)
			continue;
		lock_take(&qp->lock);
		if (qp->srq == srq) {
			qp->held = false;
			qp->srq = NULL;
			qp->recv_cq = NULL;
		}
		lock_give(&qp->lock);
	}
}
