/* SPDX-License-Identifier: BSD-2-Clause */
/* opened.c - see opened.h. */
#include "verbs/opened.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/share_own.h"
#include "verbs/xrc.h"

#define PATIENCE_NS (5 * UINT64_C(1000000000)) /* the process may be stopped */

/* clang-format off */
static const uint32_t known_events =
	1u << IBV_EVENT_QP_FATAL | 1u << IBV_EVENT_QP_REQ_ERR |
	1u << IBV_EVENT_QP_ACCESS_ERR | 1u << IBV_EVENT_COMM_EST |
	1u << IBV_EVENT_SQ_DRAINED | 1u << IBV_EVENT_QP_LAST_WQE_REACHED;
/* clang-format on */

struct opened {
	struct lock one;  /* serialises questions; taken outside of the turn */
	struct list node; /* in share->opened */
	struct qp *qp;	  /* NULL: closed, and the QP's process is still to be told */
	uint16_t slot;
	uint32_t id;
	bool open;   /* the QP's process has confirmed the open */
	bool ended;  /* the QP no longer exists */
	bool asking; /* a question awaits its answer */
	struct share_msg ask, answer;
};

static struct opened *find_opened(const struct core *core, uint16_t slot, uint32_t id)
{
	list_for(n, &core->xrc.share->opened)
	{
		struct opened *o = container_of(n, struct opened, node);

		if (o->id == id && o->slot == slot)
			return o;
	}
	return NULL;
}

static void forget_opened(struct opened *o)
{
	list_del(&o->node);
	free(o);
}

static void raise(struct opened *o, uint32_t events)
{
	for (unsigned type = 0; type < 32; type++)
		if (o->open && o->qp && events & known_events & 1u << type)
			async_raise(o->qp->ctx, (enum ibv_event_type)type,
				    &o->qp->ex.qp_base);
}

/* Marks an open handle as ended: its QP no longer exists. */
static void end_opened(struct core *core, struct opened *o)
{
	if (!o->ended) {
		o->ended = true;
		log_info("QP 0x%06x of slot %u has ended with its process or context",
			 o->ask.qpn, o->slot);
		raise(o, 1u << IBV_EVENT_QP_FATAL);
	}
	lock_changed(&core->xrc.share->answered);
}

static void end_or_forget(struct core *core, struct opened *o)
{
	if (o->qp)
		end_opened(core, o);
	else
		forget_opened(o);
}

/* --- questions --------------------------------------------------------------------- */

/* Sends the question to the QP's process. True: there will be no answer. */
static bool send_question(struct core *core, struct opened *o) REQUIRES(core->turn)
{
	share_again(core->xrc.share, SHARE_UNANSWERED_NS);
	return share_pass(core, o->slot, &o->ask) == -ESRCH;
}

/* Prepares the handle's next question, which is resent until it is answered. */
static void ask_for(struct opened *o, uint8_t op, int mask,
		    const struct ibv_qp_attr *attr)
{
	o->ask.op = op;
	o->ask.seq++;
	o->ask.mask = mask;
	if (attr)
		o->ask.attr = *attr;
	o->asking = true;
}

/* Waits for the answer, which is then in o->answer. Returns 0, -EIO or -ETIMEDOUT. */
static int await(struct core *core, struct opened *o) REQUIRES(core->turn)
{
	struct share *s = core->xrc.share;
	const uint64_t until = s->ops->now() + PATIENCE_NS;

	while (o->asking && !o->ended && !core->dead && s->ops->now() < until) {
		uint32_t seen = atomic_load(&s->answered.changes);

		turn_give(&core->turn);
		s->ops->wait(s->arg, &s->answered, seen);
		turn_take(&core->turn);
	}
	if (!o->asking)
		return 0;
	o->asking = false;
	if (o->ended || core->dead)
		return -EIO;
	log_info("QP 0x%06x: the process in slot %u, which created it, "
		 "answers no question about it",
		 o->ask.qpn, o->slot);
	return -ETIMEDOUT;
}

/* Asks and waits. On success *out, unless NULL, has the attributes of the answer. */
static int question(struct core *core, struct opened *o, uint8_t op, int mask,
		    const struct ibv_qp_attr *attr, struct ibv_qp_attr *out)
{
	int rc = -EIO;

	lock_take(&o->one);
	turn_take(&core->turn);
	if (!o->ended) {
		ask_for(o, op, mask, attr);
		if (send_question(core, o))
			end_opened(core, o);
		rc = await(core, o);
	}
	if (!rc)
		rc = o->answer.rc;
	if (!rc && out)
		*out = o->answer.attr;
	turn_give(&core->turn);
	lock_give(&o->one);
	return rc;
}

static void disown(struct core *core, uint16_t slot, const struct share_msg *m)
{
	const struct share_msg end = {
		.what = SHARE_ASK,
		.op = SHARE_CLOSE,
		.qpn = m->qpn,
		.id = m->id,
	};

	(void)share_pass(core, slot, &end);
}

void opened_answered(struct core *core, uint16_t slot, const struct share_msg *m)
{
	struct opened *o = find_opened(core, slot, m->id);

	if (!o && m->op == SHARE_OPEN && !m->rc) /* the open was given up */
		disown(core, slot, m);
	if (!o || !o->asking || m->seq != o->ask.seq || m->op != o->ask.op || m->rc > 0)
		return;
	o->asking = false;
	o->answer = *m;
	if (m->op == SHARE_OPEN && !m->rc)
		o->open = true;
	if (!o->qp)
		forget_opened(o);
	lock_changed(&core->xrc.share->answered);
}

