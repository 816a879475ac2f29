/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of ibv_create_flow() and frames, any of both: a rule means the frames that the
 * list of fields below says, and nothing behind a frame or a rule is read.
 *
 * Input: type of the rule, flags, comp_mask, port, number of specs; of each its type and
 * what its size is off by, then value and mask; the frame. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <string.h>

#include "input.h"
#include "must.h"
#include "raw/flow.h"

enum { SPECS = 12, SPEC_MAX = 128, ATTR_MAX = 32 + SPECS * SPEC_MAX };

/* Offsets of the headers in the frame; 0: the frame does not have that header. */
struct heads {
	const uint8_t *at;
	size_t n, vlan, type, ip4, ip6, tcp, udp;
};

static unsigned get16(const struct heads *h, size_t at)
{
	return (unsigned)(h->at[at] << 8 | h->at[at + 1]);
}

static void find_ports(struct heads *h, unsigned proto, size_t at)
{
	if (h->n - at < 4)
		return;
	if (proto == 6)
		h->tcp = at;
	if (proto == 17)
		h->udp = at;
}

static void find_ip(struct heads *h, size_t at)
{
	size_t n = h->n - at, len;

	if (get16(h, h->type) == 0x0800 && n >= 20 && h->at[at] >> 4 == 4) {
		len = (h->at[at] & 15) * 4u;
		if (len < 20 || len > n)
			return;
		h->ip4 = at;
		if ((get16(h, at + 6) & 0x1fff) == 0)
			find_ports(h, h->at[at + 9], at + len);
	} else if (get16(h, h->type) == 0x86dd && n >= 40 && h->at[at] >> 4 == 6) {
		h->ip6 = at;
		find_ports(h, h->at[at + 6], at + 40);
	}
}

static struct heads find(const uint8_t *at, size_t n)
{
	static const uint8_t zeros[14];
	struct heads h = { .at = n < 14 ? zeros : at, .n = n < 14 ? 14 : n, .type = 12 };

	while (h.type < 20 &&
	       (get16(&h, h.type) == 0x8100 || get16(&h, h.type) == 0x88a8)) {
		if (h.n - h.type - 2 < 4)
			break;
		if (!h.vlan)
			h.vlan = h.type + 2;
		h.type += 4;
	}
	find_ip(&h, h.type + 2);
	return h;
}

/* Does the frame have value where mask has ones? */
static bool is(const void *have, const void *value, const void *mask, size_t n)
{
	const uint8_t *h = have, *v = value, *m = mask;

	for (size_t i = 0; i < n; i++)
		if ((h[i] & m[i]) != (v[i] & m[i]))
			return false;
	return true;
}

#define IS(field, have) is((have), &s->val.field, &s->mask.field, sizeof(s->val.field))

static bool eth(const struct heads *h, const struct ibv_flow_spec_eth *s)
{
	return IS(dst_mac, h->at) && IS(src_mac, h->at + 6) &&
	       IS(ether_type, h->at + h->type) &&
	       (!s->mask.vlan_tag || (h->vlan && IS(vlan_tag, h->at + h->vlan)));
}

static bool ipv4(const struct heads *h, const struct ibv_flow_spec_ipv4 *s)
{
	return h->ip4 && IS(src_ip, h->at + h->ip4 + 12) &&
	       IS(dst_ip, h->at + h->ip4 + 16);
}

static bool ipv4_ext(const struct heads *h, const struct ibv_flow_spec_ipv4_ext *s)
{
	const uint8_t *ip = h->at + h->ip4;
	uint8_t flags = 0;

	if (!h->ip4)
		return false;
	if (ip[6] & 0x40)
		flags |= 2;
	if (ip[6] & 0x20)
		flags |= 4;
	return IS(src_ip, ip + 12) && IS(dst_ip, ip + 16) && IS(proto, ip + 9) &&
	       IS(tos, ip + 1) && IS(ttl, ip + 8) && IS(flags, &flags);
}

static bool ipv6(const struct heads *h, const struct ibv_flow_spec_ipv6 *s)
{
	const uint8_t *ip = h->at + h->ip6;
	uint32_t first, label;
	uint8_t tclass;

	if (!h->ip6)
		return false;
	memcpy(&first, ip, 4);
	tclass = (uint8_t)(ntohl(first) >> 20);
	label = htonl(ntohl(first) & 0xfffff);
	return IS(src_ip, ip + 8) && IS(dst_ip, ip + 24) && IS(flow_label, &label) &&
	       IS(next_hdr, ip + 6) && IS(traffic_class, &tclass) &&
	       IS(hop_limit, ip + 7);
}

