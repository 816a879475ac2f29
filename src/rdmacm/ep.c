/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_ep.c - rdma_getaddrinfo() and endpoints: an id, what it is bound to and
 * its QP in one call. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "abi/cma.h"

enum { RESOLVE_MS = 2000 };

/* --- names --------------------------------------------------------------- */

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

/* As getaddrinfo() says it: EAI_... are negative, EAI_SYSTEM leaves errno. */
static int ask(const char *node, const char *service, int flags, int family,
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

static int fill_addrs(struct rdma_addrinfo *r, const struct addrinfo *ai,
		      const struct rdma_addrinfo *hints)
{
	r->ai_family = ai->ai_family;
	if (r->ai_flags & RAI_PASSIVE)
		return copy_addr(&r->ai_src_addr, &r->ai_src_len, ai->ai_addr,
				 ai->ai_addrlen);
	if (hints && hints->ai_src_len &&
	    copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr,
		      hints->ai_src_len))
		return -ENOMEM;
	return copy_addr(&r->ai_dst_addr, &r->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
}

/* No name to ask for: what the hints have, be it one address or both. */
static int take_hints(struct rdma_addrinfo *r, const struct rdma_addrinfo *hints)
{
	int rc = 0;

	r->ai_family = hints->ai_family;
	if (hints->ai_src_len)
		rc = copy_addr(&r->ai_src_addr, &r->ai_src_len, hints->ai_src_addr,
			       hints->ai_src_len);
	if (!rc && hints->ai_dst_len)
		rc = copy_addr(&r->ai_dst_addr, &r->ai_dst_len, hints->ai_dst_addr,
			       hints->ai_dst_len);
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

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *r;
	struct addrinfo *ai;
	int rc;

	if (!node && !service && !hints)
		return cma_result(-EINVAL);
	if (cma_result(cma_init()))
		return -1;
	r = calloc(1, sizeof(*r));
	if (!r)
		return cma_result(-ENOMEM);
	fill_types(r, hints);
	if (!node && !service) {
		rc = take_hints(r, hints);
	} else {
		rc = ask(node, service, r->ai_flags, hints ? hints->ai_family : 0, &ai);
		if (rc) {
			free(r);
			return rc;
		}
		rc = fill_addrs(r, ai, hints);
		freeaddrinfo(ai);
	}
	if (rc) {
		rdma_freeaddrinfo(r);
		return cma_result(rc);
	}
	*res = r;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
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

/* --- endpoints ----------------------------------------------------------- */

static int keep_qp_init(struct cma_id *id, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *init)
{
	if (!init)
		return 0;
	id->qp_init = malloc(sizeof(*init));
	if (!id->qp_init)
		return -ENOMEM;
	*id->qp_init = *init;
	id->qp_init->qp_type = id->id.qp_type;
	id->qp_pd = pd;
	return 0;
}

static int passive_ep(struct cma_id *id, const struct rdma_addrinfo *res,
		      struct ibv_pd *pd, const struct ibv_qp_init_attr *init)
{
	if (rdma_bind_addr(&id->id, res->ai_src_addr))
		return -errno;
	return keep_qp_init(id, pd, init);
}

static int active_ep(struct cma_id *id, const struct rdma_addrinfo *res,
		     struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	if (rdma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
	    rdma_resolve_route(&id->id, RESOLVE_MS))
		return -errno;
	if (init) {
		init->qp_type = id->id.qp_type;
		if (rdma_create_qp(&id->id, pd, init))
			return -errno;
	}
	if (res->ai_connect_len) {
		id->connect = malloc(res->ai_connect_len);
		if (!id->connect)
			return -ENOMEM;
		memcpy(id->connect, res->ai_connect, res->ai_connect_len);
		id->connect_len = res->ai_connect_len;
	}
	return 0;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res,
			  struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct cma_id *id;
	int rc;

	if (!out || !res)
		return cma_result(-EINVAL);
	rc = cma_id_new(NULL, NULL, (enum rdma_port_space)res->ai_port_space,
			(enum ibv_qp_type)res->ai_qp_type, &id);
	if (rc)
		return cma_result(rc);
	rc = res->ai_flags & RAI_PASSIVE ? passive_ep(id, res, pd, init)
					 : active_ep(id, res, pd, init);
	if (rc) {
		rdma_destroy_ep(&id->id);
		return cma_result(rc);
	}
	*out = &id->id;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}
