/* SPDX-License-Identifier: BSD-2-Clause */
/* request.c - see request.h. */
#include "rdmacm/request.h"

#include <endian.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

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
