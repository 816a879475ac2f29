/* SPDX-License-Identifier: BSD-2-Clause */
/* upset.c - see upset.h. */
#include "driver/upset.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <string.h>

#include "driver/nic_own.h"
#include "sys/clock.h"
#include "sys/live.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/upset.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/port.h"
#include "verbs/qp.h"
#include "verbs/qp_state.h"
#include "verbs/verr.h"

const struct upset *_Atomic upset;

/* Innermost: nothing is called with it held. */
static struct lock rules_lock;
static struct upset_spec rules GUARDED_BY(rules_lock);

/* What a context's functions were; all contexts have the same. */
static struct ibv_context_ops real;
/* The same of QPs and CQs. */
static struct {
	int (*wr_complete)(struct ibv_qp_ex *ex);
} real_qp;
static struct {
	int (*start_poll)(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *ex);
} real_cq;

enum { PIECE = 64 }; /* objects for which the table of what lives is held */

/* Counts; is it the turn of this rule? */
static bool comes_now(struct upset_rule *r)
{
	bool now = ++r->seen == r->n || (r->onwards && r->seen > r->n);

	r->hits += now;
	return now;
}

static int refuses(enum upset_call call)
{
	int rc = 0;

	lock_take(&rules_lock);
	for (unsigned i = 0; i < rules.n; i++) {
		struct upset_rule *r = &rules.rule[i];

		if (r->kind == UPSET_FAIL && r->call == call && comes_now(r) && !rc)
			rc = -r->code;
	}
	lock_give(&rules_lock);
	if (rc)
		log_info("a call fails as asked for (fail=): %s", strerror(-rc));
	return rc;
}

/* --- posts and polls ------------------------------------------------------------- */

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int rc = wr ? upset_refuses(UPSET_POST_SEND) : 0;

	if (!rc)
		return real.post_send(qp, wr, bad);
	if (bad)
		*bad = wr;
	return -rc;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int rc = wr ? upset_refuses(UPSET_POST_RECV) : 0;

	if (!rc)
		return real.post_recv(qp, wr, bad);
	if (bad)
		*bad = wr;
	return -rc;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	int rc = wr ? upset_refuses(UPSET_POST_RECV) : 0;

	if (!rc)
		return real.post_srq_recv(srq, wr, bad);
	if (bad)
		*bad = wr;
	return -rc;
}

/* Returns the status that a completion gets; IBV_WC_SUCCESS: its own. */
static enum ibv_wc_status status_for(uint32_t qpn)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	lock_take(&rules_lock);
	for (unsigned i = 0; i < rules.n; i++) {
		struct upset_rule *r = &rules.rule[i];

		if (r->kind == UPSET_WC && (!r->qpn || r->qpn == qpn) && comes_now(r))
			status = (enum ibv_wc_status)r->code;
	}
	lock_give(&rules_lock);
	return status;
}

/* The program still has the QP: it has just got a completion of it. */
static void fail_qp(struct core *core, uint32_t qpn)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct qp *qp;

	turn_take(&core->turn);
	qp = qp_find(core, qpn);
	if (qp) {
		turn_is_held(qp->core);
		lock_take(&qp->lock);
		(void)qp_modify_held(qp, &err, IBV_QP_STATE, clock_ns());
		lock_give(&qp->lock);
	}
	turn_give(&core->turn);
}

static void tell_status(struct core *core, uint32_t qpn, enum ibv_wc_status status)
{
	log_info("QP 0x%06x: a completion has status %d as asked for (wc=)", qpn,
		 (int)status);
	fail_qp(core, qpn);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real.poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++) {
		enum ibv_wc_status status = wc[i].status == IBV_WC_SUCCESS
						    ? status_for(wc[i].qp_num)
						    : IBV_WC_SUCCESS;

		if (status == IBV_WC_SUCCESS)
			continue;
		wc[i].status = status;
		wc[i].vendor_err = VERR_UPSET;
		tell_status(context_of(cq->context)->core, wc[i].qp_num, status);
	}
	return got;
}

/* --- requests that are built, completions that are read field by field ----------------
 */

/* It counts as one post, however many requests it is for. */
static int wr_complete(struct ibv_qp_ex *ex)
{
	int rc = upset_refuses(UPSET_POST_SEND);

	if (!rc)
		return real_qp.wr_complete(ex);
	ex->wr_abort(ex);
	errno = -rc;
	return -rc;
}

