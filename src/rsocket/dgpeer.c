/* SPDX-License-Identifier: BSD-2-Clause */
/* dgpeer.c - see dgpeer.h. */
#include "rsocket/dgpeer.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rsocket/os.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

/* A peer that was quiet for so long is asked for its QP again, by UDP. */
#define KNOWN_NS RSOCK_S

bool rsock_dgpeer_known(const struct rsock_dgpeer *p)
{
	return p->qpn && p->ah && rsock_now() - p->heard < KNOWN_NS;
}

void rsock_dgpeer_learn(struct rsock_dgpeer *p, uint32_t qpn)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = p->via->port.sgid_index, .hop_limit = 64 },
	};

	memcpy(a.grh.dgid.raw, addr_is_loopback(p->ip) ? p->via->port.gid : p->ip, 16);
	if (!p->ah)
		p->ah = ibv_create_ah(p->via->port.pd, &a);
	p->qpn = qpn;
	p->heard = rsock_now();
}

static uint32_t interface(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6
		       ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_scope_id
		       : 0;
}

static int make_peer(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer *p)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, p->ip);
	p->port = sockaddr_port(to);
	p->ifindex = interface(to);
	if (getsockname(dg->udp, (struct sockaddr *)&from, &len))
		return -errno;
	rc = rsock_rdma_source(to, &from);
	if (rc)
		return rc;
	sockaddr_ip((struct sockaddr *)&from, ip);
	return rsock_dgqp_for(dg, ip, interface((struct sockaddr *)&from), &p->via);
}

void rsock_dgpeer_free(struct rsock_dgpeer *p)
{
	list_del(&p->node);
	if (p->ah)
		ibv_destroy_ah(p->ah);
	free(p);
}

/* Frees the peer that was quiet for longest, if there are too many. Strangers make peers,
 * too, and may use any number of addresses. */
static void make_room(struct rsock_dgram *dg)
{
	struct rsock_dgpeer *oldest = NULL;

	if (dg->npeers < RSOCK_PEERS_MAX)
		return;
	list_for(n, &dg->peers)
	{
		struct rsock_dgpeer *p = container_of(n, struct rsock_dgpeer, node);

		if (p != dg->peer && (!oldest || p->used < oldest->used))
			oldest = p;
	}
	dg->npeers--;
	rsock_dgpeer_free(oldest);
}

int rsock_dgpeer_for(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer **out)
{
	struct rsock_dgpeer *p;
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, ip);
	list_for(n, &dg->peers)
	{
		p = container_of(n, struct rsock_dgpeer, node);
		if (p->port != sockaddr_port(to) || memcmp(p->ip, ip, 16) ||
		    p->ifindex != interface(to))
			continue;
		p->used = rsock_now();
		*out = p;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	rc = make_peer(dg, to, p);
	if (rc) {
		free(p);
		return rc;
	}
	p->used = rsock_now();
	make_room(dg);
	dg->npeers++;
	list_add_tail(&dg->peers, &p->node);
	*out = p;
	return 0;
}

void rsock_dgpeer_heard(struct rsock_dgram *dg, const struct rsock_dgmsg *m)
{
	list_for(n, &dg->peers)
	{
		struct rsock_dgpeer *p = container_of(n, struct rsock_dgpeer, node);

		if (p->port == m->port && !memcmp(p->ip, m->ip, 16))
			p->heard = p->used = rsock_now();
	}
}
