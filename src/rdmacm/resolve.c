/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve.c - see resolve.h. */
#include "rdmacm/resolve.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "rdmacm/id.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "sys/sockaddr.h"

/* --- multicast GIDs ------------------------------------------------------ */

enum {
	TRANSIENT_LINK_LOCAL = 0x12, /* flags, scope */
	PKEY_FULL_MEMBER = 0x80,
	SIGNATURE_IPOIB = 0x1b,
	SIGNATURE_CM = 0x01,
};

/* Is ip the GID of a group that an SA has chosen (ff1x:a01b::/32)? */
static bool is_of_sa(const uint8_t ip[16])
{
	return ip[0] == 0xff && (ip[1] & 0xf0) == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b;
}

void cma_mgid(enum rdma_port_space ps, uint16_t pkey, const struct sockaddr *a,
	      uint8_t mgid[16])
{
	const bool v6 = a->sa_family == AF_INET6;
	uint8_t ip[16];

	sockaddr_ip(a, ip);
	if (a->sa_family == AF_IB || (v6 && is_of_sa(ip))) {
		memcpy(mgid, ip, 16);
		return;
	}
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = TRANSIENT_LINK_LOCAL;
	mgid[2] = v6 ? 0x60 : 0x40;
	mgid[3] = ps == RDMA_PS_UDP ? SIGNATURE_CM : SIGNATURE_IPOIB;
	mgid[4] = (uint8_t)(pkey >> 8 | PKEY_FULL_MEMBER);
	mgid[5] = (uint8_t)pkey;
	if (v6) {
		memcpy(mgid + 6, ip + 6, 10);
	} else {
		memcpy(mgid + 12, ip + 12, 4);
		mgid[12] &= 0x0f;
	}
}

/* --- routes -------------------------------------------------------------- */

enum { ACK_TIMEOUT_MAX = 31 };

/* Gives id the device from which its route begins. From a loopback address only this host
 * is reached: its other addresses from themselves, and groups. */
static int choose_dev(struct cma_id *id, uint32_t ifindex)
{
	const enum cma_kind kind = cma_kind_of(id);
	const uint8_t *dst = id->to.dst_ip;

	if (!addr_is_loopback(id->to.src_ip))
		return cma_bind_dev(id, id->to.src_ip, ifindex, kind);
	if (addr_is_loopback(dst) || addr_is_multicast(dst))
		return cma_bind_loopback(id, id->to.src_ip, kind);
	return cma_bind_dev(id, dst, 0, kind);
}

/* The addresses that the program sees stay as they are. On RoCE the packets have GIDs of
 * id's device instead of loopback's addresses; the route to loopback ends where it
 * begins. TCP uses the program's addresses. */
static int choose_route(struct cma_id *id, const struct sockaddr *from,
			const struct sockaddr *dst)
{
	struct cm_route *w = &id->to.route;
	bool bound = id->dev, near;
	int rc = bound ? 0 : choose_dev(id, sockaddr_scope(from));

	if (rc)
		return rc;
	near = !id->dev->iwarp && addr_is_loopback(id->to.dst_ip);
	if (bound || id->dev->iwarp)
		memcpy(w->src, id->to.src_ip, 16);
	memcpy(w->dst, near ? w->src : id->to.dst_ip, 16);
	if (!near)
		w->ifindex = sockaddr_scope(dst);
	return 0;
}

/* Stores the resolved addresses in id; the source port is that of src, or any if that is
 * 0. */
