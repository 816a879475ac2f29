/* SPDX-License-Identifier: BSD-2-Clause */
/* sockaddr.c - socket addresses; see sockaddr.h. */
#include "sys/sockaddr.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <string.h>

#include "sys/addr.h"

#define PORT_MASK UINT64_C(0xffff)

void sockaddr_ip(const struct sockaddr *a, uint8_t ip[16])
{
	if (a->sa_family == AF_INET6)
		memcpy(ip, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		       16);
	else if (a->sa_family == AF_IB)
		memcpy(ip,
		       ((const struct sockaddr_ib *)(const void *)a)->sib_addr.sib_raw,
		       16);
	else
		addr_map_v4(ip, &((const struct sockaddr_in *)(const void *)a)->sin_addr);
}

uint64_t sockaddr_service(const struct sockaddr *a)
{
	return be64toh(((const struct sockaddr_ib *)(const void *)a)->sib_sid);
}

/* The port lies at the same place in both IP address structs. */
uint16_t sockaddr_port(const struct sockaddr *a)
{
	if (a->sa_family == AF_IB)
		return (uint16_t)sockaddr_service(a);
	return ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
}

void sockaddr_set_port(struct sockaddr *a, uint16_t port)
{
	struct sockaddr_ib *ib = (void *)a;

	if (a->sa_family == AF_IB) {
		ib->sib_sid = htobe64((be64toh(ib->sib_sid) & ~PORT_MASK) | port);
		ib->sib_sid_mask |= htobe64(PORT_MASK);
		return;
	}
	((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

uint32_t sockaddr_scope(const struct sockaddr *a)
{
	const struct sockaddr_in6 *in6 = (const void *)a;

	return a->sa_family == AF_INET6 && addr_is_link_local(in6->sin6_addr.s6_addr)
		       ? in6->sin6_scope_id
		       : 0;
}

socklen_t sockaddr_len(const struct sockaddr *a)
{
	return a->sa_family == AF_INET	  ? sizeof(struct sockaddr_in)
	       : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
	       : a->sa_family == AF_IB	  ? sizeof(struct sockaddr_ib)
					  : 0;
}

socklen_t sockaddr_set(struct sockaddr_storage *a, const uint8_t ip[16], uint16_t port,
		       uint32_t ifindex)
{
	memset(a, 0, sizeof(*a));
	if (addr_is_v4(ip)) {
		struct sockaddr_in *in = (void *)a;

		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, ip + 12, 4);
	} else {
		struct sockaddr_in6 *in6 = (void *)a;

		in6->sin6_family = AF_INET6;
		memcpy(&in6->sin6_addr, ip, 16);
		if (addr_is_link_local(ip))
			in6->sin6_scope_id = ifindex;
	}
	sockaddr_set_port((struct sockaddr *)a, port);
	return sockaddr_len((struct sockaddr *)a);
}

void sockaddr_set_gid(struct sockaddr_storage *a, const uint8_t gid[16], uint16_t pkey,
		      uint64_t service)
{
	struct sockaddr_ib *ib = (void *)a;

	memset(a, 0, sizeof(*a));
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(pkey);
	memcpy(ib->sib_addr.sib_raw, gid, 16);
	ib->sib_sid = htobe64(service);
	ib->sib_sid_mask = ~UINT64_C(0);
}
