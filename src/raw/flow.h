/* SPDX-License-Identifier: BSD-2-Clause */
/* flow.h - the rules of ibv_create_flow(): parsing them, and matching Ethernet frames.
 * Pure functions: no lock, no memory, no system call.
 */
#ifndef RAW_FLOW_H
#define RAW_FLOW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fields of a frame that rules compare, as bytes in the frame's order. */
struct flow_fields {
	uint8_t dst_mac[6], src_mac[6];
	uint8_t ether_type[2], vlan[2]; /* the type after the VLAN tags; the outer
					 * tag */
	uint8_t src4[4], dst4[4], proto, tos, ttl, flags;
	uint8_t src6[16], dst6[16], label[4], next, tclass, hops;
	uint8_t dst_port[2], src_port[2];
};

enum { VLAN_TAG = 4 }; /* bytes */

/* Headers that a frame has, or that a rule asks for. */
enum {
	FLOW_VLAN = 1,
	FLOW_IPV4 = 2,
	FLOW_IPV6 = 4,
	FLOW_TCP = 8,
	FLOW_UDP = 16,
};

struct flow_frame {
	unsigned has;
	struct flow_fields f;
};

struct flow_rule {
	enum ibv_flow_attr_type type;
	uint16_t priority; /* 0 is matched first */
	bool dont_trap;	   /* matching frames also go on to the next rule */
	unsigned needs;
	struct flow_fields value, mask;
	struct ibv_counters *counters; /* as the program named them, or NULL */
};

/* Parses attr and the specs that follow it. Returns 0; -EINVAL: contradictory;
 * -EOPNOTSUPP: an unknown spec or flag. */
int flow_rule_parse(struct flow_rule *out, const struct ibv_flow_attr *attr);

/* Parses the n bytes of a frame; a truncated header counts as absent. */
void flow_frame_parse(struct flow_frame *out, const uint8_t *at, size_t n);

bool flow_matches(const struct flow_rule *r, const struct flow_frame *f);

#endif
