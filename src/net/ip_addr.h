/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_addr.h - the struct link_addr of UDP and RoCE v1 links; for net/ and for code that
 * forwards their datagrams. */
#ifndef NET_IP_ADDR_H
#define NET_IP_ADDR_H

#include <assert.h>

#include "net/dgram.h"
#include "sys/addr.h"

struct link_to;
struct link_dest;
struct link_head;

struct net_addr {
	uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
	/* sent: 0 means the link's own port; as source, IP_TOLD: see net/roce.h */
	uint16_t port;
};

enum { IP_TOLD = 1 };

/* View of a link_addr as its fields; may_alias because a link_addr is bytes. */
struct __attribute__((may_alias)) ip_addr {
	struct net_addr from, to;
	uint32_t ifindex;    /* interface it came by or has to leave by; 0: any */
	uint8_t tclass, ttl; /* tclass includes ECN */
	uint8_t v1;	     /* 1: RoCE v1, whose ends are GIDs; the ports are 0 */
	uint8_t zero;
};

static_assert(sizeof(struct ip_addr) == sizeof(struct link_addr), "a view of it");
static_assert(_Alignof(struct ip_addr) <= _Alignof(struct link_addr), "a view of it");

static inline const struct ip_addr *ip_addr(const struct link_addr *a)
{
	return (const struct ip_addr *)a;
}

static inline const struct ip_addr *ip_of_const(const struct dgram *d)
{
	return (const struct ip_addr *)&d->addr;
}

static inline struct ip_addr *ip_of_dgram(struct dgram *d)
{
	return (struct ip_addr *)&d->addr;
}

#define ip_of(d)                                                                         \
	_Generic((d), struct dgram * : ip_of_dgram, const struct dgram * : ip_of_const)(d)

/* These implement the link_ops of the same names. */
const char *ip_resolve(const struct link_to *to, struct link_addr *out);
bool ip_is_from(const struct link_addr *path, const struct dgram *d);
void ip_dest(const struct link_addr *addr, struct link_dest *out);
void ip_head(const struct dgram *d, struct link_head *out);

#endif
