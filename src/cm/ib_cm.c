/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_cm.c - how a connection is made: REQ, MRA, REP, RTU, REJ (IBTA vol. 1, 12.9).
 * ib_request.c handles a REQ, ib_end.c the end of a connection.
 *
 * The table at the end has a handler for each message and state of the connection; where
 * it has none, the message is counted and dropped. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "net/dgram.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/device.h"
#include "wire/cm_ip.h"

/* --- the active side ----------------------------------------------------- */

/* Fills in the fields that REQ and REP share. */
static void say_param(struct cm_msg *m, const struct cm_param *p)
{
	m->ca_guid = p->ca_guid;
	m->attr_mod = p->ece_options;
	m->vendor_id = p->ece_vendor;
	m->qkey = p->qkey;
	m->qpn = p->qpn;
	m->psn = p->psn;
	m->resources = p->resources;
	m->depth = p->depth;
	m->flow_control = p->flow_control & 1;
	m->rnr_retry = p->rnr_retry & 7;
	m->srq = p->srq & 1;
}

static struct cm_msg build_req(struct conn *c, const struct cm_target *to,
			       const struct cm_param *p)
{
	struct cm_msg m = conn_msg(c, CM_REQ);

	m.service_id = c->service_id;
	say_param(&m, p);
	m.remote_timeout = m.local_timeout = RESPONSE_TIMEOUT;
	m.service_type = p->service_type & 3;
	m.ext_service_type = p->service_type == CM_XRC;
	m.retry_count = p->retry_count & 7;
	m.pkey = gsi_pkey(c->cm, &to->route);
	m.mtu = c->mtu = to->mtu;
	m.max_cm_retries = MAX_RETRIES;
	m.path = (struct cm_path){
		.slid = to->route.dlid ? device_lid(c->cm->ib->gsi.dev) : 0xffff,
		.dlid = to->route.dlid ? to->route.dlid : 0xffff,
		.hop_limit = to->route.dlid ? 1 : 64,
		.subnet_local = to->route.dlid != 0,
		.rate = to->rate,
		.sl = to->route.sl,
		.tclass = to->route.tclass,
		.ack_timeout = p->ack_timeout,
		.flow_label = (to->src_port * 31u + to->dst_port) & 0xfffff,
	};
	memcpy(m.path.sgid, to->route.src, 16);
	memcpy(m.path.dgid, to->route.dst, 16);
	conn_say_ip(&m, to, p);
	return m;
}

static int ibcm_connect(struct cm *cm, const struct cm_target *to,
			const struct cm_param *p, struct cm_owner *owner,
			struct cm_conn **out, uint64_t now)
{
	enum cm_type type = to->datagram ? CM_SIDR_REQ : CM_REQ;
	struct cm_msg m;
	struct conn *c;

	if (p->private_len > cm_private_len(type) - conn_skip(to))
		return -EINVAL;
	if (conn_reserve(cm, cm->reserved + 1))
		return -ENOMEM;
	c = conn_new(cm);
	if (!c)
		return -ENOMEM;
	c->base.owner = owner;
	c->route = to->route;
	c->datagram = to->datagram;
	c->service_id =
		to->native ? to->service_id : cm_service_id(to->space, to->dst_port);
	c->local_qpn = p->qpn;
	c->local_guid = p->ca_guid;
	c->ack_timeout = p->ack_timeout;
	*out = &c->base;
	if (to->datagram)
		return sidr_connect(c, to, p, now);
	m = build_req(c, to, p);
	send_until_answered(c, &m, RESPONSE_TIMEOUT, MAX_RETRIES, now);
	conn_become(c, ST_REQ_SENT);
	return 0;
}

static void on_rep(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	struct cm_param p;

	(void)now;
	param_of(m, 0, &p);
	p.mtu = c->mtu;
	if (!conn_tell(c, CM_EV_RESPONSE, 0, &p))
		return;
	answered(c);
	c->remote_id = m->local_id;
	c->remote_qpn = m->qpn;
	c->remote_guid = m->ca_guid;
	conn_hash_qp(c);
	conn_become(c, ST_REP_RCVD);
}