static bool ports(const struct heads *h, const struct ibv_flow_spec_tcp_udp *s, size_t at)
{
	return at && IS(src_port, h->at + at) && IS(dst_port, h->at + at + 2);
}

static bool meant(const struct heads *h, const struct ibv_flow_spec *s)
{
	switch ((unsigned)s->hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		return eth(h, &s->eth);
	case IBV_FLOW_SPEC_IPV4:
		return ipv4(h, &s->ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return ipv4_ext(h, &s->ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return ipv6(h, &s->ipv6);
	case IBV_FLOW_SPEC_TCP:
		return ports(h, &s->tcp_udp, h->tcp);
	case IBV_FLOW_SPEC_UDP:
		return ports(h, &s->tcp_udp, h->udp);
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return true;
	default:
		abort(); /* the rule should have been refused */
	}
}

/* Do all specs of an accepted rule match? They lie one behind the other. */
static bool all_mean(const struct heads *h, const struct ibv_flow_attr *attr)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);

	if (attr->type == IBV_FLOW_ATTR_MC_DEFAULT)
		return h->at[0] & 1;
	for (unsigned i = 0; i < attr->num_of_specs; i++) {
		struct ibv_flow_spec s;

		memcpy(&s.hdr, at, 6);
		MUST(s.hdr.size <= sizeof(s));
		memcpy(&s, at, s.hdr.size);
		if (!meant(h, &s))
			return false;
		at += s.hdr.size;
	}
	return true;
}

/* Builds one spec from the input; returns its size. */
static size_t take_spec(struct input *in, uint8_t *to)
{
	static const struct {
		enum ibv_flow_spec_type type;
		size_t size;
	} row[] = {
		{ IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth) },
		{ IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4) },
		{ IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext) },
		{ IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6) },
		{ IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp) },
		{ IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp) },
		{ IBV_FLOW_SPEC_ACTION_COUNT,
		  sizeof(struct ibv_flow_spec_counter_action) },
		{ IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre) },
		{ IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop) },
	};
	unsigned which = take_byte(in) % (sizeof(row) / sizeof(*row));
	uint16_t size = (uint16_t)(row[which].size + (take_byte(in) % 16 == 15));

	memcpy(to, &row[which].type, 4);
	memcpy(to + 4, &size, 2);
	for (size_t i = 6; i < size; i++)
		to[i] = take_byte(in);
	return size;
}

/* Builds a rule in memory that ends where the rule ends. */
static struct ibv_flow_attr *take_rule(struct input *in)
{
	uint8_t specs[ATTR_MAX] = { 0 };
	struct ibv_flow_attr attr = { .type = take_byte(in) % 5 }, *exact;
	size_t used = 0;

	attr.flags = take_byte(in) % 4;
	attr.comp_mask = take_byte(in) == 255;
	attr.port = take_byte(in) == 255 ? 2 : 1;
	attr.num_of_specs = take_byte(in) % SPECS;
	for (unsigned i = 0; i < attr.num_of_specs; i++)
		used += take_spec(in, specs + used);
	attr.size = (uint16_t)(sizeof(attr) + used);
	exact = malloc(attr.size);
	MUST(exact);
	memcpy(exact, &attr, sizeof(attr));
	memcpy(exact + 1, specs, used);
	return exact;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct ibv_flow_attr *attr = take_rule(&in);
	size_t n = (size_t)(in.end - in.at);
	uint8_t *exact = malloc(n ? n : 1);
	struct flow_frame frame;
	struct flow_rule rule;
	struct heads h;
	int rc;

	MUST(exact);
	memcpy(exact, in.at, n);
	rc = flow_rule_parse(&rule, attr);
	MUST(rc == 0 || rc == -EINVAL || rc == -EOPNOTSUPP);
	MUST(rc || (attr->port == 1 && !attr->comp_mask && attr->num_of_specs <= 4 &&
		    (attr->type == IBV_FLOW_ATTR_NORMAL || !attr->num_of_specs)));
	flow_frame_parse(&frame, exact, n);
	h = find(exact, n);
	MUST(rc || flow_matches(&rule, &frame) == all_mean(&h, attr));
	free(exact);
	free(attr);
	return 0;
}
