/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_event.c - see cma_event.h. */
#include "rdmacm/cma_event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/group.h"
#include "rdmacm/resolve.h"
#include "sys/addr.h"
#include "sys/held.h"
#include "sys/log.h"

/* MPA may carry more private data than the API can report. */
static uint8_t private_len(const struct cma_event *e)
{
	return e->peer.private_len < 255 ? (uint8_t)e->peer.private_len : 255;
}

/* Swaps the peer's view: the READs that the peer takes are those that we may have
 * outstanding, and the other way round. */
static void fill_conn(struct cma_event *e)
{
	const struct cm_param *p = &e->peer;

	e->ev.param.conn = (struct rdma_conn_param){
		.private_data = p->private_len ? e->private : NULL,
		.private_data_len = private_len(e),
		.responder_resources = p->depth,
		.initiator_depth = p->resources,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry,
		.srq = p->srq,
		.qp_num = p->qpn,
	};
}

static void fill_ud(struct cma_event *e)
{
	struct rdma_ud_param *ud = &e->ev.param.ud;

	memset(&e->ev.param, 0, sizeof(e->ev.param));
	ud->private_data = e->peer.private_len ? e->private : NULL;
	ud->private_data_len = (uint8_t)e->peer.private_len;
	ud->qp_num = e->peer.qpn;
	ud->qkey = e->peer.qkey;
}

/* As a rule this process leaves out the device to whose address the request came. */
static void say_not_served(const struct cma_event *e, int rc)
{
	char peer[INET6_ADDRSTRLEN], self[INET6_ADDRSTRLEN];

	addr_text(e->from.dst_ip, peer);
	addr_text(e->from.route.src, self);
	if (rc == -ENODEV)
		log_hint(
			"rdma_cm: a request of %s for port %u finds no device: it came to the "
			"address %s, and this process has no device with that address: "
			"let client and server have the same devices (URNIC_DEVICES), "
			"or connect to an address of a device that the server has",
			peer, e->from.src_port, self);
	else
		log_hint("rdma_cm: a request of %s for port %u finds no id: %s", peer,
			 e->from.src_port, strerror(-rc));
}

/* Makes an id of a request. Returns false if there is nothing to report. */
static bool on_request(struct cma_event *e)
{
	struct cma_id *listener = cma_id_of(e);
	int rc;

	if (e->from.datagram)
		fill_ud(e);
	else
		fill_conn(e);
	e->ev.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	e->ev.listen_id = &listener->id;
	rc = cma_id_for_request(e);
	if (rc) {
		say_not_served(e, rc);
		cm_gate_close(listener->ctx, e->conn);
		return false;
	}
	return true;
}

/* Stores the peer's parameters. The peer may grant fewer resources than offered, not
 * more. */
static void take_params(struct cma_id *id, const struct cm_param *p)
{
	id->peer_qpn = p->qpn;
	id->peer_psn = p->psn;
	if (p->depth < id->resources)
		id->resources = p->depth;
	if (p->resources < id->depth)
		id->depth = p->resources;
	id->rnr_retry = p->rnr_retry;
	if (p->mtu)
		id->to.mtu = p->mtu;
	id->peer_ece =
		(struct ibv_ece){ .vendor_id = p->ece_vendor, .options = p->ece_options };
}

/* The peer accepts: gives the iWARP connection to the QP. */
static bool on_iwarp_response(struct cma_event *e)
{
	struct cma_id *id = cma_id_of(e);
	int rc = 0;

	fill_conn(e);
	take_params(id, &e->peer);
	cma_set_src_port(id, e->from.src_port);
	if (id->id.qp)
		rc = cma_qp_prepare(id);
	if (!rc)
		rc = cm_gate_attach(id->ctx, id->conn);
	e->ev.event = rc ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	e->ev.status = rc;
	if (rc)
		cm_gate_reject(id->ctx, id->conn, 0, NULL, 0);
	return true;
}

/* The peer accepts: takes the QP to RTS first, then tells the peer. */
static bool on_response(struct cma_event *e)
{
	struct cma_id *id = cma_id_of(e);
	int rc;

	fill_conn(e);
	take_params(id, &e->peer);
	if (!id->id.qp) {
		e->ev.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
		return true;
	}
	rc = cma_qp_connect(id);
	if (rc) {
		cm_gate_reject(id->ctx, id->conn, CM_REJ_CONSUMER, NULL, 0);
		e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
		e->ev.status = rc;
		return true;
	}
	e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
	/* If this fails, the peer has changed its mind, and the next event says how. */
	return cm_gate_established(id->ctx, id->conn) == 0;
}

static void on_established(struct cma_event *e)
{
	struct cma_id *id = cma_id_of(e);

	e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
	if (!cma_is_datagram(id))
		return;
	fill_ud(e);
	cma_fill_ah(id, id->to.route.dst, &e->ev.param.ud.ah_attr);
	id->peer_ece = (struct ibv_ece){ .vendor_id = e->peer.ece_vendor,
					 .options = e->peer.ece_options };
}

static void on_rejected(struct cma_event *e)
{
	e->ev.event = RDMA_CM_EVENT_REJECTED;
	e->ev.param.conn.private_data = e->peer.private_len ? e->private : NULL;
	e->ev.param.conn.private_data_len = private_len(e);
	cma_qp_error(cma_id_of(e));
}

