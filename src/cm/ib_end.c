/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_end.c - how a connection ends: DREQ, DREP, timewait (IBTA vol. 1, 12.9.7), and what
 * happens to a connection whose owner lets go of it. */
#include <errno.h>

#include "cm/cm_int.h"

/* Waits until no packet of c can be on its way any more. */
void conn_timewait(struct conn *c, uint64_t now)
{
	uint8_t n = c->ack_timeout < TIMEWAIT_MAX ? c->ack_timeout : TIMEWAIT_MAX;

	conn_become(c, ST_TIMEWAIT);
	(void)heap_set(&c->cm->timers, &c->timer, now + cm_interval(n));
}

static void send_drep(struct conn *c, uint64_t tid)
{
	struct cm_msg m = conn_msg(c, CM_DREP);

	m.tid = tid;
	send_mad(c->cm, &c->route, &m);
}

/* Does the DREQ name our QP of this connection? */
static bool names_our_qp(struct conn *c, const struct cm_msg *m)
{
	if (!c->local_qpn || m->qpn == c->local_qpn)
		return true;
	c->cm->counter[CM_RX_STATE]++;
	return false;
}

/* The peer ends the connection before its RTU came, so that RTU was lost. */
void on_early_dreq(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	if (!names_our_qp(c, m))
		return;
	if (!ibcm_established(&c->base, now))
		on_dreq(c, m, now);
}

void on_dreq(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	if (!names_our_qp(c, m))
		return;
	switch (c->state) {
	case ST_ESTABLISHED:
		if (!conn_tell(c, CM_EV_DISCONNECTED, 0, NULL))
			break;
		c->dreq_tid = m->tid;
		if (!c->near)
			answered(c); /* no need to ask whether the peer lives */
		conn_become(c, ST_DREQ_RCVD);
		break;
	case ST_DREQ_SENT: /* both ends sent DREQ at the same time */
		send_drep(c, m->tid);
		on_drep(c, m, now);
		break;
	case ST_TIMEWAIT: /* our DREP was lost */
		c->cm->counter[CM_RX_DUPLICATE]++;
		send_drep(c, m->tid);
		break;
	case ST_FREE:
	case ST_IDLE:
	case ST_REQ_SENT:
	case ST_REP_RCVD:
	case ST_REQ_RCVD:
	case ST_REP_SENT:
	case ST_DREQ_RCVD:
	case ST_SIDR_SENT:
	case ST_SIDR_RCVD:
	case ST_ANSWERED:
	case CONN_STATES:
		break;
	}
}

void on_drep(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	(void)m;
	if (!conn_tell(c, CM_EV_DISCONNECTED, 0, NULL))
		return;
	answered(c);
	conn_timewait(c, now);
}

int ibcm_disconnect(struct cm_conn *base, uint64_t now)
{
	struct conn *c = conn_of(base);
	struct cm_msg m;

	switch (c->state) {
	case ST_REP_SENT: /* the RTU may be lost, see 12.9.7.1 */
		answered(c);
		/* fall through */
	case ST_ESTABLISHED:
		m = conn_msg(c, CM_DREQ);
		m.qpn = c->remote_qpn;
		send_until_answered(c, &m, RESPONSE_TIMEOUT, MAX_RETRIES, now);
		conn_become(c, ST_DREQ_SENT);
		return 0;
	case ST_DREQ_RCVD:
		send_drep(c, c->dreq_tid);
		conn_timewait(c, now);
		return 0;
	case ST_FREE:
	case ST_IDLE:
	case ST_REQ_SENT:
	case ST_REP_RCVD:
	case ST_REQ_RCVD:
	case ST_DREQ_SENT:
	case ST_TIMEWAIT:
	case ST_SIDR_SENT:
	case ST_SIDR_RCVD:
	case ST_ANSWERED:
	case CONN_STATES:
		break;
	}
	return -EINVAL;
}

/* Sends a DREQ without waiting for its answer, in case the peer lives after all. */
static void send_dreq_once(struct conn *c)
{
	struct cm_msg m = conn_msg(c, CM_DREQ);

	m.qpn = c->remote_qpn;
	send_mad(c->cm, &c->route, &m);
}

bool ibcm_disconnected(struct conn *c, uint64_t now)
{
	switch (c->state) {
	case ST_ESTABLISHED:
	case ST_DREQ_SENT:
		if (!conn_tell(c, CM_EV_DISCONNECTED, 0, NULL))
			return false;
		if (c->state == ST_ESTABLISHED)
			send_dreq_once(c);
		answered(c);
		conn_timewait(c, now);
		break;
	case ST_DREQ_RCVD:
		conn_timewait(c, now);
		break;
	case ST_FREE:
	case ST_IDLE:
	case ST_REQ_SENT:
	case ST_REP_RCVD:
	case ST_REQ_RCVD:
	case ST_REP_SENT:
	case ST_TIMEWAIT:
	case ST_SIDR_SENT:
	case ST_SIDR_RCVD:
	case ST_ANSWERED:
	case CONN_STATES:
		break;
	}
	return true;
}

/* The owner gets no more events. The peer is told what it has to know. */
void ibcm_close(struct cm_conn *base, uint64_t now)
{
	struct conn *c = conn_of(base);
	const struct cm_proto *proto = base->proto;

	if (c->listener) {
		c->listener->pending--;
		c->listener = NULL;
	}
	base->owner = NULL;
	c->held = false;
	switch (c->state) {
	case ST_REQ_SENT:
		c->retries = 0;
		c->quick = 0;
		c->full_at = now;
		conn_timer(c, now); /* as after the last try: sends REJ (timeout) */
		break;
	case ST_REQ_RCVD:
	case ST_REP_RCVD:
	case ST_REP_SENT:
	case ST_SIDR_RCVD:
		(void)proto->reject(base, CM_REJ_CONSUMER, NULL, 0, now);
		break;
	case ST_ESTABLISHED:
	case ST_DREQ_RCVD:
		(void)ibcm_disconnect(base, now);
		break;
	case ST_IDLE:
	case ST_SIDR_SENT:
		conn_become(c, ST_IDLE);
		break;
	case ST_FREE:
	case ST_DREQ_SENT:
	case ST_TIMEWAIT:
	case ST_ANSWERED:
	case CONN_STATES:
		break;
	}
}
