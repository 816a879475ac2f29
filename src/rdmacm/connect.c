/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - see connect.h. */
#include "rdmacm/connect.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "rdmacm/addrinfo.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/group.h"
#include "rdmacm/id.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

enum { RETRIES = 7 }; /* for what the program leaves out */

static uint8_t service_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_UC ? CM_UC : type == IBV_QPT_XRC_SEND ? CM_XRC : CM_RC;
}

/* Checks a depth that the program wants; RDMA_MAX_... stands for `all`. */
static int choose_depth(uint8_t wanted, uint8_t all, uint8_t max, uint8_t *out)
{
	if (wanted == RDMA_MAX_RESP_RES)
		wanted = all;
	else if (wanted > max)
		return cma_refuse("responder_resources or initiator_depth is above what "
				  "the device takes (max_qp_rd_atom), or, in "
				  "rdma_accept, above what the peer offers");
	*out = wanted;
	return 0;
}

static int fill_param(struct cma_id *id, const struct rdma_conn_param *c,
		      uint8_t resources, uint8_t depth, struct cm_param *p)
{
	static const struct rdma_conn_param none = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.flow_control = 1,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
	int rc;

	if (!c)
		c = &none;
	rc = choose_depth(c->responder_resources, resources, id->dev->max_resources,
			  &p->resources);
	if (!rc)
		rc = choose_depth(c->initiator_depth, depth, id->dev->max_depth,
				  &p->depth);
	if (rc)
		return rc;
	p->qpn = id->id.qp ? id->id.qp->qp_num : c->qp_num;
	p->srq = id->id.qp ? id->id.qp->srq != NULL : c->srq != 0;
	p->psn = id->psn;
	p->service_type = service_type(id->id.qp_type);
	p->flow_control = c->flow_control;
	p->retry_count = c->retry_count & 7;
	p->rnr_retry = c->rnr_retry_count & 7;
	p->ca_guid = be64toh(ibv_get_device_guid(id->id.verbs->device));
	p->ece_vendor = id->ece.vendor_id;
	p->ece_options = id->ece.options;
	p->private = c->private_data;
	p->private_len = c->private_data ? c->private_data_len : 0;
	return 0;
}

/* --- connecting ---------------------------------------------------------- */

int cma_connect(struct cma_id *id, const struct rdma_conn_param *c)
{
	struct cm_param p = { .ack_timeout = id->ack_timeout };
	int rc;

	if (id->state != CMA_ROUTE)
		return cma_not_now(id);
	rc = fill_param(id, c, id->dev->max_resources, id->dev->max_depth, &p);
	if (rc)
		return rc;
	if (!p.private_len && id->connect_len) {
		p.private = id->connect;
		p.private_len = id->connect_len;
	}
	id->resources = p.resources;
	id->depth = p.depth;
	id->retry_count = p.retry_count;
	rc = cm_gate_connect(id->ctx, &id->to, &p, &id->owner, &id->conn);
	if (rc == -EINVAL)
		return cma_refuse("the private data is too long for a request");
	if (!rc)
		id->state = CMA_CONNECT;
	return rc;
}

/* Called after the program itself has taken its QP to RTS. */
int cma_establish(struct cma_id *id)
{
	if (id->id.qp)
		return cma_refuse("the id has a QP, with which the call is not needed");
	if (!id->conn)
		return cma_not_now(id);
	return cm_gate_established(id->ctx, id->conn);
}

/* --- listening ----------------------------------------------------------- */

int cma_listen(struct cma_id *id, int backlog)
{
	int rc = 0;

	if (id->state == CMA_NEW)
		rc = cma_bind_any(id);
	if (rc)
		return rc;
	if (id->state != CMA_BOUND)
		return cma_not_now(id);
	if (!id->listener) {
		rc = cma_take_name(id);
		if (rc)
			return rc;
	}
	rc = cm_gate_listen(id->ctx, id->listener, backlog, cma_is_datagram(id),
			    &id->owner);
	if (!rc)
		id->state = CMA_LISTEN;
	return rc;
}

