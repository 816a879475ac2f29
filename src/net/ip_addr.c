/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_addr.c - see ip_addr.h: maps a GRH to IP addresses as RoCE does (IBTA annexes A16,
 * A17). */
#include "net/ip_addr.h"

#include "net/link.h"
#include "wire/grh.h"

enum { HOP_LIMIT = 64 };

static bool is_zero(const uint8_t ip[16])
{
	static const uint8_t zero[16];

	return memcmp(ip, zero, 16) == 0;
}

/* Is the address valid on one interface only (link-local)? Otherwise the kernel routes
 * by address, even to another interface of this host. */
static bool is_scoped(const uint8_t ip[16])
{
	return addr_is_multicast(ip) || addr_is_link_local(ip);
}

/* Programs set the hop limit to 0 or 1 and rely on the kernel, which takes RoCE v2's hop
 * limit from the route. */
static uint8_t hops(const struct link_to *to)
{
	if (to->hop_limit <= 1 && !addr_is_multicast(to->dgid))
		return HOP_LIMIT;
	return to->hop_limit ? to->hop_limit : 1;
}

const char *ip_resolve(const struct link_to *to, struct link_addr *out)
{
	struct ip_addr a = { .tclass = to->tclass };

	if (!to->grh)
		return "RoCE has no address without a GRH";
	if (is_zero(to->dgid))
		return "the destination GID is zero";
	if (!addr_is_multicast(to->dgid) && addr_is_v4(to->dgid) != addr_is_v4(to->sgid))
		return "source and destination GID are of different IP versions";
	if (to->v1 && addr_is_multicast(to->dgid))
		return "multicast groups are of RoCE v2: use another sgid_index";
	memcpy(a.from.ip, to->sgid, 16);
	memcpy(a.to.ip, to->dgid, 16);
	a.ifindex = is_scoped(to->dgid) ? to->port : 0;
	a.ttl = hops(to);
	a.from.port = to->told && !to->v1 ? IP_TOLD : 0;
	a.v1 = to->v1;
	memcpy(out, &a, sizeof(a));
	return NULL;
}

bool ip_is_from(const struct link_addr *path, const struct dgram *d)
{
	const struct ip_addr *p = ip_addr(path), *a = ip_of(d);

	return a->v1 == p->v1 && memcmp(a->from.ip, p->to.ip, 16) == 0 &&
	       memcmp(a->to.ip, p->from.ip, 16) == 0;
}

void ip_dest(const struct link_addr *addr, struct link_dest *out)
{
	const struct ip_addr *a = ip_addr(addr);

	memcpy(out->gid, a->to.ip, 16);
	out->lid = 0;
	out->port = a->ifindex;
	out->group = addr_is_multicast(a->to.ip);
}

/* A17.4.5.1: the completion says which header a datagram came with. ibv_wc has no field
 * for it; UCX expects it where ConnectX puts it, in sl: bit 3 means UDP, bits 2-0 the
 * layer 3 header. */
enum { SL_UDP = 8, SL_IPV6 = 1, SL_IPV4 = 2 };

void ip_head(const struct dgram *d, struct link_head *out)
{
	const struct ip_addr *a = ip_of(d);

	*out = (struct link_head){
		.grh = true,
		.sl = a->v1		     ? 0
		      : addr_is_v4(a->to.ip) ? SL_UDP | SL_IPV4
					     : SL_UDP | SL_IPV6,
	};
	grh_build(out->bytes, &(struct grh_fields){
				      .src = a->from.ip,
				      .dst = a->to.ip,
				      .tclass = a->tclass,
				      .ttl = a->ttl,
				      .ip_id = (uint16_t)(d->ip_id > 0 ? d->ip_id : 0),
				      .udp_len = d->len + TRAILER_LEN,
				      .v1 = a->v1,
			      });
}
