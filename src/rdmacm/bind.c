/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - see bind.h. */
#include "rdmacm/bind.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/rand.h"
#include "sys/sockaddr.h"

/* ip_local_port_range's default */
enum { PORT_FIRST = 32768, PORTS = 28232, PORT_TRIES = 1000 };

bool cma_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(
			&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
	return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr == 0;
}

uint16_t cma_any_port(void)
{
	return (uint16_t)(PORT_FIRST + rand_start() % PORTS);
}

/* iWARP has connections only, and its ports are TCP's. */
enum cma_kind cma_kind_of(const struct cma_id *id)
{
	return id->id.ps == RDMA_PS_TCP && id->id.qp_type == IBV_QPT_RC ? CMA_ANY
									: CMA_ROCE;
}

/* Packets of InfiniBand know no IP address. */
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
	id->to.mtu = (uint8_t)id->dev->mtu;
	id->to.iwarp = id->dev->iwarp;
}

int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind)
{
	int rc = cma_dev_of(ip, ifindex, kind, &id->dev, &id->sgid_index);

	if (rc)
		return rc;
	use_dev(id);
	memcpy(id->to.route.src, ip, 16);
	id->to.route.ifindex = ifindex;
	return id->dev->ib ? own_gid(id) : 0;
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

/* At an adapter its fabric knows who serves what; it is asked before the turn is taken.
 * One that has ended is none, where there are interfaces. */
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
	struct cm_service s = {
		.space = (uint16_t)id->id.ps,
		.port = sockaddr_port(src),
		.any = cma_is_any(src),
		.v6 = src->sa_family == AF_INET6,
		.v6_only = id->afonly,
		.ifindex = id->to.route.ifindex,
	}, mine = s;
	int rc = -EADDRINUSE;

	sockaddr_ip(src, s.ip);
	if (id->dev && !cma_ip_is_loopback(s.ip)) {
		s.iwarp = s.only_iwarp = id->dev->iwarp;
	} else if (cma_kind_of(id) == CMA_ANY) {
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

/* No device of ours has it; does this host? */
static int why_no_device(const struct sockaddr *a)
{
	struct sockaddr_storage self;

	memset(&self, 0, sizeof(self));
	memcpy(&self, a, sockaddr_len(a));
	return cma_find_source(a, &self) == -EADDRNOTAVAIL ? -EADDRNOTAVAIL : -ENODEV;
}

/* All of 127/8; but at an adapter alone, whose fabric's addresses lie there, the one that
 * everybody means. */
static bool is_this_host(const uint8_t ip[16])
{
	static const uint8_t localhost[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	bool only;

	(void)cma_ib_dev(&only);
	return cma_ip_is_loopback(ip) &&
	       (!only || !addr_is_v4(ip) || !memcmp(ip, localhost, sizeof(localhost)));
}

int cma_bind(struct cma_id *id, const struct sockaddr *a)
{
	uint8_t ip[16];
	int rc;

	if (id->state != CMA_NEW || !a)
		return -EINVAL;
	if (!sockaddr_len(a))
		return -EAFNOSUPPORT;
	/* As with the kernel's rdma_cm, an id bound to loopback has no device
	 * yet: libfabric counts on that.  But where there is no other, the loopback
	 * interface's will be it: a server that needs one (SPDK) gets it. */
	sockaddr_ip(a, ip);
	if (cma_is_any(a) || (is_this_host(ip) && !cma_all_have(ip, cma_kind_of(id)))) {
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
		rc = 0; /* the first to listen has it */
	if (!rc)
		id->state = CMA_BOUND;
	return rc;
}

int cma_bind_any(struct cma_id *id)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return cma_bind(id, (struct sockaddr *)&any);
}