/* The completion that is being read. */
static void spoil(struct ibv_cq_ex *ex)
{
	struct cq *cq = container_of(ex, struct cq, ex);
	enum ibv_wc_status status = ex->status == IBV_WC_SUCCESS
					    ? status_for(cq->cur.qp_num)
					    : IBV_WC_SUCCESS;

	if (status == IBV_WC_SUCCESS)
		return;
	ex->status = cq->cur.status = status;
	cq->cur.vendor_err = VERR_UPSET;
	tell_status(cq->core, cq->cur.qp_num, status);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int rc = real_cq.start_poll(ex, attr);

	if (!rc)
		spoil(ex);
	return rc;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	int rc = real_cq.next_poll(ex);

	if (!rc)
		spoil(ex);
	return rc;
}

static void attach_qp(struct qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ex;

	if (!ex->wr_complete || ex->wr_complete == wr_complete)
		return;
	if (!real_qp.wr_complete)
		real_qp.wr_complete = ex->wr_complete;
	ex->wr_complete = wr_complete;
}

static void detach_qp(struct qp *qp)
{
	if (qp->ex.wr_complete == wr_complete)
		qp->ex.wr_complete = real_qp.wr_complete;
}

static void attach_cq(struct cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	if (!ex->start_poll || ex->start_poll == start_poll)
		return;
	if (!real_cq.start_poll) {
		real_cq.start_poll = ex->start_poll;
		real_cq.next_poll = ex->next_poll;
	}
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
}

static void detach_cq(struct cq *cq)
{
	if (cq->ex.start_poll != start_poll)
		return;
	cq->ex.start_poll = real_cq.start_poll;
	cq->ex.next_poll = real_cq.next_poll;
}

static void look_at_qp(struct live *l, void *on)
{
	(on ? attach_qp : detach_qp)(container_of(l, struct qp, live));
}

static void look_at_cq(struct live *l, void *on)
{
	(on ? attach_cq : detach_cq)(container_of(l, struct cq, live));
}

/* on: NULL, or anything else. */
static void each_queue(void *on)
{
	uint64_t at = 0;

	while (live_next(LIVE_QP, &at, PIECE, look_at_qp, on))
		;
	at = 0;
	while (live_next(LIVE_CQ, &at, PIECE, look_at_cq, on))
		;
}

/* --- of contexts ----------------------------------------------------------------------
 */

/* Functions of contexts are replaced while threads call them: each is one store. */
static void attach_context(struct context *ctx)
{
	struct ibv_context_ops *ops = &ctx->verbs.context.ops;

	if (ops->post_send == post_send)
		return;
	if (!real.post_send)
		real = *ops;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
	ops->poll_cq = poll_cq;
}

static void detach_context(struct context *ctx)
{
	struct ibv_context_ops *ops = &ctx->verbs.context.ops;

	if (ops->post_send != post_send)
		return;
	ops->post_send = real.post_send;
	ops->post_recv = real.post_recv;
	ops->post_srq_recv = real.post_srq_recv;
	ops->poll_cq = real.poll_cq;
}

static void each_context(struct nic *nic, void (*fn)(struct context *ctx))
{
	lock_take(&nic->core.lock);
	list_for(n, &nic->core.contexts)
	{
		fn(container_of(n, struct context, node));
	}
	lock_give(&nic->core.lock);
}

/* --- at once ------------------------------------------------------------------------ */

/* A device that is lost is as if its descriptors were gone: every call answers EIO. */
static void raise_at(struct context *ctx, int event)
{
	if (!ctx->dead)
		async_raise(ctx, (enum ibv_event_type)event, NULL);
	if (event == IBV_EVENT_DEVICE_FATAL)
		atomic_store(&ctx->dead, true);
}

static void raise_everywhere(struct nic *nic, int event)
{
	lock_take(&nic->core.lock);
	list_for(n, &nic->core.contexts)
	{
		raise_at(container_of(n, struct context, node), event);
	}
	lock_give(&nic->core.lock);
}

/* A context that is opened gets the events that were asked for from the start. */
static void begin_context(struct context *ctx)
{
	struct upset_spec now;

	lock_take(&rules_lock);
	now = rules;
	lock_give(&rules_lock);
	attach_context(ctx);
	for (unsigned i = 0; i < now.n; i++)
		if (now.rule[i].at_open)
			raise_at(ctx, now.rule[i].code);
}

/* Does the event come with the QP's way to ERR? */
static bool leaves_state(int event)
{
	return event != IBV_EVENT_COMM_EST && event != IBV_EVENT_PATH_MIG;
}

static void raise_of_qp(struct nic *nic, const struct upset_rule *r, uint64_t now)
{
	struct qp *qp;

	turn_is_held(&nic->core);
	qp = qp_find(&nic->core, r->qpn);
	if (!qp) {
		log_warn("there is no QP 0x%06x for an event (async=)", r->qpn);
		return;
	}
	lock_take(&qp->lock);
	if (leaves_state(r->code))
		qp_fail(qp, false, r->code, now);
	else
		qp_raise(qp, (enum ibv_event_type)r->code);
	lock_give(&qp->lock);
}