static void store_addrs(struct cma_id *id, const struct sockaddr *src,
			const struct sockaddr *dst)
{
	struct rdma_addr *route = &id->id.route.addr;
	uint16_t port = sockaddr_port(src);

	memset(&route->src_storage, 0, sizeof(route->src_storage));
	memcpy(&route->src_storage, src, sockaddr_len(src));
	memset(&route->dst_storage, 0, sizeof(route->dst_storage));
	memcpy(&route->dst_storage, dst, sockaddr_len(dst));
	cma_set_src_port(id, port ? port : cma_any_port());
	id->to.dst_port = sockaddr_port(dst);
	id->to.space = (uint16_t)id->id.ps;
	id->to.native = dst->sa_family == AF_IB;
	if (id->to.native) {
		id->to.service_id = sockaddr_service(dst);
		id->to.space = (uint16_t)(id->to.service_id >> 16);
	}
	id->to.datagram = cma_is_datagram(id);
	memcpy(route->addr.ibaddr.sgid.raw, id->to.route.src, 16);
	memcpy(route->addr.ibaddr.dgid.raw, id->to.route.dst, 16);
	route->addr.ibaddr.pkey = htobe16(cma_pkey(id));
}

/* The source port that is bound, or else asked for; 0: any. */
static uint16_t wanted_port(const struct cma_id *id, const struct sockaddr *src)
{
	if (id->to.src_port || !src)
		return id->to.src_port;
	return sockaddr_port(src);
}

/* Resolves by the kernel's routes, from the address that is bound or asked for, or else
 * the one that the routes give. */
static int resolve_by_kernel(struct cma_id *id, const struct sockaddr *src,
			     const struct sockaddr *dst)
{
	struct rdma_addr *route = &id->id.route.addr;
	struct sockaddr_storage from, self;
	uint16_t port = wanted_port(id, src);
	uint8_t ip[16];
	int rc;

	memset(&from, 0, sizeof(from));
	if (id->state != CMA_NEW && !cma_is_any(&route->src_addr))
		from = route->src_storage;
	else if (src && sockaddr_len(src))
		memcpy(&from, src, sockaddr_len(src));
	if (from.ss_family == AF_IB) {
		sockaddr_ip((struct sockaddr *)&from, ip);
		sockaddr_set(&from, ip, 0, 0);
	}
	if (from.ss_family && from.ss_family != dst->sa_family)
		memset(&from, 0, sizeof(from));
	rc = cma_find_source(dst, &from);
	if (rc)
		return rc;
	if (cma_is_any(dst)) { /* this host, as for any socket */
		self = from;
		sockaddr_set_port((struct sockaddr *)&self, sockaddr_port(dst));
		dst = (struct sockaddr *)&self;
	}
	sockaddr_ip((struct sockaddr *)&from, id->to.src_ip);
	sockaddr_ip(dst, id->to.dst_ip);
	rc = choose_route(id, (struct sockaddr *)&from, dst);
	if (rc)
		return rc;
	sockaddr_set_port((struct sockaddr *)&from, port);
	store_addrs(id, (struct sockaddr *)&from, dst);
	return 0;
}

/* Resolves AF_IB addresses on RoCE, where GIDs are IP addresses. */
static int resolve_gid(struct cma_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst)
{
	struct sockaddr_storage to, from;
	int rc;

	sockaddr_ip(dst, id->to.dst_ip);
	sockaddr_set(&to, id->to.dst_ip, sockaddr_port(dst), 0);
	if (cma_is_any(dst))
		return -ENODEV;
	rc = resolve_by_kernel(id, src, (struct sockaddr *)&to);
	if (rc)
		return rc;
	if (id->dev->iwarp)
		return -ENODEV;
	sockaddr_set_gid(&from, id->to.route.src, CMA_PKEY_DEFAULT,
			 (uint64_t)id->id.ps << 16 | id->to.src_port);
	store_addrs(id, (struct sockaddr *)&from, dst);
	return 0;
}

/* --- InfiniBand ---------------------------------------------------------- */

/* Sets the index of the partition that dst names in the port's table. Returns -ENODEV if
 * the port is not in that partition. */
static int enter_partition(struct cma_id *id, const struct sockaddr *dst)
{
	const struct sockaddr_ib *ib = (const void *)dst;
	int index;

	if (dst->sa_family != AF_IB || !ib->sib_pkey)
		return 0;
	index = ibv_get_pkey_index(id->ctx, 1, ib->sib_pkey);
	if (index < 0)
		return -ENODEV;
	id->to.route.pkey_index = (uint16_t)index;
	return 0;
}

