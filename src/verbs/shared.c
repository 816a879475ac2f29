/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.c - see shared.h. */
#include "verbs/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/qp_kind.h"
#include "verbs/share_own.h"
#include "verbs/xrc.h"

enum { OPENERS_MAX = QPN_INDICES }; /* most openers per process */

struct opener {
	struct list node; /* in qp->xrc.openers */
	struct list all;  /* in share->openers */
	struct qp *qp;	  /* NULL: the QP has ended and the opener is not told yet */
	uint16_t slot;
	uint32_t id, qpn;
	uint32_t events;       /* events that the opener is not told yet */
	struct share_msg said; /* the last answer, for a question that is repeated */
};

/* --- openers ------------------------------------------------------------------ */

static struct opener *find_opener(const struct list *openers, uint16_t slot, uint32_t id)
{
	list_for(n, openers)
	{
		struct opener *o = container_of(n, struct opener, node);

		if (o->slot == slot && o->id == id)
			return o;
	}
	return NULL;
}

static void forget_opener(struct core *core, struct opener *o)
{
	list_del(&o->node);
	list_del(&o->all);
	core->xrc.share->nopeners[o->slot]--;
	free(o);
}

/* Ends a QP whose last handle is gone, and its own handle of its domain. */
static void end_orphaned(struct qp *qp) REQUIRES(qp->core->turn)
{
	struct xrcd *own = qp->xrc.domain;

	turn_is_held(own->core);
	qp_end(qp);
	xrcd_drop(own);
}

/* Called when the QP lost a handle: ends the QP if that was its last. */
static void end_if_orphaned(struct qp *qp) REQUIRES(qp->core->turn)
{
	if (qp->xrc.orphaned && !qp->xrc.destroying && list_empty(&qp->xrc.openers))
		end_orphaned(qp);
}

/* --- events to openers ---------------------------------------------------------- */

static void tell_opener(struct core *core, struct opener *o)
{
	const struct share_msg m = {
		.what = SHARE_TELL,
		.qpn = o->qpn,
		.id = o->id,
		.events = o->events,
	};

	if (share_pass(core, o->slot, &m) != -EAGAIN)
		o->events = 0;
}

static void raise(struct qp *qp, enum ibv_event_type type)
{
	if (!qp->xrc.orphaned)
		async_raise(qp->ctx, type, &qp->ex.qp_base);
	list_for(n, &qp->xrc.openers)
	{
		struct opener *o = container_of(n, struct opener, node);

		o->events |= 1u << type;
		tell_opener(qp->core, o);
	}
}

static int add_opener(struct core *core, uint16_t slot, struct qp *qp,
		      const struct share_msg *m)
{
	struct opener *o = NULL;

	if (core->xrc.share->nopeners[slot] < OPENERS_MAX)
		o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->qp = qp;
	o->slot = slot;
	o->id = m->id;
	o->qpn = m->qpn;
	qp->raise = raise;
	list_add_tail(&qp->xrc.openers, &o->node);
	list_add_tail(&core->xrc.share->openers, &o->all);
	core->xrc.share->nopeners[slot]++;
	return 0;
}

/* --- requests of openers ------------------------------------------------------------ */

/* Is qp of the domain that m names? Within one process a domain may have no name. */
static bool is_of_domain(const struct core *core, uint16_t slot, const struct qp *qp,
			 const struct share_msg *m)
{
	struct xrc_name name;

	if (slot == core->slot)
		return m->domain == (uintptr_t)qp->xrc.domain->domain;
	return xrcd_name(qp->xrc.domain, &name) &&
	       memcmp(&name, &m->name, sizeof(name)) == 0;
}

/* Like the kernel, answers EINVAL whatever is wrong. */
static int open_it(struct core *core, uint16_t slot, struct qp *qp,
		   const struct share_msg *m) REQUIRES(core->turn)
{
	if (!qp || !is_of_domain(core, slot, qp, m)) {
		log_info("QP 0x%06x is not opened for slot %u: %s", m->qpn, slot,
			 qp ? "the QP is of another XRC domain"
			    : "no target QP has that number");
		return -EINVAL;
	}
	return find_opener(&qp->xrc.openers, slot, m->id) ? 0
							  : add_opener(core, slot, qp, m);
}

static int modify(struct core *core, struct qp *qp, const struct share_msg *m)
	REQUIRES(core->turn)
{
	const struct share *s = core->xrc.share;
	int rc = s->ops->prepare ? s->ops->prepare(s->arg, qp, &m->attr, m->mask) : 0;

	if (rc)
		return rc;
	turn_is_held(qp->core);
	lock_take(&qp->lock);
	rc = qp_modify_held(qp, &m->attr, m->mask, s->ops->now());
	lock_give(&qp->lock);
	return rc;
}

static int close_it(struct core *core, struct opener *o) REQUIRES(core->turn)
{
	struct qp *qp = o->qp;

	forget_opener(core, o);
	turn_is_held(qp->core);
	end_if_orphaned(qp);
	return 0;
}

static int do_it(struct core *core, struct opener *o, const struct share_msg *m,
		 struct ibv_qp_attr *attr) REQUIRES(core->turn)
{
	struct ibv_qp_init_attr init;

	if (!o) /* the handle is closed already, or the QP has ended */
		return m->op == SHARE_CLOSE ? 0 : -EIO;
	switch (m->op) {
	case SHARE_MODIFY:
		return modify(core, o->qp, m);
	case SHARE_QUERY:
		return qp_query(o->qp, attr, &init);
	case SHARE_CLOSE:
		return close_it(core, o);
	}
	return -EINVAL;
}