/* --- accepting and rejecting --------------------------------------------- */

static int accept_datagram(struct cma_id *id, const struct rdma_conn_param *c)
{
	struct cm_param p = {
		.qpn = id->id.qp ? id->id.qp->qp_num
		       : c	 ? c->qp_num
				 : 0,
		.qkey = id->qkey,
		.private = c ? c->private_data : NULL,
		.private_len = c && c->private_data ? c->private_data_len : 0,
		.ece_vendor = id->ece.vendor_id,
		.ece_options = id->ece.options,
	};

	return cm_gate_accept(id->ctx, id->conn, &p, &id->owner);
}

static int not_accepted(int rc)
{
	return rc != -EINVAL
		       ? rc
		       : cma_refuse("the peer has ended its request, or the private "
				    "data is too long for the answer");
}

int cma_accept(struct cma_id *id, const struct rdma_conn_param *c)
{
	struct cm_param p = { .tclass = id->tos };
	int rc;

	if (id->state != CMA_REQUEST)
		return cma_not_now(id);
	p.ack_timeout = id->dev->ack_delay;
	if (cma_is_datagram(id)) {
		rc = accept_datagram(id, c);
		if (rc)
			return not_accepted(rc);
		id->state = CMA_CONNECT;
		return CMA_NO_EVENT;
	}
	rc = fill_param(id, c, id->resources, id->depth, &p);
	if (rc)
		return rc;
	/* The vendor of the options in the peer's request. */
	p.ece_vendor = id->peer_ece.vendor_id;
	id->resources = p.resources;
	id->depth = p.depth;
	if (id->id.qp) {
		rc = cma_is_iwarp(id) ? cma_qp_prepare(id) : cma_qp_connect(id);
		if (rc)
			return rc;
	}
	rc = cm_gate_accept(id->ctx, id->conn, &p, &id->owner);
	if (!rc) {
		id->state = CMA_CONNECT;
		return 0;
	}
	cma_qp_error(id);
	return not_accepted(rc);
}

int cma_reject(struct cma_id *id, uint16_t reason, const void *data, uint8_t len)
{
	if (!id->conn)
		return cma_not_now(id);
	return cm_gate_reject(id->ctx, id->conn, reason, data, data ? len : 0);
}

int cma_notify(struct cma_id *id, enum ibv_event_type event)
{
	if (!id->conn)
		return -EINVAL;
	/* -EINVAL means that it is established already: nothing to report. */
	if (event == IBV_EVENT_COMM_EST)
		(void)cm_gate_established(id->ctx, id->conn);
	return 0;
}

/* --- disconnecting ------------------------------------------------------- */

int cma_disconnect(struct cma_id *id)
{
	int rc;

	if (cma_is_datagram(id))
		return cma_refuse("an id of datagrams (RDMA_PS_UDP) has no connection");
	if (!id->conn)
		return cma_not_now(id);
	cma_qp_error(id);
	rc = cm_gate_disconnect(id->ctx, id->conn);
	/* -EINVAL: it is over already, as an event says. */
	return rc == -EINVAL ? CMA_NO_EVENT : rc;
}

int cma_destroy(struct cma_id *id)
{
	cma_stop(id);
	if (id->listener)
		cm_gate_unbind(id->ctx, id->listener);
	if (id->conn)
		cm_gate_close(id->ctx, id->conn);
	if (id->dev && id->dev->ib)
		cm_gate_path_forget(id->ctx, &id->owner);
	cma_ack_own(id);
	cma_leave_all(id);
	cma_wait_acked(&id->source);
	cma_freeaddrinfo(id->info);
	cma_id_free(id);
	return 0;
}

/* --- requests ------------------------------------------------------------ */

