/* SPDX-License-Identifier: BSD-2-Clause */
/* icrc.h - the invariant CRC of RoCE v2 (IBTA annex A17) and v1 (A16).
 *
 * It is Ethernet's CRC-32 over eight ff bytes, the IP and UDP headers and the packet from
 * the BTH on.  Fields that routers may change count as ones: IPv4 TOS, TTL and checksum,
 * IPv6 traffic class, flow label and hop limit, the UDP checksum and the BTH's byte 4
 * (FECN, BECN).  IPv4 headers have no options.  RoCE v1 has a GRH in place of the IP and
 * UDP headers, masked like an IPv6 header.  The CRC is sent low byte first.
 *
 *	crc = icrc_start(&path, ip_id, len, hdr, hdr_len);
 *	crc = icrc_add(crc, payload, payload_len);	... pad bytes too
 *	icrc_end(crc, trailer); */
#ifndef WIRE_ICRC_H
#define WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ICRC_LEN = 4 };

struct icrc_path {
	uint8_t src[16], dst[16]; /* IPv4 as mapped addresses */
	uint16_t sport, dport;
	bool may_fragment; /* IPv4 without DF */
	bool v1;	   /* GIDs, and no ports */
};

/* Starts the CRC with the headers and the first n bytes from the BTH on, n >= 12: a
 * received packet may be given as a whole, without its ICRC.  udp_len: UDP payload from
 * BTH to ICRC.  ip_id: IPv4 identification, ignored for IPv6. */
uint32_t icrc_start(const struct icrc_path *path, uint16_t ip_id, size_t udp_len,
		    const void *bth, size_t n);
uint32_t icrc_add(uint32_t crc, const void *p, size_t n);

/* Packets of one length between two ends have most of what comes before their payload in
 * common: addresses, and the first ICRC_SHARED bytes of the BTH.  icrc_shared() is the
 * CRC so far, with identification 0; bth points to these bytes.  icrc_with_id() changes
 * it to another IPv4 identification.  Go on with icrc_add() behind the ICRC_SHARED bytes.
 */
enum { ICRC_SHARED = 8 };
uint32_t icrc_shared(const struct icrc_path *path, size_t udp_len, const void *bth);
uint32_t icrc_with_id(uint32_t shared, uint16_t ip_id);

static inline void icrc_end(uint32_t crc, uint8_t at[ICRC_LEN])
{
	for (int i = 0; i < ICRC_LEN; i++, crc >>= 8)
		at[i] = (uint8_t)crc;
}

/* The ICRC in a packet, to be compared with the result of icrc_add(). */
static inline uint32_t icrc_get(const uint8_t at[ICRC_LEN])
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 |
	       at[0];
}

/* Finds the IPv4 identification that turns computed_id0 (the CRC computed with
 * identification 0) into on_wire; since the CRC is linear there is at most one. after_id:
 * bytes that the CRC covers after the identification, icrc_after_id().  Returns false
 * without changing *id if there is none: the packet is corrupt. */
bool icrc_solve_ip_id(uint32_t computed_id0, uint32_t on_wire, size_t after_id,
		      uint16_t *id);

static inline size_t icrc_after_id(size_t udp_len)
{
	return 14 + 8 + udp_len - ICRC_LEN; /* rest of IPv4, UDP, BTH ... */
}

#endif