/* The peer repeats its REP: our RTU is on its way or lost, or our program is not
 * ready. */
static void on_rep_again(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	struct cm_msg mra = conn_msg(c, CM_MRA);

	(void)m;
	(void)now;
	c->cm->counter[CM_RX_DUPLICATE]++;
	if (c->state == ST_ESTABLISHED && !c->passive) {
		send_again(c);
	} else if (c->state == ST_REP_RCVD) {
		mra.about = CM_ABOUT_REP;
		mra.service_timeout = SERVICE_TIMEOUT;
		send_mad(c->cm, &c->route, &mra);
	}
}

int ibcm_established(struct cm_conn *base, uint64_t now)
{
	struct conn *c = conn_of(base);
	struct cm_msg m = conn_msg(c, CM_RTU);

	if (c->state == ST_REP_SENT) {
		if (!conn_tell(c, CM_EV_ESTABLISHED, 0, NULL))
			return -ENOMEM;
		answered(c);
		conn_become(c, ST_ESTABLISHED);
		(void)conn_watch(c, now);
		return 0;
	}
	if (c->state != ST_REP_RCVD)
		return -EINVAL;
	send_kept(c, &m);
	conn_become(c, ST_ESTABLISHED);
	(void)conn_watch(c, now);
	return 0;
}

/* --- the passive side ---------------------------------------------------- */

static int ibcm_accept(struct cm_conn *base, const struct cm_param *p, uint64_t now)
{
	struct conn *c = conn_of(base);
	struct cm_msg m = conn_msg(c, CM_REP);

	if (c->state == ST_SIDR_RCVD)
		return sidr_reply(c, p, CM_SIDR_OK, now);
	if (c->state != ST_REQ_RCVD || p->private_len > cm_private_len(CM_REP))
		return -EINVAL;
	c->local_qpn = p->qpn;
	say_param(&m, p);
	m.ack_delay = p->ack_timeout & 31;
	conn_private(&m, p->private, p->private_len);
	send_until_answered(c, &m, c->peer_timeout, c->peer_retries, now);
	conn_become(c, ST_REP_SENT);
	return 0;
}

static int ibcm_reject(struct cm_conn *base, uint16_t reason, const void *private,
		       size_t len, uint64_t now)
{
	struct conn *c = conn_of(base);
	struct cm_param p = { .private = private, .private_len = len };
	enum cm_about about = CM_ABOUT_NONE;
	struct cm_msg m;

	if (c->state == ST_SIDR_RCVD)
		return sidr_reply(c, &p, CM_SIDR_REJECT, now);
	if (len > cm_private_len(CM_REJ))
		return -EINVAL;
	switch (c->state) {
	case ST_REQ_RCVD:
		about = CM_ABOUT_REQ;
		break;
	case ST_REP_RCVD:
		about = CM_ABOUT_REP;
		break;
	case ST_REP_SENT:
		break;
	case ST_FREE:
	case ST_IDLE:
	case ST_REQ_SENT:
	case ST_ESTABLISHED:
	case ST_DREQ_SENT:
	case ST_DREQ_RCVD:
	case ST_TIMEWAIT:
	case ST_SIDR_SENT:
	case ST_SIDR_RCVD:
	case ST_ANSWERED:
	case CONN_STATES:
		return -EINVAL;
	}
	m = conn_rej(c, about, reason, private, len);
	send_mad(c->cm, &c->route, &m);
	if (!c->passive) {
		conn_become(c, ST_IDLE);
		return 0;
	}
	m.about = CM_ABOUT_REQ; /* of which a copy may come */
	cm_mad_build(c->mad, &m);
	conn_answered(c, now);
	return 0;
}

static void on_rtu(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	(void)m;
	(void)ibcm_established(&c->base, now);
}

/* --- both sides ---------------------------------------------------------- */

static void on_mra(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	enum cm_about about = c->state == ST_REP_SENT ? CM_ABOUT_REP : CM_ABOUT_REQ;

	if (m->about != about)
		c->cm->counter[CM_RX_STATE]++;
	else
		put_off(c, m->service_timeout, now);
}