static void inherit(struct cma_id *id, const struct cma_event *e)
{
	const struct cm_param *p = &e->peer;
	const struct cma_id *listener = cma_id_of(e);

	id->to.route.tclass = id->tos = listener->tos;
	memcpy(id->to.route.dst, e->from.route.dst, 16);
	id->to.route.dlid = e->from.route.dlid;
	id->to.route.pkey_index = e->from.route.pkey_index;
	id->to.route.sl = e->from.route.sl;
	memcpy(id->to.src_ip, e->from.src_ip, 16);
	memcpy(id->to.dst_ip, e->from.dst_ip, 16);
	id->to.route.ifindex = e->from.route.ifindex;
	id->to.src_port = e->from.src_port;
	id->to.dst_port = e->from.dst_port;
	id->to.space = e->from.space;
	id->to.datagram = e->from.datagram;
	id->to.native = e->from.native;
	id->to.rate = e->from.rate;
	if (e->from.mtu) /* a REQ that asks for more than our port carries was refused */
		id->to.mtu = e->from.mtu;
	id->peer_qpn = p->qpn;
	id->peer_psn = p->psn;
	id->resources =
		p->depth < id->dev->max_resources ? p->depth : id->dev->max_resources;
	id->depth = p->resources < id->dev->max_depth ? p->resources : id->dev->max_depth;
	id->retry_count = p->retry_count;
	id->rnr_retry = p->rnr_retry;
	if (p->ack_timeout)
		id->ack_timeout = p->ack_timeout;
	id->peer_ece =
		(struct ibv_ece){ .vendor_id = p->ece_vendor, .options = p->ece_options };
}

static void set_addresses(struct cma_id *id)
{
	struct rdma_addr *a = &id->id.route.addr;
	const struct cm_route *w = &id->to.route;

	a->addr.ibaddr.pkey = htobe16(cma_pkey(id));
	memcpy(a->addr.ibaddr.sgid.raw, w->src, 16);
	memcpy(a->addr.ibaddr.dgid.raw, w->dst, 16);
	if (id->to.native) {
		sockaddr_set_gid(&a->src_storage, w->src, cma_pkey(id),
				 (uint64_t)id->to.space << 16 | id->to.src_port);
		sockaddr_set_gid(&a->dst_storage, w->dst, cma_pkey(id), 0);
		return;
	}
	sockaddr_set(&a->src_storage, id->to.src_ip, id->to.src_port, w->ifindex);
	sockaddr_set(&a->dst_storage, id->to.dst_ip, id->to.dst_port, w->ifindex);
}

/* Only a link-local address belongs to an interface: a datagram to one's own address
 * comes in by lo. */
static uint32_t interface_of(const struct cm_route *w)
{
	return addr_is_link_local(w->src) ? w->ifindex : 0;
}

int cma_id_for_request(struct cma_event *e)
{
	struct cma_id *listener = cma_id_of(e), *id;
	enum cma_kind kind;
	int rc = cma_id_new(listener->sync ? NULL : listener->id.channel,
			    listener->id.context, listener->id.ps, listener->id.qp_type,
			    &id);

	if (rc)
		return rc;
	e->from.route.ifindex = interface_of(&e->from.route);
	kind = e->from.iwarp ? CMA_IWARP : CMA_ROCE;
	rc = cma_bind_dev(id, e->from.route.src, e->from.route.ifindex, kind);
	/* Our own link-local address, reached through lo. */
	if (rc && e->from.route.ifindex) {
		e->from.route.ifindex = 0;
		rc = cma_bind_dev(id, e->from.route.src, 0, kind);
	}
	if (rc) {
		cma_id_free(id);
		return rc;
	}
	inherit(id, e);
	set_addresses(id);
	id->state = CMA_REQUEST;
	id->conn = e->conn;
	e->conn = NULL;
	e->ev.id = &id->id;
	cm_gate_taken(id->ctx, id->conn);
	return 0;
}
