/* SPDX-License-Identifier: BSD-2-Clause */
/* cma.c - the exported symbols of <rdma/rdma_cma.h>: their arguments and errno.  What
 * they do is in src/rdmacm.  None of them can be cancelled but while it waits for an
 * event (sys/held.h). */
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "abi/rdmacm.h"
#include "rdmacm/bind.h"
#include "rdmacm/connect.h"
#include "rdmacm/ep.h"
#include "rdmacm/event.h"
#include "rdmacm/group.h"
#include "rdmacm/qp.h"
#include "rdmacm/qp_state.h"
#include "rdmacm/resolve.h"

/* A call ends that an event follows, if rc is 0. */
static int end_waiting(struct rdma_cm_id *id, int rc)
{
	return cma_end(cma_complete(cma_of(id), rc));
}

/* ... that makes an id. */
static int end_with(struct cma_id **made, struct rdma_cm_id **id, int rc)
{
	if (!rc)
		*id = &(*made)->id;
	return cma_end(rc);
}

/* --- devices, channels, events ------------------------------------------- */

EXPORT struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_context **list = NULL;
	int rc;

	if (num)
		*num = 0;
	held_begin();
	rc = cma_init();
	if (!rc)
		list = cma_devices(num);
	cma_end(rc);
	return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cma_channel *ch = NULL;
	int rc;

	held_begin();
	rc = cma_init();
	if (!rc) {
		ch = cma_channel_new();
		rc = ch ? 0 : -errno;
	}
	cma_end(rc);
	return ch ? &ch->ch : NULL;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	held_begin();
	cma_channel_free((struct cma_channel *)ch);
	cma_end(0);
}

/* A thread that is to end does so here, even if there is always an event. */
EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **event)
{
	struct cma_event *e;
	int rc;

	if (!channel || !event)
		return (int)cma_result(-EINVAL);
	pthread_testcancel();
	held_begin();
	rc = cma_get_event((struct cma_channel *)channel, &e);
	if (!rc)
		*event = &e->ev;
	return cma_end(rc);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return (int)cma_result(-EINVAL);
	held_begin();
	cma_done((struct cma_event *)event);
	return cma_end(0);
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	return cma_event_name(event);
}

/* --- ids ----------------------------------------------------------------- */

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			  void *context, enum rdma_port_space ps)
{
	struct cma_id *made = NULL;

	held_begin();
	return end_with(&made, id, cma_create(channel, context, ps, &made));
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	held_begin();
	cma_destroy(cma_of(id));
	return cma_end(0);
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	held_begin();
	return cma_end(cma_migrate(cma_of(id), channel));
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			   size_t optlen)
{
	return (int)cma_result(
		cma_set_option(cma_of(id), level, optname, optval, optlen));
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return (int)cma_result(cma_set_ece(cma_of(id), ece));
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	return (int)cma_result(cma_get_ece(cma_of(id), ece));
}

/* --- addresses ----------------------------------------------------------- */

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	held_begin();
	return cma_end(cma_bind(cma_of(id), addr));
}

/* They take no time: the kernel finds neighbours when datagrams go to them. */
EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
			     struct sockaddr *dst_addr, int timeout_ms)
{
	(void)timeout_ms;
	held_begin();
	return end_waiting(id, cma_resolve_addr(cma_of(id), src_addr, dst_addr));
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	held_begin();
	return end_waiting(id, cma_resolve_route(cma_of(id)));
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return ((struct sockaddr_in *)&id->route.addr.src_addr)->sin_port;
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return ((struct sockaddr_in *)&id->route.addr.dst_addr)->sin_port;
}

/* --- connections --------------------------------------------------------- */

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	held_begin();
	return cma_end(cma_listen(cma_of(id), backlog));
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cma_id *made = NULL;

	pthread_testcancel();
	held_begin();
	return end_with(&made, id, cma_get_request(cma_of(listen), &made));
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	held_begin();
	return end_waiting(id, cma_connect(cma_of(id), conn_param));
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	held_begin();
	return end_waiting(id, cma_accept(cma_of(id), conn_param));
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data,
		       uint8_t private_data_len)
{
	held_begin();
	return cma_end(
		cma_reject(cma_of(id), CM_REJ_CONSUMER, private_data, private_data_len));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			   uint8_t private_data_len)
{
	held_begin();
	return cma_end(cma_reject(cma_of(id), CM_REJ_VENDOR_OPTION, private_data,
				  private_data_len));
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	held_begin();
	return cma_end(cma_establish(cma_of(id)));
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	held_begin();
	return cma_end(cma_notify(cma_of(id), event));
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	held_begin();
	return end_waiting(id, cma_disconnect(cma_of(id)));
}

/* --- queues -------------------------------------------------------------- */

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
			     int *qp_attr_mask)
{
	if (!qp_attr || !qp_attr_mask || !id->verbs)
		return (int)cma_result(-EINVAL);
	return (int)cma_result(cma_qp_attr(cma_of(id), qp_attr, qp_attr_mask));
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	held_begin();
	return cma_end(cma_create_qp(cma_of(id), attr));
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *init)
{
	held_begin();
	return cma_end(cma_create_qp_of(cma_of(id), pd, init));
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	held_begin();
	cma_destroy_qp(cma_of(id));
	cma_end(0);
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	held_begin();
	return cma_end(cma_create_srq(cma_of(id), attr));
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			   struct ibv_srq_init_attr *init)
{
	held_begin();
	return cma_end(cma_create_srq_of(cma_of(id), pd, init));
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	held_begin();
	cma_destroy_srq(cma_of(id));
	cma_end(0);
}

/* --- groups -------------------------------------------------------------- */

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			       void *context)
{
	held_begin();
	return end_waiting(id, cma_join(cma_of(id), addr, false, context));
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id,
				  struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	held_begin();
	return end_waiting(id, cma_join_ex(cma_of(id), attr, context));
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	held_begin();
	return cma_end(cma_leave(cma_of(id), addr));
}

/* --- endpoints ----------------------------------------------------------- */

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	bool eai;
	int rc;

	held_begin();
	rc = cma_getaddrinfo(node, service, hints, res, &eai);
	if (!eai)
		return cma_end(rc);
	held_end();
	return rc;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	cma_freeaddrinfo(res);
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res,
			  struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct cma_id *made = NULL;

	if (!id || !res)
		return (int)cma_result(-EINVAL);
	held_begin();
	return end_with(&made, id, cma_create_ep(res, pd, qp_init_attr, &made));
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	held_begin();
	cma_destroy_ep(cma_of(id));
	cma_end(0);
}