/* Returns the target QP with this number, the only type that other processes may open. */
static struct qp *target(struct core *core, uint32_t qpn) REQUIRES(core->turn)
{
	struct qp *qp = qp_find(core, qpn);

	return qp && qp->type == IBV_QPT_XRC_RECV && qp->xrc.domain ? qp : NULL;
}

void shared_asked(struct core *core, uint16_t slot, const struct share_msg *m)
{
	struct qp *qp = target(core, m->qpn);
	struct opener *o = qp ? find_opener(&qp->xrc.openers, slot, m->id) : NULL;
	struct share_msg a = {
		.what = SHARE_ANSWER,
		.op = m->op,
		.qpn = m->qpn,
		.id = m->id,
		.seq = m->seq,
	};

	if (o && o->said.seq == m->seq && o->said.op == m->op) {
		(void)share_pass(core, slot, &o->said);
		return;
	}
	a.rc = m->op == SHARE_OPEN ? open_it(core, slot, qp, m)
				   : do_it(core, o, m, &a.attr);
	if (m->op == SHARE_OPEN && !a.rc)
		o = find_opener(&qp->xrc.openers, slot, m->id);
	if (o && m->op != SHARE_CLOSE)
		o->said = a;
	(void)share_pass(core, slot, &a); /* a lost answer is sent again when the
					   * opener asks again */
}

/* --- what openers were not told yet --------------------------------------------- */

static void tell_end(struct core *core, struct opener *o)
{
	tell_opener(core, o);
	if (!o->events)
		forget_opener(core, o);
}

/* Tells the openers that the QP ends. */
static void ended(struct qp *qp)
{
	turn_is_held(qp->core);
	list_for_safe(n, &qp->xrc.openers)
	{
		struct opener *o = container_of(n, struct opener, node);

		list_del(&o->node);
		list_init(&o->node);
		o->qp = NULL;
		o->events |= SHARE_ENDED;
		tell_end(qp->core, o);
	}
}

void shared_again(struct core *core)
{
	list_for_safe(n, &core->xrc.share->openers)
	{
		struct opener *o = container_of(n, struct opener, all);

		if (!o->events)
			continue;
		if (o->qp)
			tell_opener(core, o);
		else
			tell_end(core, o);
	}
}

void shared_gone(struct core *core, uint16_t slot)
{
	list_for_safe(n, &core->xrc.share->openers)
	{
		struct opener *o = container_of(n, struct opener, all);

		if (o->slot != slot)
			continue;
		if (o->qp)
			(void)close_it(core, o);
		else
			forget_opener(core, o);
	}
}

void shared_close(struct core *core)
{
	list_for_safe(n, &core->xrc.share->openers)
		forget_opener(core, container_of(n, struct opener, all));
}

/* --- the creator's handle ------------------------------------------------------------
 */

/* The QP lives on for its openers. Waits until the program has acknowledged the events of
 * the creator's handle. */
static bool leave(struct qp *qp)
{
	struct core *core = qp->core;
	struct xrcd *own = NULL;

	turn_take(&core->turn);
	if (!list_empty(&qp->xrc.openers))
		own = xrcd_second(qp->xrc.domain); /* keeps the domain: the program may
						    * close its own handle of it */
	if (!own) {
		turn_give(&core->turn);
		return false;
	}
	live_del(&qp->live);
	lock_take(&qp->lock);
	atomic_fetch_sub(&qp->xrc.domain->users, 1);
	qp->xrc.domain = own;
	atomic_fetch_add(&own->users, 1);
	qp->xrc.orphaned = qp->xrc.destroying = true;
	qp->stays = qp->ctx->stays;
	lock_give(&qp->lock);
	turn_give(&core->turn);

	async_forget(qp->ctx, &qp->ex.qp_base);

	turn_take(&core->turn);
	qp->xrc.destroying = false;
	turn_is_held(qp->core);
	end_if_orphaned(qp);
	turn_give(&core->turn);
	return true;
}

const struct qp_kind qp_kind_xrc_recv = {
	.name = "XRC_RECV",
	.reliable = true,
	.connected = true,
	.attrs = IBV_QP_INIT_ATTR_XRCD,
	.join = xrc_join,
	.use = xrc_use,
	.leave = leave,
	.ended = ended,
};

static struct context *another(const struct context *ctx) REQUIRES(ctx->core->turn)
{
	struct core *core = ctx->core;
	struct context *found = NULL;

	lock_take(&core->lock);
	list_for(n, &core->contexts)
	{
		struct context *c = container_of(n, struct context, node);

		if (c != ctx && c->dev == ctx->dev && !c->dead)
			found = c;
	}
	lock_give(&core->lock);
	return found;
}

void shared_forget_context(struct context *ctx)
{
	struct core *core = ctx->core;
	struct context *next;

	turn_take(&core->turn);
	turn_is_held(ctx->core);
	next = another(ctx);
	for (unsigned i = 0; i < QPN_INDICES; i++) {
		struct qp *qp = numbers_at(&core->qps, i);

		if (!qp || !qp->xrc.orphaned || qp->ctx != ctx)
			continue;
		turn_is_held(qp->core);
		if (next)
			qp->ctx = next;
		else
			end_orphaned(qp);
	}
	turn_give(&core->turn);
}