/* The peer's port carries less than our REQ asks for, and the REJ says how much. Asks for
 * that in a new REQ: a copy of the old one, or of its REJ, has another TID. Returns false
 * if the REJ says nothing that helps; each REQ asks for less than the last. */
static bool ask_for_less(struct conn *c, const struct cm_msg *rej, uint64_t now)
{
	const uint8_t mtu = rej->info_len ? rej->info[0] : 0;
	char peer[INET6_ADDRSTRLEN];
	struct cm_msg m;

	if (c->state != ST_REQ_SENT || rej->reason != CM_REJ_INVALID_MTU ||
	    mtu < IBV_MTU_256 || mtu >= c->mtu || cm_mad_parse(&m, c->mad, MAD_LEN))
		return false;
	log_info("connection 0x%08x to %s: the peer's port carries packets of %u bytes, "
		 "ours of %u; the connection gets the smaller",
		 c->local_id, addr_text(c->route.dst, peer), mtu_bytes(mtu),
		 mtu_bytes(c->mtu));
	m.mtu = c->mtu = mtu;
	m.tid = c->tid = conn_tid(c);
	send_until_answered(c, &m, RESPONSE_TIMEOUT, MAX_RETRIES, now);
	return true;
}

/* Reports the rejection before c ends, since ending may free c. */
static void on_rej(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	struct cm_param p;

	if (c->state == ST_ESTABLISHED && m->reason == CM_REJ_INVALID_ID) {
		/* peer.c asked whether the peer still has c. If the owner has no memory
		 * for this event, peer.c asks again. */
		peer_process_gone(c, now);
		(void)ibcm_disconnected(c, now);
		return;
	}
	if (ask_for_less(c, m, now))
		return;
	param_of(m, 0, &p);
	if (!conn_tell(c, CM_EV_REJECTED, m->reason, &p))
		return;
	answered(c);
	if (c->state == ST_ESTABLISHED)
		conn_timewait(c, now);
	else
		conn_become(c, ST_IDLE);
}

static void on_late(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	(void)m;
	(void)now;
	c->cm->counter[CM_RX_DUPLICATE]++;
}

typedef void handler(struct conn *c, const struct cm_msg *m, uint64_t now);

static handler *const table[CM_TYPES][CONN_STATES] = {
	[CM_MRA] = {
		[ST_REQ_SENT] = on_mra, [ST_REP_SENT] = on_mra,
	},
	[CM_REJ] = {
		[ST_REQ_SENT] = on_rej, [ST_REP_RCVD] = on_rej,
		[ST_REQ_RCVD] = on_rej, [ST_REP_SENT] = on_rej,
		[ST_ESTABLISHED] = on_rej, [ST_DREQ_SENT] = on_drep,
	},
	[CM_REP] = {
		[ST_REQ_SENT] = on_rep, [ST_REP_RCVD] = on_rep_again,
		[ST_ESTABLISHED] = on_rep_again, [ST_DREQ_SENT] = on_late,
		[ST_DREQ_RCVD] = on_late, [ST_TIMEWAIT] = on_late,
	},
	[CM_RTU] = {
		[ST_REP_SENT] = on_rtu, [ST_ESTABLISHED] = on_late,
		[ST_DREQ_SENT] = on_late, [ST_DREQ_RCVD] = on_late, [ST_TIMEWAIT] = on_late,
	},
	[CM_DREQ] = {
		[ST_REP_SENT] = on_early_dreq, [ST_ESTABLISHED] = on_dreq,
		[ST_DREQ_SENT] = on_dreq, [ST_DREQ_RCVD] = on_late,
		[ST_TIMEWAIT] = on_dreq,
	},
	[CM_DREP] = {
		[ST_DREQ_SENT] = on_drep, [ST_TIMEWAIT] = on_late,
	},
	[CM_SIDR_REP] = {
		[ST_SIDR_SENT] = on_sidr_rep,
	},
};

/* No process at the peer's host will answer c. Acts as if the message had come that the
 * host's kernel would send if it did connection management. */
