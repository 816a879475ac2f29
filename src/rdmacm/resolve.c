/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.c - see resolve.h. */
#include "rdmacm/resolve.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "sys/addr.h"
#include "sys/addr_text.h"
#include "sys/log.h"
#include "sys/sockaddr.h"

enum { ACK_TIMEOUT_MAX = 31 };

/* As with the kernel's rdma_cm, what goes by loopback is of some real device if
 * there is one: programs (libfabric) leave lo out. */
static int choose_route(struct cma_id *id, uint32_t ifindex)
{
	struct cm_route *w = &id->to.route;
	uint8_t src[16];
	bool v6 = !addr_is_v4(id->to.dst_ip);

	memcpy(src, id->to.src_ip, 16);
	memcpy(w->dst, id->to.dst_ip, 16);
	if (cma_ip_is_loopback(src) && cma_ip_is_loopback(w->dst) && !id->dev &&
	    cma_some_ip(v6, src) == 0)
		memcpy(w->dst, src, 16);
	if (!id->dev)
		return cma_bind_dev(id, src, ifindex, cma_kind_of(id));
	memcpy(w->src, src, 16);
	return 0;
}

static void finish(struct cma_id *id, const struct sockaddr *dst)
{
	struct rdma_addr *route = &id->id.route.addr;

	id->to.dst_port = sockaddr_port(dst);
	id->to.space = (uint16_t)id->id.ps;
	id->to.datagram = cma_is_datagram(id);
	memcpy(route->addr.ibaddr.sgid.raw, id->to.route.src, 16);
	memcpy(route->addr.ibaddr.dgid.raw, id->to.route.dst, 16);
	route->addr.ibaddr.pkey = CMA_PKEY_DEFAULT;
}

/* From what was bound, or asked for, or what the routes say. */
static int resolve(struct cma_id *id, const struct sockaddr *src,
		   const struct sockaddr *dst)
{
	struct rdma_addr *route = &id->id.route.addr;
	struct sockaddr_storage from, self;
	uint16_t port = id->to.src_port;
	int rc;

	if (src && !port)
		port = sockaddr_port(src);
	memset(&from, 0, sizeof(from));
	if (id->state != CMA_NEW && !cma_is_any(&route->src_addr))
		from = route->src_storage;
	else if (src && sockaddr_len(src))
		memcpy(&from, src, sockaddr_len(src));
	if (from.ss_family && from.ss_family != dst->sa_family)
		memset(&from, 0, sizeof(from));
	rc = cma_find_source(dst, &from);
	if (rc)
		return rc;
	if (cma_is_any(dst)) { /* as for any socket: this host */
		self = from;
		sockaddr_set_port((struct sockaddr *)&self, sockaddr_port(dst));
		dst = (struct sockaddr *)&self;
	}
	sockaddr_ip((struct sockaddr *)&from, id->to.src_ip);
	sockaddr_ip(dst, id->to.dst_ip);
	rc = choose_route(id, sockaddr_scope((struct sockaddr *)&from));
	if (rc)
		return rc;
	id->to.src_port = port ? port : cma_any_port();
	sockaddr_set_port((struct sockaddr *)&from, id->to.src_port);
	route->src_storage = from;
	memset(&route->dst_storage, 0, sizeof(route->dst_storage));
	memcpy(&route->dst_storage, dst, sockaddr_len(dst));
	id->to.route.ifindex = sockaddr_scope(dst);
	finish(id, dst);
	return 0;
}

/* --- InfiniBand ---------------------------------------------------------- */

/* IPv6 addresses of the fabric are its ports' GIDs. */
static void own_ip(const struct cma_id *id, bool v6, uint8_t ip[16])
{
	memcpy(ip, id->to.route.src, 16);
	if (!v6)
		cm_gate_ip(id->ctx, ip);
}

/* -EADDRNOTAVAIL: the program asks for a source that the adapter has not. */
static int check_source(const struct cma_id *id, const struct sockaddr *src, bool v6)
{
	uint8_t ip[16], own[16];

	if (!src || !sockaddr_len(src) || cma_is_any(src))
		return 0;
	sockaddr_ip(src, ip);
	own_ip(id, v6, own);
	return memcmp(ip, own, sizeof(ip)) ? -EADDRNOTAVAIL : 0;
}

/* -EHOSTUNREACH: dst is no port's of the fabric. */
static int resolve_ib(struct cma_id *id, struct cma_dev *ib, const struct sockaddr *src,
		      const struct sockaddr *dst)
{
	struct rdma_addr *route = &id->id.route.addr;
	const bool v6 = dst->sa_family == AF_INET6;
	uint8_t gid[16];
	int rc;

	sockaddr_ip(dst, id->to.dst_ip);
	rc = cm_gate_find(ib->ctx, id->to.dst_ip, gid);
	if (!rc && !id->dev)
		rc = cma_bind_ib(id, ib);
	if (!rc)
		rc = check_source(id, src, v6);
	if (rc)
		return rc;
	own_ip(id, v6, id->to.src_ip);
	memcpy(id->to.route.dst, gid, 16);
	if (!id->to.src_port && src)
		id->to.src_port = sockaddr_port(src);
	if (!id->to.src_port)
		id->to.src_port = cma_any_port();
	sockaddr_set(&route->src_storage, id->to.src_ip, id->to.src_port, 0);
	memset(&route->dst_storage, 0, sizeof(route->dst_storage));
	memcpy(&route->dst_storage, dst, sockaddr_len(dst));
	finish(id, dst);
	return 0;
}

