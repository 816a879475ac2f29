/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_frame.c - see raw_frame.h. */
#include "net/raw_frame.h"

#include "net/ip_addr.h"
#include "wire/grh.h"

enum { PROTO_UDP = 17, DF = 0x4000, VERSION_IHL = 0x45, BTH_AND_ICRC = 12 + 4 };

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, size_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

uint16_t raw_ip_sum(const uint8_t *at, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < n; i += 2)
		sum += get16(at + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* --- out ----------------------------------------------------------------- */

static size_t build_ip4(uint8_t *at, const struct dgram *d, size_t len)
{
	const struct ip_addr *a = ip_of(d);

	at[0] = VERSION_IHL;
	at[1] = a->tclass;
	put16(at + 2, RAW_IP4 + RAW_UDP + len);
	put16(at + 4, (uint16_t)d->ip_id);
	put16(at + 6, DF);
	at[8] = a->ttl;
	at[9] = PROTO_UDP;
	put16(at + 10, 0);
	memcpy(at + 12, a->from.ip + 12, 4);
	memcpy(at + 16, a->to.ip + 12, 4);
	put16(at + 10, raw_ip_sum(at, RAW_IP4));
	return RAW_IP4;
}

static size_t build_ip6(uint8_t *at, const struct dgram *d, size_t len)
{
	const struct ip_addr *a = ip_of(d);

	at[0] = (uint8_t)(0x60 | a->tclass >> 4);
	at[1] = (uint8_t)(a->tclass << 4);
	put16(at + 2, 0);
	put16(at + 4, RAW_UDP + len);
	at[6] = PROTO_UDP;
	at[7] = a->ttl;
	memcpy(at + 8, a->from.ip, 16);
	memcpy(at + 24, a->to.ip, 16);
	return RAW_IP6;
}

size_t raw_frame_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len)
{
	size_t n = addr_is_v4(ip_of(d)->to.ip) ? build_ip4(head, d, len)
					       : build_ip6(head, d, len);

	put16(head + n, ip_of(d)->from.port);
	put16(head + n + 2, ip_of(d)->to.port);
	put16(head + n + 4, RAW_UDP + len);
	put16(head + n + 6, 0);
	return n + RAW_UDP;
}

size_t raw_grh_build(uint8_t head[RAW_HEAD_MAX], const struct dgram *d, size_t len)
{
	grh_build(head, &(struct grh_fields){ .src = ip_of(d)->from.ip,
					      .dst = ip_of(d)->to.ip,
					      .tclass = ip_of(d)->tclass,
					      .ttl = ip_of(d)->ttl,
					      .udp_len = len,
					      .v1 = true });
	return RAW_GRH;
}

/* Sums the addresses, which both IP versions have at the end of their header, the
 * protocol and the length. */
void raw_frame_sum(uint8_t *head)
{
	bool v4 = head[0] >> 4 == 4;
	size_t ip = v4 ? RAW_IP4 : RAW_IP6, addrs = v4 ? 8 : 32;
	uint32_t sum = (uint16_t)~raw_ip_sum(head + ip - addrs, addrs);

	sum += PROTO_UDP + (uint32_t)get16(head + ip + 4);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(head + ip + 6, (sum & 0xffff) + (sum >> 16));
}

/* --- in ------------------------------------------------------------------ */

static void map_v4(uint8_t ip[16], const uint8_t *v4)
{
	memset(ip, 0, 10);
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, v4, 4);
}

/* Returns how many of the n bytes belong to the datagram, IP header included; 0:
 * none. */
static size_t parse_ip4(struct dgram *d, const uint8_t *at, size_t n)
{
	struct ip_addr *a = ip_of(d);
	size_t len;

	if (n < RAW_IP4 + RAW_UDP || at[0] != VERSION_IHL || at[9] != PROTO_UDP)
		return 0;
	len = get16(at + 2);
	if (len < RAW_IP4 + RAW_UDP || len > n || get16(at + 6) & ~DF ||
	    raw_ip_sum(at, RAW_IP4) != 0)
		return 0;
	d->ip_id = get16(at + 4);
	d->may_fragment = !(get16(at + 6) & DF);
	a->tclass = at[1];
	a->ttl = at[8];
	map_v4(a->from.ip, at + 12);
	map_v4(a->to.ip, at + 16);
	return len;
}

static size_t parse_ip6(struct dgram *d, const uint8_t *at, size_t n)
{
	struct ip_addr *a = ip_of(d);
	size_t len;

	if (n < RAW_IP6 + RAW_UDP || at[6] != PROTO_UDP)
		return 0;
	len = get16(at + 4);
	if (len < RAW_UDP || len > n - RAW_IP6)
		return 0;
	a->tclass = (uint8_t)(at[0] << 4 | at[1] >> 4);
	a->ttl = at[7];
	memcpy(a->from.ip, at + 8, 16);
	memcpy(a->to.ip, at + 24, 16);
	/* Refuses IPv4-mapped addresses in IPv6, which would be taken for IPv4 here. */
	return addr_is_v4(a->from.ip) || addr_is_v4(a->to.ip) ? 0 : RAW_IP6 + len;
}

bool raw_frame_parse(struct dgram *d, uint8_t *at, size_t n, uint16_t port)
{
	size_t head, len;

	memset(d, 0, sizeof(*d));
	if (n == 0 || (at[0] >> 4 != 4 && at[0] >> 4 != 6))
		return false;
	head = at[0] >> 4 == 4 ? RAW_IP4 : RAW_IP6;
	len = head == RAW_IP4 ? parse_ip4(d, at, n) : parse_ip6(d, at, n);
	if (len == 0 || get16(at + head + 2) != port ||
	    get16(at + head + 4) != len - head)
		return false;
	ip_of(d)->from.port = get16(at + head);
	ip_of(d)->to.port = port;
	d->ip_id_exact = true;
	d->len = (uint32_t)(len - head - RAW_UDP);
	d->one = (struct iovec){ at + head + RAW_UDP, d->len };
	d->iov = &d->one;
	d->iovcnt = 1;
	return true;
}

bool raw_grh_parse(struct dgram *d, uint8_t *at, size_t n)
{
	struct ip_addr *a = ip_of(d);
	struct grh g;
	size_t len;

	memset(d, 0, sizeof(*d));
	if (n < RAW_GRH)
		return false;
	memcpy(&g, at, sizeof(g));
	len = get_be16(g.paylen);
	if (at[0] >> 4 != 6 || g.next != GRH_NEXT_BTH || len < BTH_AND_ICRC ||
	    len > n - RAW_GRH)
		return false;
	a->v1 = 1;
	a->tclass = (uint8_t)(at[0] << 4 | at[1] >> 4);
	a->ttl = g.hop_limit;
	memcpy(a->from.ip, g.sgid, 16);
	memcpy(a->to.ip, g.dgid, 16);
	d->ip_id_exact = true;
	d->len = (uint32_t)len;
	d->one = (struct iovec){ at + RAW_GRH, len };
	d->iov = &d->one;
	d->iovcnt = 1;
	return true;
}
