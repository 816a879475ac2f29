/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_request.c - what the passive side does with a REQ or SIDR_REQ, and the REJ. */
#include "cm/cm_int.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/device.h"

struct cm_msg conn_rej(const struct conn *c, enum cm_about about, uint16_t reason,
		       const void *private, size_t len)
{
	struct cm_msg m = conn_msg(c, CM_REJ);

	m.about = (uint8_t)about;
	m.reason = reason;
	conn_private(&m, private, len);
	if (reason == CM_REJ_TIMEOUT) {
		/* 12.6.7.2: our CA GUID, by which a peer whose ID we do not know finds
		 * its connection. */
		m.info_len = 8;
		for (unsigned i = 0; i < m.info_len; i++)
			m.info[i] = (uint8_t)(c->local_guid >> (56 - 8 * i));
	}
	return m;
}

void conn_reject(struct conn *c, enum cm_about about, uint16_t reason,
		 const void *private, size_t len)
{
	const struct cm_msg m = conn_rej(c, about, reason, private, len);

	send_mad(c->cm, &c->route, &m);
}

void conn_answered(struct conn *c, uint64_t now)
{
	if (c->cm->answered == ANSWERS_MAX) {
		conn_become(c, ST_IDLE);
		return;
	}
	c->cm->answered++;
	conn_become(c, ST_ANSWERED);
	(void)heap_set(&c->cm->timers, &c->timer, now + cm_interval(ANSWER_KEPT));
}

/* Copies into c what the request m says of its sender (12.9.7.1). */
static void take_params(struct conn *c, const struct cm_target *from,
			const struct cm_msg *m)
{
	c->passive = true;
	c->datagram = m->type == CM_SIDR_REQ;
	c->route = from->route;
	c->remote_id = m->local_id;
	c->remote_qpn = m->qpn;
	c->remote_guid = m->ca_guid;
	c->service_id = m->service_id;
	c->tid = m->tid;
	c->ack_timeout = m->path.ack_timeout;
	c->peer_timeout = m->local_timeout;
	c->peer_retries = m->max_cm_retries;
	conn_hash(c);
	if (!c->datagram)
		conn_hash_qp(c);
}

/* Returns the REJ to a REQ for which no connection is made. */
static struct cm_msg refusal(const struct cm_msg *req, enum cm_reason reason)
{
	return (struct cm_msg){
		.type = CM_REJ,
		.tid = req->tid,
		.remote_id = req->local_id,
		.about = CM_ABOUT_REQ,
		.reason = (uint16_t)reason,
	};
}

/* Does the REQ come from a QP, or with an ID, that we believe to be connected? Then the
 * old connection is over, though the new one is refused for now (12.9.8.3). If the peer
 * is of this host, any user may have sent the REQ: so the old connection's peer is asked
 * first whether it still has it. */
static bool is_stale(struct cm *cm, const struct cm_target *from, const struct cm_msg *m,
		     uint64_t now)
{
	struct conn *old =
		m->type == CM_REQ ? conn_find_stale(cm, &from->route, m) : NULL;
	const struct cm_msg rej = refusal(m, CM_REJ_STALE);
	char peer[INET6_ADDRSTRLEN];

	if (!old)
		return false;
	cm->counter[CM_RX_STALE]++;
	if (cm_may_tell(cm, CM_RX_STALE))
		log_info("REQ refused: the peer's QP 0x%06x at %s, ID 0x%08x, has a "
			 "connection to this process already, which ends %s",
			 m->qpn, addr_text(from->route.dst, peer), m->local_id,
			 old->near ? "unless the peer's process still has it" : "now");
	send_mad(cm, &from->route, &rej);
	if (old->state == ST_ESTABLISHED && !conn_doubt(old, now))
		ibcm_disconnect(&old->base, now);
	return true;
}

/* Does the REQ ask for packets that are longer than our port carries? The REJ then says
 * what it carries, and the peer asks for that. Within a host any MTU works; on InfiniBand
 * the peer's path says what does. */
