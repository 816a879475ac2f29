/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - see bind.h. */
#include "rdmacm/bind.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/id.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/rand.h"
#include "sys/sockaddr.h"

/* The default of ip_local_port_range. */
enum { PORT_FIRST = 32768, PORTS = 28232, PORT_TRIES = 1000 };

/* Q_Key of IP over InfiniBand's groups, as OpenSM makes them; an id of RDMA_PS_IPOIB is
 * in those groups. */
enum { QKEY_IPOIB = 0x0b1b };

bool cma_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_IB)
		return ib_addr_any(
			&((const struct sockaddr_ib *)(const void *)a)->sib_addr);
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == 0;
}

uint16_t cma_any_port(void)
{
	return (uint16_t)(PORT_FIRST + rand_start() % PORTS);
}

/* iWARP has connections only (RC), and TCP ports. */
enum cma_kind cma_kind_of(const struct cma_id *id)
{
	return id->id.ps == RDMA_PS_TCP && id->id.qp_type == IBV_QPT_RC ? CMA_ANY
									: CMA_ROCE;
}

/* Stores the id's own GID as its source: packets of InfiniBand have no IP address. */
static int own_gid(struct cma_id *id)
{
	union ibv_gid gid;

	if (ibv_query_gid(id->ctx, 1, id->sgid_index, &gid))
		return -ENODEV;
	memcpy(id->to.route.src, gid.raw, 16);
	return 0;
}

static void use_dev(struct cma_id *id)
{
	id->ctx = id->id.verbs = id->dev->ctx;
	id->id.pd = id->dev->pd;
	id->id.port_num = 1;
	id->to.mtu = cma_dev_mtu(id->dev);
	id->to.iwarp = id->dev->iwarp;
	if (id->dev->ib && id->id.ps == RDMA_PS_IPOIB)
		id->qkey = QKEY_IPOIB;
}

static int begin_at(struct cma_id *id, const struct cma_place *p)
{
	id->dev = p->dev;
	id->sgid_index = p->index;
	use_dev(id);
	memcpy(id->to.route.src, p->ip, 16);
	id->to.route.ifindex = p->ifindex;
	return id->dev->ib ? own_gid(id) : 0;
}

int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind)
{
	struct cma_place place;
	int rc = cma_dev_of(ip, ifindex, kind, &place);

	return rc ? rc : begin_at(id, &place);
}

int cma_bind_loopback(struct cma_id *id, const uint8_t ip[16], enum cma_kind kind)
{
	struct cma_place place;
	int rc = cma_loopback(ip, kind, &place);

	return rc ? rc : begin_at(id, &place);
}

uint16_t cma_pkey(const struct cma_id *id)
{
	__be16 pkey;

	if (!id->dev || !id->dev->ib ||
	    ibv_query_pkey(id->ctx, 1, id->to.route.pkey_index, &pkey))
		return CMA_PKEY_DEFAULT;
	return be16toh(pkey);
}

int cma_bind_ib(struct cma_id *id, struct cma_dev *ib)
{
	id->dev = ib;
	id->sgid_index = 0;
	use_dev(id);
	return own_gid(id);
}

/* --- binding ------------------------------------------------------------- */

void cma_set_src_port(struct cma_id *id, uint16_t port)
{
	sockaddr_set_port(&id->id.route.addr.src_addr, port);
	id->to.src_port = port;
}

/* Chooses the port space of a service ID of which the program has set some bits
 * (sib_sid_mask), as Linux does. Returns 0 if the id may have none that fits. */
