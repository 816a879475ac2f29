/* SPDX-License-Identifier: BSD-2-Clause */
/* ep.c - see ep.h. */
#include "rdmacm/ep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/group.h"
#include "rdmacm/resolve.h"

enum { RESOLVE_MS = 2000 }; /* as librdmacm */

/* --- endpoints ----------------------------------------------------------- */

static int keep_qp_init(struct cma_id *id, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *init)
{
	if (!init)
		return 0;
	id->qp_init = malloc(sizeof(*init));
	if (!id->qp_init)
		return -ENOMEM;
	*id->qp_init = *init;
	id->qp_init->qp_type = id->id.qp_type;
	id->qp_pd = pd;
	return 0;
}

static int passive_ep(struct cma_id *id, const struct rdma_addrinfo *res,
		      struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	int rc = cma_bind(id, res->ai_src_addr);

	return rc ? rc : keep_qp_init(id, pd, init);
}

static int active_ep(struct cma_id *id, const struct rdma_addrinfo *res,
		     struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	int rc =
		cma_complete(id, cma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr),
			     RDMA_CM_EVENT_ADDR_RESOLVED);

	if (!rc)
		rc = cma_complete(id,
				  res->ai_route_len ? cma_set_path(id, res->ai_route,
								   res->ai_route_len)
						    : cma_resolve_route(id, RESOLVE_MS),
				  RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!rc && init) {
		init->qp_type = id->id.qp_type;
		rc = cma_create_qp_of(id, pd, init);
	}
	if (rc || !res->ai_connect_len)
		return rc;
	id->connect = malloc(res->ai_connect_len);
	if (!id->connect)
		return -ENOMEM;
	memcpy(id->connect, res->ai_connect, res->ai_connect_len);
	id->connect_len = res->ai_connect_len;
	return 0;
}

int cma_create_ep(const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *init, struct cma_id **out)
{
	struct cma_id *id;
	int rc = cma_id_new(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
			    (enum ibv_qp_type)res->ai_qp_type, &id);

	if (rc)
		return rc;
	rc = res->ai_flags & RAI_PASSIVE ? passive_ep(id, res, pd, init)
					 : active_ep(id, res, pd, init);
	if (rc) {
		(void)cma_destroy_ep(id); /* no program has used its QP or SRQ yet */
		return rc;
	}
	*out = id;
	return 0;
}

int cma_destroy_ep(struct cma_id *id)
{
	int qp, srq, rc;

	cma_leave_all(id); /* a QP cannot be destroyed while it is in a group */
	qp = cma_destroy_qp(id);
	srq = cma_destroy_srq(id);
	rc = cma_destroy(id);
	return qp ? qp : srq ? srq : rc;
}

/* --- requests ------------------------------------------------------------ */

/* Makes the QP for the id of request e, which has come to listener. */
static int give_qp(const struct cma_id *listener, struct cma_id *id, struct cma_event *e)
{
	struct ibv_qp_init_attr attr;
	int rc;

	if (!listener->qp_init)
		return 0;
	attr = *listener->qp_init;
	rc = cma_create_qp_of(id, listener->qp_pd, &attr);
	if (!rc)
		return 0;
	(void)cma_reject(id, CM_REJ_CONSUMER, NULL, 0);
	cma_destroy(id);
	cma_done(e);
	return rc;
}

int cma_get_request(struct cma_id *listener, struct cma_id **out)
{
	struct cma_event *e;
	struct cma_id *id;
	int rc;

	if (!listener->sync)
		return -EINVAL;
	cma_ack_own(listener);
	rc = cma_get_event((struct cma_channel *)listener->id.channel, &e);
	if (rc)
		return rc;
	if (e->ev.event != RDMA_CM_EVENT_CONNECT_REQUEST || e->ev.status) {
		rc = e->ev.status < 0 ? e->ev.status : -EINVAL;
		cma_done(e);
		return rc;
	}
	id = cma_of(e->ev.id);
	rc = give_qp(listener, id, e);
	if (rc)
		return rc;
	id->id.event = &e->ev;
	*out = id;
	return 0;
}
