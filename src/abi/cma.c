/* SPDX-License-Identifier: BSD-2-Clause */
/* cma.c - the exported symbols of <rdma/rdma_cma.h>: converts arguments and errno;
 * src/rdmacm does the work. None can be cancelled except while it waits for an event
 * (sys/held.h). Pointers from the program are looked up before they are read, as programs
 * destroy objects twice, and use destroyed ones. */
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

#include "abi/rdmacm.h"
#include "rdmacm/addrinfo.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/ep.h"
#include "rdmacm/group.h"
#include "rdmacm/id.h"
#include "rdmacm/resolve.h"
#include "sys/live.h"
#include "sys/log.h"
#include "sys/sockaddr.h"

static bool id_lives(const struct live *l, enum live_kind kind)
{
	const void *nobody;

	if (live_find(l, kind, &nobody))
		return true;
	log_info("a call refused: there is no %s at %p (freed already?)", live_name(kind),
		 (const void *)l);
	return false;
}

/* Begins a call on id. Returns NULL with errno ENOENT if there is no such id, as for an
 * id number that the kernel does not know. */
static struct cma_id *enter_id(struct rdma_cm_id *id)
{
	if (!id_lives(id ? &cma_of(id)->live : NULL, LIVE_CM_ID)) {
		errno = ENOENT;
		return NULL;
	}
	held_begin();
	cma_refuse(NULL);
	return cma_of(id);
}

/* Is ch NULL or a channel? If not, errno is EBADF, as for a closed descriptor. */
static bool good_channel(struct rdma_event_channel *ch)
{
	if (!ch || id_lives(&((struct cma_channel *)ch)->live, LIVE_CM_CHANNEL))
		return true;
	errno = EBADF;
	return false;
}

/* Ends a call on id, or that would have made one (id NULL). a: the address that the
 * program gave, or NULL. */
static int end_call(const struct cma_id *id, const char *call, const struct sockaddr *a,
		    int rc)
{
	if (rc < 0)
		cma_say_refused(id, call, a, rc);
	return cma_end(rc);
}

/* Ends a call that an event follows if rc is 0; `awaited` if the call succeeds. */
static int end_waiting(struct cma_id *id, const char *call, const struct sockaddr *a,
		       int rc, enum rdma_cm_event_type awaited)
{
	if (rc < 0)
		cma_say_refused(id, call, a, rc);
	return cma_end(cma_complete(id, rc, awaited));
}

/* Ends a call that has made an id. */
static int end_with(struct cma_id **made, struct rdma_cm_id **id, const char *call,
		    int rc)
{
	if (!rc)
		*id = &(*made)->id;
	return end_call(NULL, call, NULL, rc);
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
	if (!ch || !good_channel(ch))
		return;
	held_begin();
	cma_channel_free((struct cma_channel *)ch);
	cma_end(0);
}

/* A cancellation point even if an event is always ready. */
EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **event)
{
	struct cma_event *e;
	int rc;

	if (!channel || !event)
		return (int)cma_result(-EINVAL);
	if (!good_channel(channel))
		return -1;
	pthread_testcancel();
	held_begin();
	rc = cma_get_event((struct cma_channel *)channel, &e);
	if (!rc)
		*event = &e->ev;
	return cma_end(rc);
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event || !id_lives(&((struct cma_event *)event)->live, LIVE_CM_EVENT))
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

	if (!id)
		return (int)cma_result(-EINVAL);
	if (!good_channel(channel))
		return -1;
	held_begin();
	return end_with(&made, id, __func__, cma_create(channel, context, ps, &made));
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	return i ? cma_end(cma_destroy(i)) : -1;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	struct cma_id *i = good_channel(channel) ? enter_id(id) : NULL;

	return i ? end_call(i, __func__, NULL, cma_migrate(i, channel)) : -1;
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			   size_t optlen)
{
	struct cma_id *i = enter_id(id);

	if (i && level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return end_call(i, __func__, NULL, cma_set_path(i, optval, optlen));
	return i ? end_call(i, __func__, NULL,
			    cma_set_option(i, level, optname, optval, optlen))
		 : -1;
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_set_ece(i, ece)) : -1;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_get_ece(i, ece)) : -1;
}

/* --- addresses ----------------------------------------------------------- */

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, addr, cma_bind(i, addr)) : -1;
}

/* timeout_ms is ignored: resolving takes no time, since the kernel finds neighbours when
 * datagrams are sent to them. */
EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
			     struct sockaddr *dst_addr, int timeout_ms)
{
	struct cma_id *i = enter_id(id);

