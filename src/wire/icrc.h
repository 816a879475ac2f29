/* SPDX-License-Identifier: BSD-2-Clause */
/* icrc.h - the invariant CRC of RoCE v2 (IBTA annex A17) and v1 (A16).
 *
 * Ethernet's CRC-32 over eight ff bytes, the IP and UDP headers and the packet
 * from the BTH on, with what routers may change read as ones: IPv4 TOS, TTL
 * and checksum, IPv6 traffic class, flow label and hop limit, the UDP checksum
 * and the BTH's byte 4 (FECN, BECN).  IPv4 headers have no options.  RoCE v1 has a GRH
 * in the place of the IP and UDP headers, which is masked as IPv6's header is.
 * It goes on the wire with its low byte first.
 *
 *	crc = icrc_start(&path, ip_id, len, hdr, hdr_len);
 *	crc = icrc_add(crc, payload, payload_len);	... pad bytes too
 *	icrc_end(crc, trailer);
 */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ICRC_LEN = 4 };

struct icrc_path {
	uint8_t src[16], dst[16]; /* IPv4 mapped */
	uint16_t sport, dport;
	bool may_fragment; /* IPv4 without DF */
	bool v1;	   /* GIDs, and no ports */
};

/* udp_len: UDP payload, BTH to ICRC included.  ip_id: IPv4 identification,
 * ignored for IPv6.  The first n bytes from the BTH on, n >= 12: a received
 * packet may be given whole (without its ICRC). */
uint32_t icrc_start(const struct icrc_path *path, uint16_t ip_id, size_t udp_len,
		    const void *bth, size_t n);
uint32_t icrc_add(uint32_t crc, const void *p, size_t n);

static inline void icrc_end(uint32_t crc, uint8_t at[ICRC_LEN])
{
	for (int i = 0; i < ICRC_LEN; i++, crc >>= 8)
		at[i] = (uint8_t)crc;
}

/* What stands on the wire, to be compared with what icrc_add() gave. */
static inline uint32_t icrc_get(const uint8_t at[ICRC_LEN])
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 |
	       at[0];
}

/* The CRC is linear, so the one IPv4 identification that turns computed_id0
 * (computed with 0) into on_wire can be solved for.  after_id: how many bytes
 * the CRC covers behind the identification; icrc_after_id().  False, and *id
 * is left alone, if no 16 bits do it: the packet is corrupt. */
bool icrc_solve_ip_id(uint32_t computed_id0, uint32_t on_wire, size_t after_id,
		      uint16_t *id);

static inline size_t icrc_after_id(size_t udp_len)
{
	return 14 + 8 + udp_len - ICRC_LEN; /* rest of IPv4, UDP, BTH ... */
}

#endif
