/* SPDX-License-Identifier: BSD-2-Clause */
/* grh.h - the 40 bytes in front of a received UD message.
 *
 * RoCE v2 puts the IP header there (annex A17): an IPv6 header fills all 40 bytes, an
 * IPv4 header the last 20, after 20 undefined bytes, which are zero here.  RoCE v1 has a
 * GRH. */
#ifndef WIRE_GRH_H
#define WIRE_GRH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/be.h"

struct grh {
	be32_t vtf;    /* version(4) | class(8) | flow label(20) */
	be16_t paylen; /* length of what follows the GRH */
	uint8_t next, hop_limit;
	uint8_t sgid[16], dgid[16];
};

struct grh4 {
	uint8_t undefined[20];
	uint8_t ver_ihl, tos;
	be16_t total_len, id, frag; /* frag: DF */
	uint8_t ttl, protocol;
	be16_t check;
	uint8_t src[4], dst[4];
};

enum { GRH_NEXT_BTH = 0x1b }; /* next header value of RoCE v1 */

static_assert(sizeof(struct grh) == 40, "GRH");
static_assert(sizeof(struct grh4) == 40, "GRH");

struct grh_fields {
	const uint8_t *src, *dst; /* 16 bytes each; IPv4 as mapped addresses */
	uint8_t tclass, ttl;
	uint16_t ip_id;	     /* IPv4 only */
	uint32_t flow_label; /* IPv6 only */
	size_t udp_len;	     /* BTH to ICRC */
	bool v1;	     /* RoCE v1: builds a GRH */
};

/* Builds an IPv4 or IPv6 header, depending on dst; with v1 a GRH. */
void grh_build(uint8_t at[40], const struct grh_fields *f);

/* Extracts source and destination, 16 bytes each; IPv4 as mapped addresses. */
void grh_ends(const uint8_t at[40], uint8_t src[16], uint8_t dst[16]);

#endif