static uint16_t space_of(enum rdma_port_space ps, const struct sockaddr_ib *a)
{
	static const uint16_t spaces[] = { RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP };
	const uint64_t mask = be64toh(a->sib_sid_mask) & RDMA_IB_IP_PS_MASK;
	const uint64_t said = be64toh(a->sib_sid) & mask;

	for (unsigned i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if ((ps == RDMA_PS_IB || ps == (enum rdma_port_space)spaces[i]) &&
		    said == ((uint64_t)spaces[i] << 16 & mask))
			return spaces[i];
	return 0;
}

/* Completes the service ID of an AF_IB source, except for its port, which may be 0. */
static int complete_service(struct cma_id *id, struct sockaddr *src)
{
	struct sockaddr_ib *a = (void *)src;
	const uint64_t said = be64toh(a->sib_sid) & be64toh(a->sib_sid_mask);
	uint16_t space;

	if (src->sa_family != AF_IB)
		return 0;
	space = space_of(id->id.ps, a);
	if (!space)
		return -EPROTONOSUPPORT;
	a->sib_sid = htobe64((uint64_t)space << 16 | (said & RDMA_IB_IP_PORT_MASK));
	a->sib_sid_mask |= htobe64(RDMA_IB_IP_PS_MASK);
	return 0;
}

/* Registers the service with the fabric, which knows all services at its adapters. The
 * fabric is asked before the turn is taken. If other devices can serve the name, a fabric
 * that has ended is no failure. */
static int serve_fabric(struct cma_id *id, struct cm_service *s)
{
	bool only;
	struct cma_dev *ib = cma_ib_dev(&only);
	int fd;

	if (!ib || (id->dev && id->dev != ib))
		return 0;
	s->only_ib = only || id->dev;
	if (!s->port)
		s->port = cma_any_port();
	fd = cm_gate_serve(ib->ctx, s);
	if (fd < 0)
		return fd == -EADDRINUSE || s->only_ib ? fd : 0;
	s->fd = fd;
	return 0;
}

static int take_name(struct cma_id *id, struct cm_service *s)
{
	int rc = serve_fabric(id, s);

	if (!rc)
		rc = cm_gate_bind(id->ctx, s, &id->listener);
	if (rc && s->fd)
		close(s->fd);
	return rc;
}

int cma_take_name(struct cma_id *id)
{
	struct sockaddr *src = &id->id.route.addr.src_addr;
	const bool native = src->sa_family == AF_IB;
	struct cm_service s = {
		.space = native ? (uint16_t)(sockaddr_service(src) >> 16)
				: (uint16_t)id->id.ps,
		.port = sockaddr_port(src),
		.any = cma_is_any(src),
		.v6 = src->sa_family != AF_INET, /* GIDs: both families */
		.native = native,
		.v6_only = id->afonly,
		.ifindex = id->to.route.ifindex,
	}, mine = s;
	int rc = -EADDRINUSE;

	sockaddr_ip(src, s.ip);
	if (id->dev && !addr_is_loopback(s.ip)) {
		s.iwarp = s.only_iwarp = id->dev->iwarp;
	} else if (cma_kind_of(id) == CMA_ANY && !native) {
		s.iwarp = cma_has_kind(CMA_IWARP);
		s.only_iwarp = !cma_has_kind(CMA_ROCE);
	}
	for (unsigned i = 0; rc == -EADDRINUSE && i < (s.port ? 1 : PORT_TRIES); i++) {
		mine = s;
		rc = take_name(id, &mine);
	}
	if (!rc)
		cma_set_src_port(id, mine.port);
	return rc;
}

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

/* No device of ours has address a. Returns -EADDRNOTAVAIL if this host does not have it
 * either, else -ENODEV. */
static int why_no_device(const struct sockaddr *a)
{
	struct sockaddr_storage self;

	memset(&self, 0, sizeof(self));
	memcpy(&self, a, sockaddr_len(a));
	return cma_find_source(a, &self) == -EADDRNOTAVAIL ? -EADDRNOTAVAIL : -ENODEV;
}

/* Does ip mean this host? All of 127/8 does. If the adapter is the only device, just
 * 127.0.0.1, as the fabric's addresses are in 127/8. */
static bool is_this_host(const uint8_t ip[16])
{
	static const uint8_t localhost[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	bool only;

	(void)cma_ib_dev(&only);
	return addr_is_loopback(ip) &&
	       (!only || !addr_is_v4(ip) || !memcmp(ip, localhost, sizeof(localhost)));
}

/* Chooses the device that has the address a; for a wildcard, a context of any. */
static int choose_dev(struct cma_id *id, const struct sockaddr *a)
{
	const enum cma_kind kind = a->sa_family == AF_IB ? CMA_ROCE : cma_kind_of(id);
	struct cma_dev *dev;
	uint8_t ip[16];
	int rc;

	/* As with the kernel's rdma_cm, an id bound to loopback has no device yet, which
	 * libfabric relies on. But if all devices are of the loopback interface the id
	 * gets one, as a server such as SPDK needs it. */
	sockaddr_ip(a, ip);
	if (cma_is_any(a) || (is_this_host(ip) && !cma_all_have(ip, kind))) {
		rc = cma_any_dev(&dev);
		if (!rc)
			id->ctx = dev->ctx;
		return rc;
	}
	rc = cma_bind_dev(id, ip, sockaddr_scope(a), kind);
	return rc == -ENODEV && a->sa_family != AF_IB ? why_no_device(a) : rc;
}

int cma_bind(struct cma_id *id, const struct sockaddr *a)
{
	struct sockaddr *src = &id->id.route.addr.src_addr;
	int rc;

	if (!a)
		return cma_refuse("the address is NULL");
	if (id->state != CMA_NEW)
		return cma_not_now(id);
	if (!sockaddr_len(a))
		return -EAFNOSUPPORT;
	rc = choose_dev(id, a);
	if (rc)
		return rc;
	memcpy(src, a, sockaddr_len(a));
	rc = complete_service(id, src);
	if (rc)
		return rc;
	id->to.src_port = sockaddr_port(src);
	rc = cma_take_name(id);
	if (rc == -EADDRINUSE && id->reuse && id->to.src_port)
		rc = 0; /* the first of them to listen gets the port */
	if (!rc)
		id->state = CMA_BOUND;
	return rc;
}

int cma_bind_any(struct cma_id *id)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return cma_bind(id, (struct sockaddr *)&any);
}
