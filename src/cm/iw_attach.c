/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_attach.c - gives a connection that is set up to its QP, and handles what the
 * transport then notes about it. */
#include <errno.h>
#include <string.h>

#include "cm/iw_int.h"
#include "verbs/core.h"
#include "verbs/qp.h"

int iwc_check_qp(struct cm *cm, uint32_t qpn)
{
	struct qp *qp;
	bool fits;

	turn_is_held(cm->core);
	qp = qp_find(cm->core, qpn);
	if (!qp)
		return -EINVAL;
	lock_take(&qp->lock);
	fits = qp->transport == &iwarp_transport && qp->state == IBV_QPS_INIT;
	lock_give(&qp->lock);
	return fits ? 0 : -EINVAL;
}

/* --- called by the transport: the turn and the QP's lock are held -------- */

static void queue_note(struct iwc *c)
{
	struct cm *cm = c->cm;

	if (!list_empty(&c->noted))
		return;
	list_add_tail(&cm->iw->noted, &c->noted);
	source_sooner(&cm->source, 0);
	if (cm->site && cm->site->kick)
		cm->site->kick(cm->core);
}

static void on_ready(void *arg)
{
	struct iwc *c = arg;

	c->ready = true;
	queue_note(c);
}

static void on_ended(void *arg, enum iw_end how)
{
	struct iwc *c = arg;

	c->ended = true;
	c->how = how;
	c->qp = NULL;
	queue_note(c);
}

static const struct iwarp_user user = { on_ready, on_ended };

/* --- events that follow -------------------------------------------------- */

static void establish(struct iwc *c)
{
	iwc_timer(c, NEVER);
	c->state = IWC_CONNECTED;
	if (c->passive)
		iwc_tell(c, CM_EV_ESTABLISHED, 0, NULL);
}

/* An end that we asked for is no failure, even if the connection was not established
 * yet. */
void iwc_told_end(struct iwc *c)
{
	if (c->failed)
		iwc_tell(c, CM_EV_UNREACHABLE, c->failed, NULL);
	else if (c->state == IWC_CONNECTED || c->how == IW_END_US)
		iwc_tell(c, CM_EV_DISCONNECTED, 0, NULL);
	else
		iwc_tell(c, CM_EV_FAILED, -ECONNRESET, NULL);
	iwc_over(c);
}

void iwc_noted(struct iwc *c, uint64_t now)
{
	if (c->ready && c->state == IWC_ATTACHED)
		establish(c);
	if (!c->ended || c->state == IWC_OVER)
		iwc_put(c);
	else if (list_empty(&c->later))
		iwc_later(c, now);
}

void iwc_detach(struct iwc *c, uint64_t now)
{
	struct qp *qp = c->qp;

	if (!qp)
		return;
	lock_take(&qp->lock);
	iwarp_disconnect(qp, now);
	lock_give(&qp->lock);
}

/* --- attaching ----------------------------------------------------------- */

/* If an RTR was agreed on, the RTR tells the responder that the initiator is ready. If
 * not, the responder assumes so at once, as other implementations do. */
static void attached(struct iwc *c, uint64_t now)
{
	c->connected = true;
	c->state = IWC_ATTACHED;
	if (!c->passive || c->setup.agreed.rtr == MPA_RTR_NONE)
		establish(c);
	else
		iwc_timer(c, now + IWC_RTR_NS);
	iwc_noted(c, now); /* the QP may have ended within iwarp_attach() */
}

int iwc_attach(struct cm_conn *base, uint64_t now)
{
	struct iwc *c = iwc_of(base);
	struct iw_params p = c->setup.agreed;
	int rc;

	if (c->state != IWC_ANSWERED && c->state != IWC_ACCEPTED)
		return -EINVAL;
	(void)iw_watch(c->cm, &c->watch, 0);
	p.mss = c->stream->mss;
	memcpy(p.peer, c->to.route.dst, sizeof(p.peer));
	p.peer_port = c->to.dst_port;
	turn_is_held(c->cm->core);
	c->qp = qp_find(c->cm->core, c->qpn);
	rc = c->qp ? iwarp_attach(c->qp, c->stream, &p, &user, c, now) : -EINVAL;
	if (rc) {
		c->qp = NULL;
		iwc_over(c);
		return rc;
	}
	c->stream = NULL;
	c->watch.fd = -1;
	attached(c, now);
	return 0;
}
