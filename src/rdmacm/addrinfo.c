/* SPDX-License-Identifier: BSD-2-Clause */
/* addrinfo.c - see addrinfo.h. */
#include "rdmacm/addrinfo.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "sys/sockaddr.h"

static int copy_addr(struct sockaddr **to, socklen_t *len, const struct sockaddr *from,
		     socklen_t n)
{
	if (!from || n > sizeof(struct sockaddr_storage))
		return -EINVAL;
	*to = calloc(1, sizeof(struct sockaddr_storage));
	if (!*to)
		return -ENOMEM;
	memcpy(*to, from, n);
	*len = n;
	return 0;
}

/* Returns as getaddrinfo() does: EAI_..., which are negative; EAI_SYSTEM leaves errno. */
static int query_names(const char *node, const char *service, int flags, int family,
		       struct addrinfo **out)
{
	struct addrinfo hints = {
		.ai_family = family == AF_IB ? AF_UNSPEC : family,
		.ai_flags = (flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
			    (flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		.ai_socktype = SOCK_STREAM,
	};

	return getaddrinfo(node, service, &hints, out);
}

/* Has the program said that node is a GID? getaddrinfo() has read it as an IPv6
 * address. */
static bool wants_gid(const struct rdma_addrinfo *hints)
{
	enum { FLAGS = RAI_FAMILY | RAI_NUMERICHOST };

	return hints && hints->ai_family == AF_IB && (hints->ai_flags & FLAGS) == FLAGS;
}

/* Makes an AF_IB address of an IP address. The service ID has the port space, and the
 * port if there is one. */
static socklen_t as_gid(const struct rdma_addrinfo *r, const struct sockaddr *ip,
			struct sockaddr_storage *to)
{
	struct sockaddr_ib *ib = (void *)to;
	const uint16_t port = sockaddr_port(ip);
	uint8_t gid[16] = { 0 };

	if (!cma_is_any(ip))
		sockaddr_ip(ip, gid);
	sockaddr_set_gid(to, gid, CMA_PKEY_DEFAULT,
			 (uint64_t)r->ai_port_space << 16 | port);
	ib->sib_sid_mask =
		htobe64(RDMA_IB_IP_PS_MASK | (port ? RDMA_IB_IP_PORT_MASK : 0));
	if (ip->sa_family == AF_INET6)
		ib->sib_scope_id =
			((const struct sockaddr_in6 *)(const void *)ip)->sin6_scope_id;
	return sizeof(*ib);
}

static int fill_addrs(struct rdma_addrinfo *r, const struct addrinfo *ai,
		      const struct rdma_addrinfo *hints)
{
	const struct sockaddr *a = ai->ai_addr;
	struct sockaddr_storage gid;
	socklen_t len = ai->ai_addrlen;
	int rc = 0;

	if (wants_gid(hints)) {
		len = as_gid(r, a, &gid);
		a = (const struct sockaddr *)&gid;
	}
	r->ai_family = a->sa_family;
	if (r->ai_flags & RAI_PASSIVE)
		return copy_addr(&r->ai_src_addr, &r->ai_src_len, a, len);
	if (hints && hints->ai_src_len)
		rc = copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr,
			       hints->ai_src_len);
	return rc ? rc : copy_addr(&r->ai_dst_addr, &r->ai_dst_len, a, len);
}

static int copy_addrs(struct rdma_addrinfo *r, const struct rdma_addrinfo *from)
{
	int rc = 0;

	r->ai_family = from->ai_family;
	if (from->ai_src_len)
		rc = copy_addr(&r->ai_src_addr, &r->ai_src_len, from->ai_src_addr,
			       from->ai_src_len);
	if (!rc && from->ai_dst_len)
		rc = copy_addr(&r->ai_dst_addr, &r->ai_dst_len, from->ai_dst_addr,
			       from->ai_dst_len);
	return rc;
}

static void fill_types(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	r->ai_flags = hints ? hints->ai_flags : 0;
	r->ai_qp_type = hints ? hints->ai_qp_type : 0;
	r->ai_port_space = hints ? hints->ai_port_space : 0;
	if (!r->ai_qp_type)
		r->ai_qp_type = r->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (!r->ai_port_space)
		r->ai_port_space =
			r->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
}

int cma_getaddrinfo(const char *node, const char *service,
		    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res,
		    bool *eai)
{
	struct rdma_addrinfo *r;
	struct addrinfo *ai;
	int rc;

	*eai = false;
	if (!node && !service && !hints)
		return -EINVAL;
	rc = cma_init();
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	fill_types(r, hints);
	if (!node && !service) {
		rc = copy_addrs(r, hints); /* they are the result */
	} else {
		rc = query_names(node, service, r->ai_flags, hints ? hints->ai_family : 0,
				 &ai);
		if (rc) {
			free(r);
			*eai = true;
			return rc;
		}
		rc = fill_addrs(r, ai, hints);
		freeaddrinfo(ai);
	}
	if (rc) {
		cma_freeaddrinfo(r);
		return rc;
	}
	*res = r;
	return 0;
}

void cma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}

/* --- for an id ------------------------------------------------------------------- */

int cma_resolve_addrinfo(struct cma_id *id, const char *node, const char *service,
			 const struct rdma_addrinfo *hints)
{
	const int flags = hints ? hints->ai_flags & (RAI_SA | RAI_DNS) : 0;
	struct rdma_addrinfo *info = NULL;
	bool eai;
	int rc;

	if (flags == (RAI_SA | RAI_DNS) || (flags == RAI_SA && (node || !id->dev)) ||
	    (!node && !service && !hints))
		return -EINVAL;
	if (flags == RAI_SA)
		return -EOPNOTSUPP;
	rc = cma_getaddrinfo(node, service, hints, &info, &eai);
	if (eai && rc == EAI_SYSTEM)
		rc = -errno;
	if (!rc) {
		cma_freeaddrinfo(id->info);
		id->info = info;
	}
	return cma_post(id,
			rc ? RDMA_CM_EVENT_ADDRINFO_ERROR
			   : RDMA_CM_EVENT_ADDRINFO_RESOLVED,
			rc, NULL);
}

int cma_query_addrinfo(const struct cma_id *id, struct rdma_addrinfo **out)
{
	const struct rdma_addrinfo *from = id->info;
	struct rdma_addrinfo *r;
	int rc;

	if (!from)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->ai_flags = from->ai_flags;
	r->ai_qp_type = from->ai_qp_type;
	r->ai_port_space = from->ai_port_space;
	rc = copy_addrs(r, from);
	if (rc)
		cma_freeaddrinfo(r);
	else
		*out = r;
	return rc;
}
