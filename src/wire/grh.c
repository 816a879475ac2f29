/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/grh.h"

#include <string.h>

enum { PROTO_UDP = 17, UDP_LEN = 8, IP4_LEN = 20, IP4_DF = 0x4000 };

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool is_v4(const uint8_t ip[16])
{
	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

static uint16_t ip4_check(const uint8_t *at)
{
	uint32_t sum = 0;

	for (int i = 0; i < IP4_LEN; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void build4(struct grh4 *g, const struct grh_fields *f)
{
	*g = (struct grh4){
		.ver_ihl = 0x45,
		.tos = f->tclass,
		.total_len = be16((uint16_t)(IP4_LEN + UDP_LEN + f->udp_len)),
		.id = be16(f->ip_id),
		.frag = be16(IP4_DF),
		.ttl = f->ttl,
		.protocol = PROTO_UDP,
	};
	memcpy(g->src, f->src + 12, 4);
	memcpy(g->dst, f->dst + 12, 4);
	g->check = be16(ip4_check(&g->ver_ihl));
}

void grh_build(uint8_t at[40], const struct grh_fields *f)
{
	struct grh g;

	if (is_v4(f->dst) && !f->v1) {
		struct grh4 g4;

		build4(&g4, f);
		memcpy(at, &g4, sizeof(g4));
		return;
	}
	g = (struct grh){
		.vtf = be32(6u << 28 | (uint32_t)f->tclass << 20 |
			    (f->flow_label & 0xfffff)),
		.paylen = be16((uint16_t)(f->v1 ? f->udp_len : UDP_LEN + f->udp_len)),
		.next = f->v1 ? GRH_NEXT_BTH : PROTO_UDP,
		.hop_limit = f->ttl,
	};
	memcpy(g.sgid, f->src, 16);
	memcpy(g.dgid, f->dst, 16);
	memcpy(at, &g, sizeof(g));
}

static void map4(uint8_t to[16], const uint8_t ip[4])
{
	memcpy(to, mapped, sizeof(mapped));
	memcpy(to + sizeof(mapped), ip, 4);
}

void grh_ends(const uint8_t at[40], uint8_t src[16], uint8_t dst[16])
{
	struct grh4 g4;
	struct grh g;

	memcpy(&g4, at, sizeof(g4));
	memcpy(&g, at, sizeof(g));
	if (get_be32(g.vtf) == 0 && g4.ver_ihl >> 4 == 4) {
		map4(src, g4.src);
		map4(dst, g4.dst);
		return;
	}
	memcpy(src, g.sgid, 16);
	memcpy(dst, g.dgid, 16);
}
