/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.c - see flow.h. */
#include "raw/flow.h"

#include <errno.h>
#include <string.h>

enum {
	SPECS = 10, /* specs of one rule, as in Linux */
	ETH = 14,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	IP4 = 20,
	IP6 = 40,
	PORTS = 4,
	PROTO_TCP = 6,
	PROTO_UDP = 17,
	COUNT_LAYER = 0, /* not a header: one count action per rule */
};

/* --- rules --------------------------------------------------------------- */

/* Copies a spec's value and mask to the rule's fields at offset `at`. */
static void put_field(struct flow_rule *r, size_t at, const void *value, const void *mask,
		      size_t n)
{
	memcpy((uint8_t *)&r->value + at, value, n);
	memcpy((uint8_t *)&r->mask + at, mask, n);
}

#define PUT(r, to, s, from)                                                              \
	put_field(r, offsetof(struct flow_fields, to), &(s)->val.from, &(s)->mask.from,  \
		  sizeof((s)->val.from))

static void add_eth(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_eth *s = &spec->eth;

	PUT(r, dst_mac, s, dst_mac);
	PUT(r, src_mac, s, src_mac);
	PUT(r, ether_type, s, ether_type);
	PUT(r, vlan, s, vlan_tag);
	if (s->mask.vlan_tag)
		r->needs |= FLOW_VLAN;
}

static void add_ipv4(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv4 *s = &spec->ipv4;

	PUT(r, src4, s, src_ip);
	PUT(r, dst4, s, dst_ip);
	r->needs |= FLOW_IPV4;
}

static void add_ipv4_ext(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv4_ext *s = &spec->ipv4_ext;

	PUT(r, src4, s, src_ip);
	PUT(r, dst4, s, dst_ip);
	PUT(r, proto, s, proto);
	PUT(r, tos, s, tos);
	PUT(r, ttl, s, ttl);
	PUT(r, flags, s, flags);
	r->needs |= FLOW_IPV4;
}

static void add_ipv6(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_ipv6 *s = &spec->ipv6;

	PUT(r, src6, s, src_ip);
	PUT(r, dst6, s, dst_ip);
	PUT(r, label, s, flow_label);
	PUT(r, next, s, next_hdr);
	PUT(r, tclass, s, traffic_class);
	PUT(r, hops, s, hop_limit);
	r->needs |= FLOW_IPV6;
}

static void add_ports(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	const struct ibv_flow_spec_tcp_udp *s = &spec->tcp_udp;

	PUT(r, dst_port, s, dst_port);
	PUT(r, src_port, s, src_port);
	r->needs |= s->type == IBV_FLOW_SPEC_TCP ? FLOW_TCP : FLOW_UDP;
}

static void add_count(struct flow_rule *r, const struct ibv_flow_spec *spec)
{
	r->counters = spec->flow_count.counters;
}

/* The kinds of spec, the layer of each, and what it adds to a rule. A rule has at most
 * one spec per layer, since more would contradict each other. */
static const struct kind {
	enum ibv_flow_spec_type type;
	unsigned layer;
	size_t size;
	void (*add)(struct flow_rule *r, const struct ibv_flow_spec *s);
} kinds[] = {
	{ IBV_FLOW_SPEC_ETH, 2, sizeof(struct ibv_flow_spec_eth), add_eth },
	{ IBV_FLOW_SPEC_IPV4, 3, sizeof(struct ibv_flow_spec_ipv4), add_ipv4 },
	{ IBV_FLOW_SPEC_IPV4_EXT, 3, sizeof(struct ibv_flow_spec_ipv4_ext),
	  add_ipv4_ext },
	{ IBV_FLOW_SPEC_IPV6, 3, sizeof(struct ibv_flow_spec_ipv6), add_ipv6 },
	{ IBV_FLOW_SPEC_TCP, 4, sizeof(struct ibv_flow_spec_tcp_udp), add_ports },
	{ IBV_FLOW_SPEC_UDP, 4, sizeof(struct ibv_flow_spec_tcp_udp), add_ports },
	{ IBV_FLOW_SPEC_ACTION_COUNT, COUNT_LAYER,
	  sizeof(struct ibv_flow_spec_counter_action), add_count },
};

/* Adds the spec at `at`, which need not be aligned. Returns its size, or -errno. */
static int add_spec(struct flow_rule *r, const uint8_t *at, unsigned *layers)
{
	struct ibv_flow_spec s;

	memcpy(&s.hdr, at, sizeof(s.hdr.type) + sizeof(s.hdr.size));
	for (const struct kind *k = kinds; k < kinds + sizeof(kinds) / sizeof(*k); k++) {
		if (k->type != s.hdr.type)
			continue;
		if (s.hdr.size != k->size || *layers & 1u << k->layer)
			return -EINVAL;
		*layers |= 1u << k->layer;
		memcpy(&s, at, k->size);
		k->add(r, &s);
		return (int)k->size;
	}
	return -EOPNOTSUPP;
}

/* Does the ether type that a rule names match the IP header that it names? */
static bool agrees(const struct flow_rule *r)
{
	unsigned type = (unsigned)(r->value.ether_type[0] << 8 | r->value.ether_type[1]);
	bool whole = r->mask.ether_type[0] == 0xff && r->mask.ether_type[1] == 0xff;

	if (!whole)
		return true;
	return !((r->needs & FLOW_IPV4 && type != TYPE_IPV4) ||
		 (r->needs & FLOW_IPV6 && type != TYPE_IPV6));
}