/* The fabric's IPv6 addresses are its ports' GIDs. */
static void own_ip(const struct cma_id *id, bool v6, uint8_t ip[16])
{
	memcpy(ip, id->to.route.src, 16);
	if (!v6)
		cm_gate_ip(id->ctx, ip);
}

/* Returns -EADDRNOTAVAIL if the program asks for a source that the adapter does not
 * have. */
static int check_source(const struct cma_id *id, const struct sockaddr *src, bool v6)
{
	uint8_t ip[16], own[16];

	if (!src || !sockaddr_len(src) || cma_is_any(src))
		return 0;
	sockaddr_ip(src, ip);
	own_ip(id, v6, own);
	return memcmp(ip, own, sizeof(ip)) ? -EADDRNOTAVAIL : 0;
}

/* Returns -EHOSTUNREACH if no port of the fabric has dst. */
static int find_gid(struct cma_id *id, struct cma_dev *ib, const struct sockaddr *dst,
		    uint8_t gid[16])
{
	union ibv_gid own;

	/* A multicast GID is set later, when the partition is known. */
	if (addr_is_multicast(id->to.dst_ip))
		return 0;
	if (!cma_is_any(dst))
		return cm_gate_find(ib->ctx, id->to.dst_ip, gid);
	if (ibv_query_gid(ib->ctx, 1, 0, &own))
		return -ENODEV;
	memcpy(gid, own.raw, 16);
	return 0;
}

static int resolve_ib(struct cma_id *id, struct cma_dev *ib, const struct sockaddr *src,
		      const struct sockaddr *dst)
{
	const bool v6 = dst->sa_family != AF_INET;
	struct sockaddr_storage from;
	uint8_t gid[16];
	int rc;

	sockaddr_ip(dst, id->to.dst_ip);
	rc = find_gid(id, ib, dst, gid);
	if (!rc && !id->dev)
		rc = cma_bind_ib(id, ib);
	if (!rc)
		rc = check_source(id, src, v6);
	if (!rc)
		rc = enter_partition(id, dst);
	if (rc)
		return rc;
	if (addr_is_multicast(id->to.dst_ip))
		cma_mgid(id->id.ps, cma_pkey(id), dst, gid);
	own_ip(id, v6, id->to.src_ip);
	memcpy(id->to.route.dst, gid, 16);
	if (dst->sa_family == AF_IB)
		sockaddr_set_gid(&from, id->to.src_ip, cma_pkey(id),
				 (uint64_t)id->id.ps << 16 | wanted_port(id, src));
	else
		sockaddr_set(&from, id->to.src_ip, wanted_port(id, src), 0);
	store_addrs(id, (struct sockaddr *)&from, dst);
	return 0;
}

static void say_unknown(const uint8_t ip[16])
{
	char text[INET6_ADDRSTRLEN];

	log_warn("rdma_cm: no adapter of the fabric has the address %s: urnic fabric "
		 "status shows those that there are",
		 addr_text(ip, text));
}

static bool is_group(const struct sockaddr *a)
{
	uint8_t ip[16];

	sockaddr_ip(a, ip);
	return addr_is_multicast(ip);
}

/* Does the fabric resolve dst? If so, *rc is the result. If other devices exist, a dst
 * that the fabric does not know, or a fabric that has ended, is left to them. */
static bool is_of_fabric(struct cma_id *id, const struct sockaddr *src,
			 const struct sockaddr *dst, int *rc)
{
	bool only;
	struct cma_dev *ib = cma_ib_dev(&only);

	if (!ib || (id->dev && id->dev != ib) || (cma_is_any(dst) && !id->dev && !only))
		return false;
	if (is_group(dst) && !id->dev && !only)
		return false; /* the interfaces' routes lead to groups, too */
	*rc = resolve_ib(id, ib, src, dst);
	if (*rc && *rc != -EADDRNOTAVAIL && !only && !id->dev)
		return false;
	if (*rc == -EHOSTUNREACH)
		say_unknown(id->to.dst_ip);
	return true;
}