/* Of each device that is open. */
static unsigned ask_ports(struct nic *nic, enum device_asked asked)
{
	unsigned what = 0;

	device_ask(asked);
	lock_take(&nic->core.lock);
	list_for(n, &nic->core.contexts)
	{
		what |= device_say(container_of(n, struct context, node)->dev);
	}
	lock_give(&nic->core.lock);
	return what;
}

static void set_ports(struct nic *nic, bool up)
{
	(void)ask_ports(nic, up ? DEVICE_UP : DEVICE_DOWN);
	raise_everywhere(nic, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

/* The ports say again what they are: those that change raise the event. */
static void let_ports_go(struct nic *nic, const struct upset_spec *spec)
{
	unsigned what;

	for (unsigned i = 0; i < spec->n; i++)
		if (spec->rule[i].kind == UPSET_PORT)
			return;
	what = ask_ports(nic, DEVICE_OWN);
	if (what & (PORT_UP | PORT_DOWN))
		raise_everywhere(nic, what & PORT_UP ? IBV_EVENT_PORT_ACTIVE
						     : IBV_EVENT_PORT_ERR);
}

static void do_now(struct nic *nic, const struct upset_rule *r, uint64_t now)
{
	switch (r->kind) {
	case UPSET_ASYNC:
		if (r->qpn)
			raise_of_qp(nic, r, now);
		else
			raise_everywhere(nic, r->code);
		break;
	case UPSET_PORT:
		set_ports(nic, r->code);
		break;
	case UPSET_FAIL:
	case UPSET_WC:
		break;
	}
}

/* --- setting and showing --------------------------------------------------------------
 */

void upset_set(struct nic *nic, const struct upset_spec *spec, uint64_t now)
{
	static struct upset on = { refuses, begin_context, attach_qp, attach_cq };
	bool lasts = false;

	for (unsigned i = 0; i < spec->n; i++)
		lasts |= spec->rule[i].kind == UPSET_FAIL ||
			 spec->rule[i].kind == UPSET_WC || spec->rule[i].at_open;
	lock_take(&rules_lock);
	rules = *spec;
	lock_give(&rules_lock);
	if (lasts) {
		atomic_store(&upset, &on);
		each_context(nic, attach_context);
		each_queue(&on);
	} else if (atomic_load(&upset)) {
		atomic_store(&upset, NULL);
		each_context(nic, detach_context);
		each_queue(NULL);
	}
	let_ports_go(nic, spec);
	for (unsigned i = 0; i < spec->n; i++)
		do_now(nic, &spec->rule[i], now);
}

void upset_start(struct nic *nic, const struct upset_spec *spec)
{
	struct upset_spec from_start = *spec;

	for (unsigned i = 0; i < spec->n; i++)
		from_start.rule[i].at_open =
			spec->rule[i].kind == UPSET_ASYNC && !spec->rule[i].qpn;
	upset_set(nic, &from_start, 0);
}

void upset_end(void)
{
	lock_take(&rules_lock);
	rules.n = 0;
	lock_give(&rules_lock);
	atomic_store(&upset, NULL);
	device_ask(DEVICE_OWN);
}

/* The state is only looked at: whoever changes it has the turn. */
static int check_event(struct nic *nic, const struct upset_rule *r, char *err,
		       size_t errlen)
{
	const struct qp *qp;

	turn_is_held(&nic->core);
	qp = qp_find(&nic->core, r->qpn);
	if (!qp)
		snprintf(err, errlen, "there is no QP 0x%06x", r->qpn);
	else if (!leaves_state(r->code) ||
		 (qp->state != IBV_QPS_RESET && qp->state != IBV_QPS_ERR))
		return 0;
	else
		snprintf(err, errlen, "QP 0x%06x is in %s, where it does not fail",
			 r->qpn, qp_state_name(qp->state));
	return -EINVAL;
}

int upset_check(struct nic *nic, const struct upset_spec *spec, char *err, size_t errlen)
{
	int rc = 0;

	for (unsigned i = 0; i < spec->n && !rc; i++)
		if (spec->rule[i].kind == UPSET_ASYNC && spec->rule[i].qpn)
			rc = check_event(nic, &spec->rule[i], err, errlen);
	return rc;
}

void upset_forked(void)
{
	lock_init(&rules_lock);
}

void upset_show(FILE *out)
{
	lock_take(&rules_lock);
	for (unsigned i = 0; i < rules.n; i++) {
		const struct upset_rule *r = &rules.rule[i];

		if (r->kind == UPSET_FAIL || r->kind == UPSET_WC)
			fprintf(out,
				"verbs: of %" PRIu64 " %s %" PRIu64
				" failed as asked for\n",
				r->seen, r->kind == UPSET_FAIL ? "calls" : "completions",
				r->hits);
	}
	lock_give(&rules_lock);
}
