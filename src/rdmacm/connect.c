/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - see connect.h. */
#include "rdmacm/connect.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "rdmacm/addrinfo.h"
#include "rdmacm/bind.h"
#include "rdmacm/group.h"
#include "rdmacm/qp_state.h"
#include "rdmacm/refused.h"

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