void opened_again(struct core *core)
{
	list_for_safe(n, &core->xrc.share->opened)
	{
		struct opened *o = container_of(n, struct opened, node);
		const bool closed = !o->qp;

		/* If the QP is in this process, the answer comes within the call, and
		 * o may be freed then. */
		if (o->asking && send_question(core, o) && closed)
			forget_opened(o);
	}
	lock_changed(&core->xrc.share->answered); /* wakes the waiting thread, which
						   * checks its deadline */
}

/* --- events of the QP ------------------------------------------------------------
 */

void opened_told(struct core *core, uint16_t slot, const struct share_msg *m)
{
	struct opened *o = find_opened(core, slot, m->id);

	if (!o)
		return;
	raise(o, m->events);
	if (m->events & SHARE_ENDED)
		end_or_forget(core, o);
}

void opened_gone(struct core *core, uint16_t slot)
{
	list_for_safe(n, &core->xrc.share->opened)
	{
		struct opened *o = container_of(n, struct opened, node);

		if (o->slot == slot)
			end_or_forget(core, o);
	}
}

void opened_close_all(struct core *core)
{
	list_for_safe(n, &core->xrc.share->opened)
		forget_opened(container_of(n, struct opened, node));
}

/* --- verbs
 * ------------------------------------------------------------------------------ */

static int check_attr(const struct context *ctx, const struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

	if (ctx->dead)
		return -EIO;
	if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED || !ctx->core->xrc.share)
		return -EOPNOTSUPP;
	if ((attr->comp_mask & needed) != needed || !attr->xrcd ||
	    attr->qp_type != IBV_QPT_XRC_RECV || attr->qp_num >> 24) {
		log_info("open_qp refused: comp_mask %#x, qp_type %d, qp_num %#x",
			 attr->comp_mask, (int)attr->qp_type, attr->qp_num);
		return -EINVAL;
	}
	return 0;
}

static struct opened *make(struct qp *qp, uint32_t qpn)
{
	struct opened *o = calloc(1, sizeof(*o));
	struct core *core = qp->core;

	if (!o)
		return NULL;
	o->qp = qp;
	o->slot = qpn_slot(qpn);
	o->ask.what = SHARE_ASK;
	o->ask.qpn = qpn;
	o->ask.domain = (uintptr_t)qp->xrc.domain->domain;
	(void)xrcd_name(qp->xrc.domain, &o->ask.name);
	turn_take(&core->turn);
	o->id = o->ask.id = ++core->xrc.share->ids;
	list_add_tail(&core->xrc.share->opened, &o->node);
	turn_give(&core->turn);
	return o;
}

/* Closes the handle, and tells the QP's process until it confirms. */
static void let_go(struct core *core, struct opened *o)
{
	turn_take(&core->turn);
	o->qp = NULL;
	if (o->ended) {
		forget_opened(o);
	} else {
		ask_for(o, SHARE_CLOSE, 0, NULL);
		if (send_question(core, o))
			forget_opened(o);
	}
	turn_give(&core->turn);
	core->xrc.share->ops->settle(core->xrc.share->arg);
}

int opened_open(struct context *ctx, const struct ibv_qp_open_attr *attr, struct qp **out)
{
	const struct ibv_qp_init_attr_ex a = {
		.qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT
				      ? attr->qp_context
				      : NULL,
		.qp_type = IBV_QPT_XRC_RECV,
		.xrcd = attr->xrcd,
	};
	struct core *core = ctx->core;
	struct qp *qp;
	int rc = check_attr(ctx, attr);

	if (rc)
		return rc;
	qp = qp_make_handle(ctx, &a, attr->qp_num);
	if (!qp)
		return -ENOMEM;
	qp->xrc.opened = make(qp, attr->qp_num);
	rc = qp->xrc.opened ? question(core, qp->xrc.opened, SHARE_OPEN, 0, NULL, NULL)
			    : -ENOMEM;
	if (rc) {
		if (qp->xrc.opened)
			let_go(core, qp->xrc.opened);
		qp_free_handle(qp);
		return rc == -EIO ? -EINVAL : rc; /* no process has the slot in that
						   * QP number */
	}
	live_add(&qp->live, LIVE_QP, ctx->ibv);
	*out = qp;
	return 0;
}

int opened_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int rc = question(qp->core, qp->xrc.opened, SHARE_MODIFY, mask, attr, NULL);

	if (!rc && mask & IBV_QP_STATE)
		qp->ex.qp_base.state = attr->qp_state;
	return rc;
}

int opened_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	int rc = question(qp->core, qp->xrc.opened, SHARE_QUERY, 0, NULL, attr);

	if (rc && (rc != -EIO || qp->ctx->dead))
		return rc;
	if (rc) /* the QP has ended */
		*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR,
					      .cur_qp_state = IBV_QPS_ERR };
	*init = qp->init;
	init->cap = attr->cap;
	return 0;
}

void opened_destroy(struct qp *qp)
{
	live_del(&qp->live);
	let_go(qp->core, qp->xrc.opened);
	async_forget(qp->ctx, &qp->ex.qp_base);
	qp_free_handle(qp);
}