static void say_unknown(const uint8_t ip[16])
{
	char text[INET6_ADDRSTRLEN];

	log_warn("rdma_cm: no adapter of the fabric has the address %s: urnic fabric "
		 "status shows those that there are",
		 addr_text(ip, text));
}

/* True: dst is the fabric's, and *rc says how it went.  Where there are interfaces, too,
 * a fabric that does not know dst, or has ended, leaves it to them. */
static bool is_of_fabric(struct cma_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst, int *rc)
{
	bool only;
	struct cma_dev *ib = cma_ib_dev(&only);

	if (!ib || (id->dev && id->dev != ib) || (cma_is_any(dst) && !id->dev))
		return false;
	*rc = resolve_ib(id, ib, src, dst);
	if (*rc && *rc != -EADDRNOTAVAIL && !only && !id->dev)
		return false;
	if (*rc == -EHOSTUNREACH)
		say_unknown(id->to.dst_ip);
	return true;
}

/* Some programs crash when they are told ADDR_ERROR: the cause first. */
static void say_no_datagrams(const struct cma_id *id)
{
	if (cma_is_datagram(id) && cma_has_kind(CMA_IWARP) && !cma_has_kind(CMA_ROCE))
		log_warn(
			"rdma_resolve_addr fails: all devices are of iWARP, which has no "
			"datagrams (UD) and no multicast: name a RoCE device, too "
			"(URNIC_DEVICES)");
}

int cma_resolve_addr(struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst)
{
	int rc;

	if (id->state > CMA_ADDR || !dst)
		return -EINVAL;
	if (!sockaddr_len(dst))
		return -EAFNOSUPPORT;
	rc = cma_init();
	if (rc)
		return rc;
	if (!is_of_fabric(id, src, dst, &rc))
		rc = resolve(id, src, dst);
	/* What the kernel's routes say is known at once; as with its rdma_cm, only
	 * what concerns devices is an event. */
	if (rc && rc != -ENODEV && rc != -EHOSTUNREACH)
		return rc;
	if (rc)
		say_no_datagrams(id);
	else
		id->state = CMA_ADDR;
	return cma_post(id, rc ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
			rc, NULL);
}

/* What a subnet manager would say of the path. */
static int fill_path(struct cma_id *id)
{
	struct ibv_sa_path_rec *rec = calloc(1, sizeof(*rec));

	if (!rec)
		return -ENOMEM;
	memcpy(rec->sgid.raw, id->to.route.src, 16);
	memcpy(rec->dgid.raw, id->to.route.dst, 16);
	rec->hop_limit = 64;
	rec->traffic_class = id->tos;
	rec->reversible = 1;
	rec->numb_path = 1;
	rec->pkey = CMA_PKEY_DEFAULT;
	rec->mtu_selector = rec->rate_selector = rec->packet_life_time_selector = 2;
	rec->mtu = id->to.mtu;
	rec->rate = IBV_RATE_25_GBPS;
	rec->packet_life_time = (uint8_t)(id->ack_timeout ? id->ack_timeout - 1 : 0);
	free(id->id.route.path_rec);
	id->id.route.path_rec = rec;
	id->id.route.num_paths = 1;
	return 0;
}

/* What the subnet manager says of the path. */
int cma_take_path(struct cma_id *id, const struct sa_path *p)
{
	struct ibv_sa_path_rec *rec;
	int rc = fill_path(id);

	if (rc)
		return rc;
	rec = id->id.route.path_rec;
	id->to.route.dlid = p->dlid;
	id->to.route.sl = p->sl;
	id->to.rate = p->rate;
	if (p->mtu && p->mtu < id->to.mtu)
		id->to.mtu = p->mtu;
	if (!id->ack_said)
		id->ack_timeout = p->life < ACK_TIMEOUT_MAX ? (uint8_t)(p->life + 1)
							    : ACK_TIMEOUT_MAX;
	rec->dlid = htobe16(p->dlid);
	rec->slid = htobe16(p->slid);
	rec->flow_label = htobe32(p->flow_label);
	rec->hop_limit = p->hop_limit;
	rec->traffic_class = p->tclass;
	rec->pkey = htobe16(p->pkey);
	rec->sl = p->sl;
	rec->mtu = p->mtu;
	rec->rate = p->rate;
	rec->packet_life_time = p->life;
	return 0;
}

/* Less than none is for ever, nearly, as with the kernel's. */
static int ask_for_path(struct cma_id *id, int timeout_ms)
{
	const uint64_t ms = timeout_ms < 0 ? INT32_MAX : (uint64_t)timeout_ms;
	int rc;

	id->state = CMA_QUERY; /* the answer may be there at once */
	rc = cm_gate_path(id->ctx, &id->to.route, ms * 1000000, &id->owner);
	if (rc)
		id->state = CMA_ADDR;
	return rc;
}

int cma_resolve_route(struct cma_id *id, int timeout_ms)
{
	int rc;

	if (id->state != CMA_ADDR)
		return -EINVAL;
	if (id->dev->ib)
		return ask_for_path(id, timeout_ms);
	rc = cma_is_iwarp(id) ? 0 : fill_path(id); /* TCP finds its route */
	if (rc)
		return rc;
	id->state = CMA_ROUTE;
	return cma_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}