static int add_specs(struct flow_rule *r, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	unsigned layers = 0;

	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		int size = add_spec(r, at, &layers);

		if (size < 0)
			return size;
		at += size;
	}
	if (layers & 1u << COUNT_LAYER && !r->counters)
		return -EINVAL;
	return agrees(r) ? 0 : -EINVAL;
}

int flow_rule_parse(struct flow_rule *out, const struct ibv_flow_attr *attr)
{
	const bool any = attr->type != IBV_FLOW_ATTR_NORMAL;

	memset(out, 0, sizeof(*out));
	if (attr->comp_mask || (unsigned)attr->type > IBV_FLOW_ATTR_SNIFFER ||
	    attr->num_of_specs > SPECS || attr->port != 1 || (any && attr->num_of_specs))
		return -EINVAL;
	if (attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
		return -EOPNOTSUPP;
	if (attr->flags && (attr->type == IBV_FLOW_ATTR_ALL_DEFAULT ||
			    attr->type == IBV_FLOW_ATTR_MC_DEFAULT))
		return -EINVAL;
	out->type = attr->type;
	out->priority = attr->priority;
	out->dont_trap = attr->flags || attr->type == IBV_FLOW_ATTR_SNIFFER;
	return add_specs(out, attr);
}

/* --- frames -------------------------------------------------------------- */

static unsigned load_be16(const uint8_t *at)
{
	return (unsigned)(at[0] << 8 | at[1]);
}

static void ports_of(struct flow_frame *out, unsigned proto, const uint8_t *at, size_t n)
{
	if (n < PORTS || (proto != PROTO_TCP && proto != PROTO_UDP))
		return;
	out->has |= proto == PROTO_TCP ? FLOW_TCP : FLOW_UDP;
	memcpy(out->f.src_port, at, 2);
	memcpy(out->f.dst_port, at + 2, 2);
}

/* Converts the header's flags to Linux's IB_IPV4_DONT_FRAG (2) and IB_IPV4_MORE_FRAG
 * (4), whose order differs from the header's. */
static uint8_t ipv4_flags(uint8_t at)
{
	return (uint8_t)((at & 0x40 ? 2 : 0) | (at & 0x20 ? 4 : 0));
}

static void ipv4_of(struct flow_frame *out, const uint8_t *at, size_t n)
{
	size_t head = n ? (size_t)(at[0] & 0xf) * 4 : 0;

	if (n < IP4 || at[0] >> 4 != 4 || head < IP4 || head > n)
		return;
	out->has |= FLOW_IPV4;
	out->f.tos = at[1];
	out->f.flags = ipv4_flags(at[6]);
	out->f.ttl = at[8];
	out->f.proto = at[9];
	memcpy(out->f.src4, at + 12, 4);
	memcpy(out->f.dst4, at + 16, 4);
	if (!(load_be16(at + 6) & 0x1fff)) /* a later fragment has no TCP or UDP header */
		ports_of(out, at[9], at + head, n - head);
}

static void ipv6_of(struct flow_frame *out, const uint8_t *at, size_t n)
{
	if (n < IP6 || at[0] >> 4 != 6)
		return;
	out->has |= FLOW_IPV6;
	out->f.tclass = (uint8_t)(at[0] << 4 | at[1] >> 4);
	out->f.label[1] = at[1] & 0xf;
	memcpy(out->f.label + 2, at + 2, 2);
	out->f.next = at[6];
	out->f.hops = at[7];
	memcpy(out->f.src6, at + 8, 16);
	memcpy(out->f.dst6, at + 24, 16);
	ports_of(out, at[6], at + IP6, n - IP6);
}

void flow_frame_parse(struct flow_frame *out, const uint8_t *at, size_t n)
{
	size_t head = ETH;
	unsigned type;

	memset(out, 0, sizeof(*out));
	if (n < ETH)
		return;
	memcpy(out->f.dst_mac, at, 6);
	memcpy(out->f.src_mac, at + 6, 6);
	for (int tags = 0; tags < 2; tags++) {
		type = load_be16(at + head - 2);
		if ((type != TYPE_VLAN && type != TYPE_QINQ) || n - head < VLAN_TAG)
			break;
		if (!(out->has & FLOW_VLAN))
			memcpy(out->f.vlan, at + head, 2);
		out->has |= FLOW_VLAN;
		head += VLAN_TAG;
	}
	memcpy(out->f.ether_type, at + head - 2, 2);
	type = load_be16(at + head - 2);
	if (type == TYPE_IPV4)
		ipv4_of(out, at + head, n - head);
	else if (type == TYPE_IPV6)
		ipv6_of(out, at + head, n - head);
}

bool flow_matches(const struct flow_rule *r, const struct flow_frame *f)
{
	const uint8_t *value = (const uint8_t *)&r->value,
		      *mask = (const uint8_t *)&r->mask;
	const uint8_t *is = (const uint8_t *)&f->f;

	if (r->type == IBV_FLOW_ATTR_MC_DEFAULT)
		return f->f.dst_mac[0] & 1;
	if ((f->has & r->needs) != r->needs)
		return false;
	for (size_t i = 0; i < sizeof(f->f); i++)
		if ((is[i] ^ value[i]) & mask[i])
			return false;
	return true;
}