	(void)timeout_ms;
	return i ? end_waiting(i, __func__, dst_addr,
			       cma_resolve_addr(i, src_addr, dst_addr),
			       RDMA_CM_EVENT_ADDR_RESOLVED)
		 : -1;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	struct cma_id *i = enter_id(id);

	(void)timeout_ms;
	return i ? end_waiting(i, __func__, NULL, cma_resolve_route(i, timeout_ms),
			       RDMA_CM_EVENT_ROUTE_RESOLVED)
		 : -1;
}

static __be16 port_of(struct rdma_cm_id *id, bool dst)
{
	const struct rdma_addr *a;
	__be16 port;

	if (!enter_id(id))
		return 0;
	a = &id->route.addr;
	port = htobe16(sockaddr_port(dst ? &a->dst_addr : &a->src_addr));
	held_end();
	return port;
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return port_of(id, false);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return port_of(id, true);
}

/* --- connections --------------------------------------------------------- */

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_listen(i, backlog)) : -1;
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	struct cma_id *made = NULL, *listener;
	int rc;

	if (!id)
		return (int)cma_result(-EINVAL);
	pthread_testcancel();
	listener = enter_id(listen);
	if (!listener)
		return -1;
	rc = cma_get_request(listener, &made);
	if (!rc)
		*id = &made->id;
	return cma_end(rc);
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, NULL, cma_connect(i, conn_param),
			       RDMA_CM_EVENT_ESTABLISHED)
		 : -1;
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, NULL, cma_accept(i, conn_param),
			       RDMA_CM_EVENT_ESTABLISHED)
		 : -1;
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data,
		       uint8_t private_data_len)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL,
			    cma_reject(i, CM_REJ_CONSUMER, private_data,
				       private_data_len))
		 : -1;
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			   uint8_t private_data_len)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL,
			    cma_reject(i, CM_REJ_VENDOR_OPTION, private_data,
				       private_data_len))
		 : -1;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_establish(i)) : -1;
}

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_notify(i, event)) : -1;
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, NULL, cma_disconnect(i),
			       RDMA_CM_EVENT_DISCONNECTED)
		 : -1;
}

/* --- queues -------------------------------------------------------------- */

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
			     int *qp_attr_mask)
{
	struct cma_id *i = enter_id(id);

	if (!i)
		return -1;
	if (!qp_attr || !qp_attr_mask || !id->verbs)
		return end_call(i, __func__, NULL, -EINVAL);
	return end_call(i, __func__, NULL, cma_qp_attr(i, qp_attr, qp_attr_mask));
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_create_qp(i, attr)) : -1;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			  struct ibv_qp_init_attr *init)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL,
			    init ? cma_create_qp_of(i, pd, init) : -EINVAL)
		 : -1;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	if (i)
		cma_end(cma_destroy_qp(i));
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_create_srq(i, attr)) : -1;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			   struct ibv_srq_init_attr *init)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL,
			    init ? cma_create_srq_of(i, pd, init) : -EINVAL)
		 : -1;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	if (i)
		cma_end(cma_destroy_srq(i));
}

/* --- groups -------------------------------------------------------------- */

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr,
			       void *context)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, addr, cma_join(i, addr, false, context),
			       RDMA_CM_EVENT_MULTICAST_JOIN)
		 : -1;
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id,
				  struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, NULL, cma_join_ex(i, attr, context),
			       RDMA_CM_EVENT_MULTICAST_JOIN)
		 : -1;
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, addr, cma_leave(i, addr)) : -1;
}

/* --- endpoints ----------------------------------------------------------- */

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	bool eai;
	int rc;

	if (!res)
		return (int)cma_result(-EINVAL);
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

/* Debian 12's <rdma/rdma_cma.h> does not declare these three. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node,
				 const char *service, const struct rdma_addrinfo *hints)
{
	struct cma_id *i = enter_id(id);

	return i ? end_waiting(i, __func__, NULL,
			       cma_resolve_addrinfo(i, node, service, hints),
			       RDMA_CM_EVENT_ADDRINFO_RESOLVED)
		 : -1;
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL,
			    info ? cma_query_addrinfo(i, info) : -EINVAL)
		 : -1;
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event,
			       int status, uint64_t arg)
{
	struct cma_id *i = enter_id(id);

	return i ? end_call(i, __func__, NULL, cma_write_event(i, event, status, arg))
		 : -1;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res,
			  struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
{
	struct cma_id *made = NULL;

	if (!id || !res)
		return (int)cma_result(-EINVAL);
	held_begin();
	return end_with(&made, id, __func__, cma_create_ep(res, pd, qp_init_attr, &made));
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	struct cma_id *i = enter_id(id);

	if (i)
		cma_end(cma_destroy_ep(i));
}
