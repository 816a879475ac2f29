/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_id.c - ids: made, made of requests, moved, given options, destroyed. */
#include <stdlib.h>
#include <string.h>

#include "abi/cma.h"
#include "core/device.h"
#include "sys/addr.h"
#include "sys/rand.h"
#include "sys/sockaddr.h"

static enum ibv_qp_type qp_type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

static uint32_t random_psn(void)
{
	return rand_start() & 0xffffff;
}

static int give_channel(struct cma_id *id, struct rdma_event_channel *ch)
{
	struct cma_channel *own = NULL;

	if (!ch) {
		own = cma_channel_new();
		if (!own)
			return -errno;
		ch = &own->ch;
	}
	id->sync = own != NULL;
	id->id.channel = ch;
	return 0;
}

int cma_id_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       enum ibv_qp_type type, struct cma_id **out)
{
	struct cma_id *id;
	int rc = cma_init();

	if (rc)
		return rc;
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	rc = give_channel(id, ch);
	if (rc) {
		free(id);
		return rc;
	}
	id->pid = getpid();
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->owner.event = cma_on_event;
	id->ack_timeout = CMA_ACK_TIMEOUT;
	id->psn = random_psn();
	id->qkey = RDMA_UDP_QKEY;
	list_init(&id->groups);
	pthread_cond_init(&id->acked, NULL);
	*out = id;
	return 0;
}

/* Nothing refers to it any more. */
void cma_id_free(struct cma_id *id)
{
	if (id->sync)
		cma_channel_free((struct cma_channel *)id->id.channel);
	if (cma_is_mine(id))
		pthread_cond_destroy(&id->acked);
	free(id->id.route.path_rec);
	free(id->qp_init);
	free(id->connect);
	free(id);
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			  void *context, enum rdma_port_space ps)
{
	struct cma_id *new;

	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB &&
	    ps != RDMA_PS_IPOIB)
		return cma_result(-EINVAL);
	if (cma_result(cma_id_new(channel, context, ps, qp_type_of(ps), &new)))
		return -1;
	*id = &new->id;
	return 0;
}

/* --- of a request -------------------------------------------------------- */

static void inherit(struct cma_id *id, const struct cma_event *e)
{
	const struct cm_param *p = &e->peer;
	const struct cma_id *listener = e->id;

	id->to.way.tclass = id->tos = listener->tos;
	memcpy(id->to.way.dst, e->from.way.dst, 16);
	memcpy(id->to.src_ip, e->from.src_ip, 16);
	memcpy(id->to.dst_ip, e->from.dst_ip, 16);
	id->to.way.ifindex = e->from.way.ifindex;
	id->to.src_port = e->from.src_port;
	id->to.dst_port = e->from.dst_port;
	id->to.space = e->from.space;
	id->to.datagram = e->from.datagram;
	if (e->from.mtu && e->from.mtu < id->to.mtu)
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
	const struct cm_way *w = &id->to.way;

	sockaddr_set(&a->src_storage, id->to.src_ip, id->to.src_port, w->ifindex);
	sockaddr_set(&a->dst_storage, id->to.dst_ip, id->to.dst_port, w->ifindex);
	memcpy(a->addr.ibaddr.sgid.raw, w->src, 16);
	memcpy(a->addr.ibaddr.dgid.raw, w->dst, 16);
	a->addr.ibaddr.pkey = PKEY_DEFAULT;
}

/* Link-local addresses are of an interface, others are not: a datagram to one's
 * own comes in by lo. */
static uint32_t interface_of(const struct cm_way *w)
{
	return addr_is_link_local(w->src) ? w->ifindex : 0;
}

int cma_id_for_request(struct cma_event *e)
{
	struct cma_id *listener = e->id, *id;
	enum cma_kind kind;
	int rc = cma_id_new(listener->sync ? NULL : listener->id.channel,
			    listener->id.context, listener->id.ps, listener->id.qp_type,
			    &id);

	if (rc)
		return rc;
	e->from.way.ifindex = interface_of(&e->from.way);
	kind = e->from.iwarp ? CMA_IWARP : CMA_ROCE;
	rc = cma_bind_dev(id, e->from.way.src, e->from.way.ifindex, kind);
	if (rc && e->from.way.ifindex) { /* one's own link-local: through lo */
		e->from.way.ifindex = 0;
		rc = cma_bind_dev(id, e->from.way.src, 0, kind);
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
	(void)cma_gate()->own(id->ctx, id->conn, &id->owner);
	return 0;
}

/* --- moving, options ----------------------------------------------------- */

EXPORT int rdma_migrate_id(struct rdma_cm_id *rid, struct rdma_event_channel *channel)
{
	struct cma_id *id = cma_of(rid);
	struct cma_channel *own = NULL, *old = NULL;

	if (id->sync && !channel)
		return cma_result(-EINVAL);
	if (!channel) {
		own = cma_channel_new();
		if (!own)
			return -1;
		channel = &own->ch;
	}
	if (id->sync) {
		old = (struct cma_channel *)rid->channel;
		if (rid->event) {
			rdma_ack_cm_event(rid->event);
			rid->event = NULL;
		}
	}
	cma_move(id, (struct cma_channel *)channel);
	id->sync = own != NULL;
	if (old)
		cma_channel_free(old);
	return 0;
}

static int set_id_option(struct cma_id *id, int name, const void *val, size_t len)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (len != sizeof(uint8_t))
			return -EINVAL;
		memcpy(&id->tos, val, 1);
		id->to.way.tclass = id->tos;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t) || *(const uint8_t *)val > 31)
			return -EINVAL;
		memcpy(&id->ack_timeout, val, 1);
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (len != sizeof(int) || id->state > CMA_BOUND)
			return -EINVAL;
		id->reuse = *(const int *)val != 0;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(int) || id->state != CMA_NEW)
			return -EINVAL;
		id->afonly = *(const int *)val != 0;
		return 0;
	default:
		return -ENOSYS;
	}
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			   size_t optlen)
{
	if (level == RDMA_OPTION_ID)
		return cma_result(set_id_option(cma_of(id), optname, optval, optlen));
	/* A path of the program's own is InfiniBand's. */
	return cma_result(level == RDMA_OPTION_IB ? -EOPNOTSUPP : -ENOSYS);
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (id->qp || !ece || !ece->vendor_id)
		return cma_result(-EINVAL);
	cma_of(id)->ece = *ece;
	return 0;
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (id->qp || !ece)
		return cma_result(-EINVAL);
	*ece = cma_of(id)->peer_ece;
	ece->comp_mask = 0;
	return 0;
}

/* --- destroying ---------------------------------------------------------- */

EXPORT int rdma_destroy_id(struct rdma_cm_id *rid)
{
	struct cma_id *id = cma_of(rid);

	cma_stop(id);
	if (id->listener)
		cma_gate()->unbind(id->ctx, id->listener);
	if (id->conn)
		cma_gate()->close(id->ctx, id->conn);
	if (rid->event) {
		rdma_ack_cm_event(rid->event);
		rid->event = NULL;
	}
	cma_leave_all(id);
	cma_wait_acked(id);
	cma_id_free(id);
	return 0;
}
