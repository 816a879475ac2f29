/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_addr.c - binding an id to an address, and finding the way to another: the
 * kernel's routes say by which of our addresses a peer is reached. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi/cma.h"
#include "core/device.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/rand.h"
#include "sys/sockaddr.h"

enum { PORT_FIRST = 32768, PORTS = 28232 }; /* ip_local_port_range's default */

bool cma_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == 0;
}

bool cma_ip_is_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return addr_is_v4(ip) ? ip[12] == 127 : !memcmp(ip, one, 16);
}

bool cma_is_datagram(const struct cma_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* iWARP has connections only, and its ports are TCP's. */
enum cma_kind cma_kind_of(const struct cma_id *id)
{
	return id->id.ps == RDMA_PS_TCP && id->id.qp_type == IBV_QPT_RC ? CMA_ANY
									: CMA_ROCE;
}

int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind)
{
	int rc = cma_dev_of(ip, ifindex, kind, &id->dev, &id->sgid_index);

	if (rc)
		return rc;
	id->ctx = id->id.verbs = id->dev->ctx;
	id->id.pd = id->dev->pd;
	id->id.port_num = 1;
	id->to.mtu = (uint8_t)id->dev->mtu;
	id->to.iwarp = id->dev->iwarp;
	memcpy(id->to.way.src, ip, 16);
	id->to.way.ifindex = ifindex;
	return 0;
}

/* --- binding ------------------------------------------------------------- */

void cma_set_src_port(struct cma_id *id, uint16_t port)
{
	sockaddr_set_port(&id->id.route.addr.src_addr, port);
	id->to.src_port = port;
}

int cma_take_name(struct cma_id *id)
{
	struct sockaddr *src = &id->id.route.addr.src_addr;
	struct cm_service s = {
		.space = (uint16_t)id->id.ps,
		.port = sockaddr_port(src),
		.any = cma_is_any(src),
		.v6 = src->sa_family == AF_INET6,
		.v6_only = id->afonly,
		.ifindex = id->to.way.ifindex,
	};
	int rc;

	sockaddr_ip(src, s.ip);
	if (id->dev && !cma_ip_is_loopback(s.ip)) {
		s.iwarp = s.only_iwarp = id->dev->iwarp;
	} else if (cma_kind_of(id) == CMA_ANY) {
		s.iwarp = cma_has_kind(CMA_IWARP);
		s.only_iwarp = !cma_has_kind(CMA_ROCE);
	}
	rc = cma_gate()->bind(id->ctx, &s, &id->listener);
	if (rc)
		return rc;
	cma_set_src_port(id, s.port);
	return 0;
}

/* No device of ours has it; does this host? */
static int why_no_device(const struct sockaddr *a)
{
	struct sockaddr_storage self;

	memset(&self, 0, sizeof(self));
	memcpy(&self, a, sockaddr_len(a));
	return cma_find_source(a, &self) == -EADDRNOTAVAIL ? -EADDRNOTAVAIL : -ENODEV;
}

static int bind_addr(struct cma_id *id, struct sockaddr *a)
{
	uint8_t ip[16];
	int rc;

	if (id->state != CMA_NEW || !a)
		return -EINVAL;
	if (!sockaddr_len(a))
		return -EAFNOSUPPORT;
	/* As with the kernel's rdma_cm, who is bound to loopback has no device
	 * yet: libfabric counts on that.  But where there is no other, the loopback
	 * interface's will be it: a server that needs one (SPDK) gets it. */
	sockaddr_ip(a, ip);
	if (cma_is_any(a) ||
	    (cma_ip_is_loopback(ip) && !cma_all_have(ip, cma_kind_of(id)))) {
		struct cma_dev *dev;

		rc = cma_any_dev(&dev);
		if (rc)
			return rc;
		id->ctx = dev->ctx;
	} else {
		rc = cma_bind_dev(id, ip, sockaddr_scope(a), cma_kind_of(id));
		if (rc)
			return rc == -ENODEV ? why_no_device(a) : rc;
	}
	memcpy(&id->id.route.addr.src_storage, a, sockaddr_len(a));
	id->to.src_port = sockaddr_port(a);
	rc = cma_take_name(id);
	if (rc == -EADDRINUSE && id->reuse && sockaddr_port(a))
		rc = 0; /* who listens first has it */
	if (!rc)
		id->state = CMA_BOUND;
	return rc;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	return cma_result(bind_addr(cma_of(id), addr));
}

int cma_bind_any(struct cma_id *id)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return bind_addr(id, (struct sockaddr *)&any);
}

/* --- resolving ----------------------------------------------------------- */

/* Which of our addresses does the kernel reach dst from?  src: as far as it is
 * known, completed here. */