/* Logs the cause before ADDR_ERROR is reported, as some programs crash on that. */
static void say_no_datagrams(const struct cma_id *id)
{
	if (cma_is_datagram(id) && cma_has_kind(CMA_IWARP) && !cma_has_kind(CMA_ROCE))
		log_warn(
			"rdma_resolve_addr fails: all devices are of iWARP, which has no "
			"datagrams (UD) and no multicast: name a RoCE device, too "
			"(URNIC_DEVICES)");
}

static void unbind_dev(struct cma_id *id)
{
	id->dev = NULL;
	id->ctx = id->id.verbs = NULL;
	id->id.pd = NULL;
}

/* As with Linux, the port that the program names is this id's alone from now on, as if
 * the id had been bound to it. A port of our choice is not reserved: no peer needs it,
 * and a name for each connection would cost as much as the rest of the resolution. */
static int reserve_port(struct cma_id *id, const struct sockaddr *src)
{
	int rc;

	if (id->listener || !src || !sockaddr_len(src) || !sockaddr_port(src))
		return 0;
	rc = cma_take_name(id);
	return rc == -EADDRINUSE && id->reuse ? 0 : rc;
}

static int resolve_any(struct cma_id *id, const struct sockaddr *src,
		       const struct sockaddr *dst)
{
	const bool bound = id->dev;
	int rc;

	if (!is_of_fabric(id, src, dst, &rc))
		rc = dst->sa_family == AF_IB ? resolve_gid(id, src, dst)
					     : resolve_by_kernel(id, src, dst);
	if (rc || id->state != CMA_NEW)
		return rc;
	rc = reserve_port(id, src);
	if (rc && !bound)
		unbind_dev(id);
	return rc;
}

int cma_resolve_addr(struct cma_id *id, const struct sockaddr *src,
		     const struct sockaddr *dst)
{
	int rc;

	if (!dst)
		return cma_refuse("the address is NULL");
	if (id->state > CMA_ADDR)
		return cma_not_now(id);
	if (!sockaddr_len(dst))
		return -EAFNOSUPPORT;
	rc = cma_init();
	if (rc)
		return rc;
	rc = resolve_any(id, src, dst);
	/* Errors of the kernel's routes are returned at once. As with its rdma_cm, only
	 * errors about devices are events. */
	if (rc && rc != -ENODEV && rc != -EHOSTUNREACH)
		return rc;
	if (rc)
		say_no_datagrams(id);
	else
		id->state = CMA_ADDR;
	return cma_post(id, rc ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
			rc, NULL);
}

/* Gives the program the path record in the form of a subnet manager's answer. */
static int set_record(struct cma_id *id, const struct sa_path *p)
{
	struct ibv_sa_path_rec *rec = calloc(1, sizeof(*rec));

	if (!rec)
		return -ENOMEM;
	memcpy(rec->sgid.raw, id->to.route.src, 16);
	memcpy(rec->dgid.raw, id->to.route.dst, 16);
	rec->dlid = htobe16(p->dlid);
	rec->slid = htobe16(p->slid);
	rec->flow_label = htobe32(p->flow_label);
	rec->hop_limit = p->hop_limit;
	rec->traffic_class = p->tclass;
	rec->reversible = 1;
	rec->numb_path = 1;
	rec->pkey = htobe16(p->pkey);
	rec->sl = p->sl;
	rec->mtu_selector = rec->rate_selector = rec->packet_life_time_selector = 2;
	rec->mtu = p->mtu;
	rec->rate = p->rate;
	rec->packet_life_time = p->life;
	free(id->id.route.path_rec);
	id->id.route.path_rec = rec;
	id->id.route.num_paths = 1;
	return 0;
}

/* Ethernet has no subnet manager: makes the record that one would answer. */
static int make_path(struct cma_id *id)
{
	const struct sa_path path = {
		.pkey = CMA_PKEY_DEFAULT,
		.hop_limit = 64,
		.tclass = id->tos,
		.mtu = id->to.mtu,
		.rate = IBV_RATE_25_GBPS,
		.life = (uint8_t)(id->ack_timeout ? id->ack_timeout - 1 : 0),
	};

	return set_record(id, &path);
}