static bool is_too_long(struct cm *cm, const struct cm_target *from,
			const struct cm_msg *m)
{
	struct cm_msg rej = refusal(m, CM_REJ_INVALID_MTU);
	char peer[INET6_ADDRSTRLEN];
	uint8_t ours = 0;

	if (m->type != CM_REQ)
		return false;
	if (cm->site && cm->site->mtu && !from->route.dlid &&
	    !route_is_local(cm, &from->route))
		ours = cm->site->mtu(cm->core, from->route.src, from->route.ifindex);
	if (!ours)
		ours = IBV_MTU_4096; /* a REQ may say what no QP can have */
	if (m->mtu <= ours)
		return false;
	cm->counter[CM_RX_MTU]++;
	if (cm_may_tell(cm, CM_RX_MTU))
		log_info(
			"REQ of QP 0x%06x at %s refused: it asks for path MTU %u, and our port "
			"carries no more than %u; the peer may ask again for that",
			m->qpn, addr_text(from->route.dst, peer), mtu_bytes(m->mtu),
			mtu_bytes(ours));
	rej.info_len = 1; /* 12.6.7.2 */
	rej.info[0] = ours;
	send_mad(cm, &from->route, &rej);
	return true;
}

void ibcm_request(struct cm_listener *l, const struct cm_target *from,
		  const struct cm_msg *m, uint64_t now)
{
	struct cm_event ev = { .type = CM_EV_REQUEST, .from = from };
	struct cm *cm = l->cm;
	char peer[INET6_ADDRSTRLEN];
	struct cm_param p;
	struct conn *c;

	/* In this order: a late copy of a REQ that was too long does not end the
	 * connection that the next one has made. */
	if (is_too_long(cm, from, m) || is_stale(cm, from, m, now))
		return;
	c = listener_take(l);
	if (!c) {
		cm->counter[CM_RX_BACKLOG]++;
		if (cm_may_tell(cm, CM_RX_BACKLOG))
			log_info(
				"%s from %s for port %u dropped: %u requests wait for the "
				"program",
				cm_type_name(m->type), addr_text(from->route.dst, peer),
				from->src_port, l->pending);
		return;
	}
	take_params(c, from, m);
	c->listener = l;
	l->pending++;
	via_set(c, l);
	conn_become(c, m->type == CM_REQ ? ST_REQ_RCVD : ST_SIDR_RCVD);
	param_of(m, conn_skip(from), &p);
	ev.conn = &c->base;
	ev.peer = &p;
	if (l->owner->event(l->owner, &ev))
		return;
	cm->counter[CM_RX_BACKLOG]++;
	l->pending--;
	c->listener = NULL;
	c->held = false;
	conn_become(c, ST_IDLE);
}

bool ibcm_known_request(struct cm *cm, const struct cm_route *route,
			const struct cm_msg *m, uint64_t now)
{
	struct conn *c =
		conn_find_request(cm, route, m->local_id, m->type == CM_SIDR_REQ, m->tid);
	struct cm_msg mra;

	(void)now;
	if (!c || c->remote_qpn != m->qpn)
		return false;
	cm->counter[CM_RX_DUPLICATE]++;
	switch (c->state) {
	case ST_REQ_RCVD:
		mra = conn_msg(c, CM_MRA);
		mra.about = CM_ABOUT_REQ;
		mra.service_timeout = SERVICE_TIMEOUT;
		send_mad(cm, &c->route, &mra);
		break;
	case ST_REP_SENT:
	case ST_ANSWERED:
		send_again(c);
		break;
	case ST_DREQ_SENT:
	case ST_TIMEWAIT:
		/* We accepted and ended the connection, but our REP was lost. */
		conn_reject(c, CM_ABOUT_REQ, CM_REJ_CONSUMER, NULL, 0);
		break;
	case ST_FREE:
	case ST_IDLE:
	case ST_REQ_SENT:
	case ST_REP_RCVD:
	case ST_ESTABLISHED:
	case ST_DREQ_RCVD:
	case ST_SIDR_SENT:
	case ST_SIDR_RCVD:
	case CONN_STATES:
		break;
	}
	return true;
}