int cma_find_source(const struct sockaddr *dst, struct sockaddr_storage *src)
{
	int fd = fd_socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = 0;
	socklen_t len = sizeof(*src);
	struct sockaddr_storage to;

	if (fd < 0)
		return -errno;
	memset(&to, 0, sizeof(to));
	memcpy(&to, dst, sockaddr_len(dst));
	if (!sockaddr_port(dst))
		sockaddr_set_port((struct sockaddr *)&to, 9);
	if (src->ss_family == dst->sa_family && !cma_is_any((struct sockaddr *)src)) {
		sockaddr_set_port((struct sockaddr *)src, 0);
		if (bind(fd, (struct sockaddr *)src,
			 sockaddr_len((struct sockaddr *)src)))
			rc = -errno;
	}
	if (!rc && connect(fd, (struct sockaddr *)&to, sockaddr_len(dst)))
		rc = -errno;
	if (!rc && getsockname(fd, (struct sockaddr *)src, &len))
		rc = -errno;
	close(fd);
	return rc;
}

static uint16_t any_port(void)
{
	return (uint16_t)(PORT_FIRST + rand_start() % PORTS);
}

/* As with the kernel's rdma_cm, what goes by loopback is of some real device if
 * there is one: programs (libfabric) leave lo out. */
static int choose_way(struct cma_id *id, uint32_t ifindex)
{
	struct cm_way *w = &id->to.way;
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
	rc = choose_way(id, sockaddr_scope((struct sockaddr *)&from));
	if (rc)
		return rc;
	id->to.src_port = port ? port : any_port();
	sockaddr_set_port((struct sockaddr *)&from, id->to.src_port);
	route->src_storage = from;
	memset(&route->dst_storage, 0, sizeof(route->dst_storage));
	memcpy(&route->dst_storage, dst, sockaddr_len(dst));
	id->to.way.ifindex = sockaddr_scope(dst);
	id->to.dst_port = sockaddr_port(dst);
	id->to.space = (uint16_t)id->id.ps;
	id->to.datagram = cma_is_datagram(id);
	memcpy(route->addr.ibaddr.sgid.raw, id->to.way.src, 16);
	memcpy(route->addr.ibaddr.dgid.raw, id->to.way.dst, 16);
	route->addr.ibaddr.pkey = PKEY_DEFAULT;
	return 0;
}

static int resolve_addr(struct cma_id *id, struct sockaddr *src, struct sockaddr *dst)
{
	int rc;

	if (id->state > CMA_ADDR || !dst)
		return -EINVAL;
	if (!sockaddr_len(dst))
		return -EAFNOSUPPORT;
	rc = cma_init();
	if (rc)
		return rc;
	rc = resolve(id, src, dst);
	/* What the kernel's routes say is known at once; as with its rdma_cm, only
	 * what concerns devices is an event. */
	if (rc && rc != -ENODEV)
		return rc;
	if (!rc)
		id->state = CMA_ADDR;
	return cma_post(id, rc ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
			rc, NULL);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
			     struct sockaddr *dst_addr, int timeout_ms)
{
	int rc;

	(void)timeout_ms; /* it takes none: the kernel finds neighbours
			   * when datagrams go to them */
	rc = cma_result(resolve_addr(cma_of(id), src_addr, dst_addr));
	return rc ? rc : cma_complete(cma_of(id));
}

/* What a subnet manager would say of the path. */
static int fill_path(struct cma_id *id)
{
	struct ibv_sa_path_rec *rec = calloc(1, sizeof(*rec));

	if (!rec)
		return -ENOMEM;
	memcpy(rec->sgid.raw, id->to.way.src, 16);
	memcpy(rec->dgid.raw, id->to.way.dst, 16);
	rec->hop_limit = 64;
	rec->traffic_class = id->tos;
	rec->reversible = 1;
	rec->numb_path = 1;
	rec->pkey = PKEY_DEFAULT;
	rec->mtu_selector = rec->rate_selector = rec->packet_life_time_selector = 2;
	rec->mtu = id->to.mtu;
	rec->rate = IBV_RATE_25_GBPS;
	rec->packet_life_time = (uint8_t)(id->ack_timeout ? id->ack_timeout - 1 : 0);
	free(id->id.route.path_rec);
	id->id.route.path_rec = rec;
	id->id.route.num_paths = 1;
	return 0;
}

static int resolve_route(struct cma_id *id)
{
	int rc;

	if (id->state != CMA_ADDR)
		return -EINVAL;
	rc = cma_is_iwarp(id) ? 0 : fill_path(id); /* TCP finds its way */
	if (rc)
		return rc;
	id->state = CMA_ROUTE;
	return cma_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int rc = cma_result(resolve_route(cma_of(id)));

	(void)timeout_ms;
	return rc ? rc : cma_complete(cma_of(id));
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return ((struct sockaddr_in *)&id->route.addr.src_addr)->sin_port;
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return ((struct sockaddr_in *)&id->route.addr.dst_addr)->sin_port;
}
