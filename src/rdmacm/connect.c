/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_conn.c - listening, connecting, answering, parting. */
#include <endian.h>
#include <string.h>

#include "abi/cma.h"

enum { RETRIES = 7 }; /* where the program says nothing */

static uint8_t service_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_UC ? CM_UC : type == IBV_QPT_UD ? CM_UD : CM_RC;
}

/* RDMA_MAX_...: as many as there are. */
static int choose(uint8_t wanted, uint8_t all, uint8_t max, uint8_t *out)
{
	if (wanted == RDMA_MAX_RESP_RES)
		wanted = all;
	else if (wanted > max)
		return -EINVAL;
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
	rc = choose(c->responder_resources, resources, id->dev->max_resources,
		    &p->resources);
	if (!rc)
		rc = choose(c->initiator_depth, depth, id->dev->max_depth, &p->depth);
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

/* --- asking -------------------------------------------------------------- */

static int do_connect(struct cma_id *id, struct rdma_conn_param *c)
{
	struct cm_param p = { .ack_timeout = id->ack_timeout };
	int rc;

	if (id->state != CMA_ROUTE)
		return -EINVAL;
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
	rc = cma_gate()->connect(id->ctx, &id->to, &p, &id->owner, &id->conn);
	if (!rc)
		id->state = CMA_CONNECT;
	return rc;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	int rc = cma_result(do_connect(cma_of(id), conn_param));

	return rc ? rc : cma_complete(cma_of(id));
}

/* The program has taken its own QP to RTS. */
EXPORT int rdma_establish(struct rdma_cm_id *rid)
{
	struct cma_id *id = cma_of(rid);

	if (rid->qp || !id->conn)
		return cma_result(-EINVAL);
	return cma_result(cma_gate()->established(id->ctx, id->conn));
}

/* --- listening ----------------------------------------------------------- */

static int do_listen(struct cma_id *id, int backlog)
{
	int rc = 0;

	if (id->state == CMA_NEW)
		rc = cma_bind_any(id);
	if (rc)
		return rc;
	if (id->state != CMA_BOUND)
		return -EINVAL;
	if (!id->listener) {
		rc = cma_take_name(id);
		if (rc)
			return rc;
	}
	rc = cma_gate()->listen(id->ctx, id->listener, backlog, cma_is_datagram(id),
				&id->owner);
	if (!rc)
		id->state = CMA_LISTEN;
	return rc;
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	return cma_result(do_listen(cma_of(id), backlog));
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cma_id *l = cma_of(listen);
	struct rdma_cm_event *ev;
	int rc;

	if (!l->sync)
		return cma_result(-EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &ev))
		return -1;
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST || ev->status) {
		rc = ev->status < 0 ? ev->status : -EINVAL;
		rdma_ack_cm_event(ev);
		return cma_result(rc);
	}
	if (l->qp_init) {
		struct ibv_qp_init_attr attr = *l->qp_init;

		if (rdma_create_qp(ev->id, l->qp_pd, &attr)) {
			rc = -errno;
			rdma_reject(ev->id, NULL, 0);
			rdma_destroy_id(ev->id);
			rdma_ack_cm_event(ev);
			return cma_result(rc);
		}
	}
	*id = ev->id;
	(*id)->event = ev;
	return 0;
}

/* --- answering ----------------------------------------------------------- */

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

	return cma_gate()->accept(id->ctx, id->conn, &p);
}

static int do_accept(struct cma_id *id, struct rdma_conn_param *c)
{
	struct cm_param p = { .ack_timeout = CMA_ACK_DELAY, .tclass = id->tos };
	int rc;

	if (id->state != CMA_REQUEST)
		return -EINVAL;
	if (cma_is_datagram(id)) {
		rc = accept_datagram(id, c);
		if (!rc)
			id->state = CMA_CONNECT;
		return rc;
	}
	rc = fill_param(id, c, id->resources, id->depth, &p);
	if (rc)
		return rc;
	id->resources = p.resources;
	id->depth = p.depth;
	if (id->id.qp) {
		rc = cma_is_iwarp(id) ? cma_qp_prepare(id) : cma_qp_connect(id);
		if (rc)
			return rc;
	}
	rc = cma_gate()->accept(id->ctx, id->conn, &p);
	if (!rc)
		rc = cma_gate()->attach(id->ctx, id->conn);
	if (rc)
		cma_qp_error(id);
	else
		id->state = CMA_CONNECT;
	return rc;
}

/* Of a datagram service nothing follows. */
EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	int rc = cma_result(do_accept(cma_of(id), conn_param));

	return rc || cma_is_datagram(cma_of(id)) ? rc : cma_complete(cma_of(id));
}

static int reject(struct rdma_cm_id *rid, uint16_t reason, const void *data, uint8_t len)
{
	struct cma_id *id = cma_of(rid);

	if (!id->conn)
		return cma_result(-EINVAL);
	return cma_result(
		cma_gate()->reject(id->ctx, id->conn, reason, data, data ? len : 0));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data,
		       uint8_t private_data_len)
{
	return reject(id, CM_REJ_CONSUMER, private_data, private_data_len);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			   uint8_t private_data_len)
{
	return reject(id, CM_REJ_VENDOR_OPTION, private_data, private_data_len);
}

EXPORT int rdma_notify(struct rdma_cm_id *rid, enum ibv_event_type event)
{
	struct cma_id *id = cma_of(rid);

	if (!id->conn)
		return cma_result(-EINVAL);
	/* Already established: then there is nothing to be told. */
	if (event == IBV_EVENT_COMM_EST)
		(void)cma_gate()->established(id->ctx, id->conn);
	return 0;
}

/* --- parting ------------------------------------------------------------- */

EXPORT int rdma_disconnect(struct rdma_cm_id *rid)
{
	struct cma_id *id = cma_of(rid);
	int rc;

	if (!id->conn || cma_is_datagram(id))
		return cma_result(-EINVAL);
	cma_qp_error(id);
	rc = cma_gate()->disconnect(id->ctx, id->conn);
	if (rc == -EINVAL)
		return 0; /* it is over already, as the events say */
	return rc ? cma_result(rc) : cma_complete(id);
}