void ibcm_nobody(struct conn *c, uint64_t now)
{
	struct cm_msg m = {
		.type = c->datagram ? CM_SIDR_REP : CM_REJ,
		.reason = c->datagram		    ? CM_SIDR_UNSUPPORTED
			  : c->state == ST_REQ_SENT ? CM_REJ_INVALID_SERVICE
						    : CM_REJ_INVALID_ID,
	};

	if (c->state == ST_ESTABLISHED)
		(void)ibcm_disconnected(c, now);
	else
		table[m.type][c->state](c, &m, now);
}

/* Is m, which names c's ID, from c's peer, and not from an earlier peer? */
static bool from_peer(const struct conn *c, const struct cm_route *route,
		      const struct cm_msg *m)
{
	if (memcmp(c->route.dst, route->dst, 16) || memcmp(c->route.src, route->src, 16))
		return false;
	/* While the peer's ID is not known, its answer is known by the TID. */
	if (c->state == ST_REQ_SENT || c->state == ST_SIDR_SENT || !m->remote_id)
		return m->tid == c->tid;
	return m->local_id == c->remote_id;
}

bool ibcm_message(struct cm *cm, const struct cm_route *route, const struct cm_msg *m,
		  uint64_t now)
{
	struct conn *c;

	/* A peer that gave up before it knew our ID names only its own. */
	if (m->type == CM_REJ && !m->remote_id)
		c = conn_find_request(cm, route, m->local_id, false, m->tid);
	else
		c = conn_find(cm, m->remote_id);
	/* A connection that has ended exists only for its owner, and for copies of its
	 * request; other messages do not find it. */
	if (!c || c->state == ST_IDLE || c->state == ST_ANSWERED ||
	    !from_peer(c, route, m))
		return false;
	if (table[m->type][c->state])
		table[m->type][c->state](c, m, now);
	else
		cm->counter[CM_RX_STATE]++;
	return true;
}

void conn_timer(struct conn *c, uint64_t now)
{
	char peer[INET6_ADDRSTRLEN];

	switch (c->state) {
	case ST_TIMEWAIT:
		(void)conn_tell(c, CM_EV_TIMEWAIT_EXIT, 0, NULL);
		conn_become(c, ST_IDLE);
		return;
	case ST_ANSWERED:
		c->cm->answered--;
		conn_become(c, ST_IDLE);
		return;
	case ST_ESTABLISHED:
	case ST_DREQ_RCVD:
		conn_look(c, now);
		return;
	case ST_DREQ_SENT:
		if (c->near && !conn_watch(c, now))
			return;
		/* fall through */
	case ST_REQ_SENT:
	case ST_REP_SENT:
	case ST_SIDR_SENT:
		if (retry_run(c, now))
			return;
		break;
	case ST_FREE:
	case ST_IDLE:
	case ST_REP_RCVD:
	case ST_REQ_RCVD:
	case ST_SIDR_RCVD:
	case CONN_STATES:
		answered(c);
		return;
	}
	c->cm->counter[CM_TIMEOUT]++;
	if (cm_may_tell(c->cm, CM_TIMEOUT))
		log_info(
			"connection 0x%08x to %s: no answer after all retries: is "
			"there a RoCE device at that address, and is its UDP port 4791 open?",
			c->local_id, addr_text(c->route.dst, peer));
	if (c->state == ST_DREQ_SENT) {
		(void)conn_tell(c, CM_EV_DISCONNECTED, -ETIMEDOUT, NULL);
		conn_timewait(c, now);
		return;
	}
	if (c->state != ST_SIDR_SENT)
		conn_reject(c, c->state == ST_REQ_SENT ? CM_ABOUT_REQ : CM_ABOUT_REP,
			    CM_REJ_TIMEOUT, NULL, 0);
	(void)conn_tell(c, CM_EV_UNREACHABLE, -ETIMEDOUT, NULL);
	conn_become(c, ST_IDLE);
}

const struct cm_proto cm_ib_proto = {
	.name = "ib",
	.connect = ibcm_connect,
	.accept = ibcm_accept,
	.reject = ibcm_reject,
	.established = ibcm_established,
	.disconnect = ibcm_disconnect,
	.close = ibcm_close,
};