static void on_unreachable(struct cma_event *e)
{
	e->ev.event = RDMA_CM_EVENT_UNREACHABLE;
	if (e->peer.private_len)
		fill_ud(e);
}

static bool on_path(struct cma_event *e)
{
	struct cma_id *id = cma_id_of(e);

	if (id->state != CMA_QUERY)
		return false;
	if (!e->ev.status)
		e->ev.status = cma_take_path(id, &e->path);
	id->state = e->ev.status ? CMA_ADDR : CMA_ROUTE;
	e->ev.event =
		e->ev.status ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED;
	return true;
}

/* Does what precedes the program's reading of e. Returns false if e is not for the
 * program. */
static bool process(struct cma_event *e)
{
	if (!e->raw) {
		if (e->group)
			cma_group_joined(e);
		return true;
	}
	switch (e->type) {
	case CM_EV_REQUEST:
		return on_request(e);
	case CM_EV_RESPONSE:
		return cma_is_iwarp(cma_id_of(e)) ? on_iwarp_response(e) : on_response(e);
	case CM_EV_ESTABLISHED:
		on_established(e);
		break;
	case CM_EV_REJECTED:
		on_rejected(e);
		break;
	case CM_EV_UNREACHABLE:
		on_unreachable(e);
		break;
	case CM_EV_PATH:
		return on_path(e);
	case CM_EV_GROUP: /* groups post their events themselves */
		return false;
	case CM_EV_FAILED:
		e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
		cma_qp_error(cma_id_of(e));
		break;
	case CM_EV_DISCONNECTED:
		e->ev.event = RDMA_CM_EVENT_DISCONNECTED;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		e->ev.event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
		break;
	}
	return true;
}

static bool is_failure(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_ADDR_ERROR || type == RDMA_CM_EVENT_ROUTE_ERROR ||
	       type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE ||
	       type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_MULTICAST_ERROR ||
	       type == RDMA_CM_EVENT_ADDRINFO_ERROR;
}

static void say_failure(struct cma_event *e)
{
	const struct cm_target *to = &cma_id_of(e)->to;
	char peer[INET6_ADDRSTRLEN];

	if (is_failure(e->ev.event))
		log_info("rdma_cm, %s, port %u: %s, error %d",
			 addr_text(to->dst_ip, peer), to->dst_port,
			 cma_event_name(e->ev.event), e->ev.status);
}

/* The channel was destroyed while this thread waited for its events. With Linux such a
 * thread waits for ever, and programs rely on that (rping ends meanwhile). */
static _Noreturn void wait_for_ever(void)
{
	(void)held_sleep();
	for (;;)
		pause();
}

static bool has_event(void *arg)
{
	return cma_channel_has(arg);
}

/* Waits until ch may have an event; returns 0 or -errno. */
static int wait_for_event(struct cma_channel *ch)
{
	struct ibv_context *ctx = cma_any_ctx();
	int rc = cma_channel_blocks(ch);

	if (!rc && ctx)
		rc = cm_gate_await(ctx, ch->ch.fd, has_event, ch);
	if (rc)
		return rc < 0 ? rc : 0;
	return cma_channel_wait(ch);
}

int cma_write_event(struct cma_id *id, enum rdma_cm_event_type type, int status,
		    uint64_t arg)
{
	struct cma_event *e;

	if (type != RDMA_CM_EVENT_USER)
		return -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->ev = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	memcpy(&e->ev.param, &arg, sizeof(arg)); /* param.arg */
	return cma_put(&id->source, e);
}

int cma_get_event(struct cma_channel *ch, struct cma_event **out)
{
	for (;;) {
		struct cma_event *e = cma_take(ch);
		const void *owner;
		bool tell;
		int rc;

		if (!e) {
			rc = wait_for_event(ch);
			if (!live_find(&ch->live, LIVE_CM_CHANNEL, &owner))
				wait_for_ever();
			if (rc)
				return rc;
			continue;
		}
		tell = process(e);
		cma_looked_at(e);
		if (tell) {
			say_failure(e);
			live_add(&e->live, LIVE_CM_EVENT, NULL);
			*out = e;
			return 0;
		}
		cma_done(e);
	}
}

/* Does the event say that the call which waits for `awaited` has succeeded? A program
 * that moves its QP itself establishes the connection after the response. */
static bool is_success(const struct rdma_cm_event *ev, enum rdma_cm_event_type awaited)
{
	return ev->event == awaited || (ev->event == RDMA_CM_EVENT_CONNECT_RESPONSE &&
					awaited == RDMA_CM_EVENT_ESTABLISHED);
}

int cma_complete(struct cma_id *id, int rc, enum rdma_cm_event_type awaited)
{
	struct cma_event *e;

	if (rc || !id->sync)
		return rc == CMA_NO_EVENT ? 0 : rc;
	cma_ack_own(id);
	rc = cma_get_event((struct cma_channel *)id->id.channel, &e);
	if (rc)
		return rc;
	id->id.event = &e->ev;
	if (e->ev.event == RDMA_CM_EVENT_REJECTED && e->ev.status)
		return -ECONNREFUSED;
	if (e->ev.status)
		return e->ev.status < 0 ? e->ev.status : -e->ev.status;
	if (is_success(&e->ev, awaited))
		return 0;
	log_info("rdma_cm: a call without a channel waits for %s and finds %s",
		 cma_event_name(awaited), cma_event_name(e->ev.event));
	return -EINVAL;
}