/* The Local ACK Timeout of a path (12.7.34): twice its packet lifetime and the ACK delay
 * of the peer, an adapter of the same kind as ours. All are exponents of 4.096 us, so the
 * longer one counts, and one more if the shorter is at least half of it. A subnet manager
 * says 0 for the path from a port to itself. */
static uint8_t ack_timeout(unsigned life, unsigned delay)
{
	unsigned way = life + 1;
	unsigned longer = way > delay ? way : delay;
	unsigned shorter = way > delay ? delay : way;

	longer += shorter + 1 >= longer;
	return (uint8_t)(longer < ACK_TIMEOUT_MAX ? longer : ACK_TIMEOUT_MAX);
}

int cma_take_path(struct cma_id *id, const struct sa_path *p)
{
	int rc = set_record(id, p);

	if (rc)
		return rc;
	id->to.route.dlid = p->dlid;
	id->to.route.sl = p->sl;
	id->to.rate = p->rate;
	if (p->mtu && p->mtu < id->to.mtu)
		id->to.mtu = p->mtu;
	if (!id->ack_said)
		id->ack_timeout = ack_timeout(p->life, id->dev->ack_delay);
	return 0;
}

/* Returns a path that Linux also accepts: for both directions, and for management. */
static const struct ibv_path_data *usable_path(const struct ibv_path_data *p, size_t len)
{
	enum {
		FLAGS = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY |
			IBV_PATH_FLAG_BIDIRECTIONAL
	};

	for (size_t i = 0; i < len / sizeof(*p); i++)
		if (p[i].flags == FLAGS)
			return &p[i];
	return NULL;
}

int cma_set_path(struct cma_id *id, const void *data, size_t len)
{
	enum { VALUE = 0x3f };
	const struct ibv_path_data *p = data;
	struct sa_path path;
	uint32_t flow_hop;
	int rc;

	if (len && !data)
		return -EFAULT;
	if (len % sizeof(*p))
		return -EINVAL;
	p = usable_path(p, len);
	if (!p || id->state != CMA_ADDR || !id->dev->ib)
		return -EINVAL;
	flow_hop = be32toh(p->path.flowlabel_hoplimit);
	path = (struct sa_path){
		.dlid = be16toh(p->path.dlid),
		.slid = be16toh(p->path.slid),
		.pkey = be16toh(p->path.pkey),
		.flow_label = flow_hop >> 8 & 0xfffff,
		.hop_limit = (uint8_t)flow_hop,
		.tclass = p->path.tclass,
		.sl = be16toh(p->path.qosclass_sl) & 15,
		.mtu = p->path.mtu & VALUE,
		.rate = p->path.rate & VALUE,
		.life = p->path.packetlifetime & VALUE,
	};
	if (!path.dlid)
		return -EINVAL;
	rc = cma_take_path(id, &path);
	if (rc)
		return rc;
	id->state = CMA_ROUTE;
	return cma_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

/* As with the kernel's rdma_cm, a negative timeout is nearly for ever. */
static int ask_for_path(struct cma_id *id, int timeout_ms)
{
	const uint64_t ms = timeout_ms < 0 ? INT32_MAX : (uint64_t)timeout_ms;
	int rc;

	id->state = CMA_QUERY; /* set first, as the answer may come at once */
	rc = cm_gate_path(id->ctx, &id->to.route, ms * 1000000, &id->owner);
	if (rc)
		id->state = CMA_ADDR;
	return rc;
}

int cma_resolve_route(struct cma_id *id, int timeout_ms)
{
	int rc;

	if (id->state != CMA_ADDR)
		return cma_not_now(id);
	if (id->dev->ib)
		return ask_for_path(id, timeout_ms);
	rc = cma_is_iwarp(id) ? 0 : make_path(id); /* TCP finds its route by itself */
	if (rc)
		return rc;
	id->state = CMA_ROUTE;
	return cma_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}
