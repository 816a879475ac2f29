/* SPDX-License-Identifier: BSD-2-Clause */
/* addr.h - IP addresses as 16 bytes: an IPv6 address, or an IPv4-mapped one (RFC 4291,
 * 2.5.5.2). */
#ifndef SYS_ADDR_H
#define SYS_ADDR_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool addr_is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/* v4: the address as four bytes, in network order. */
static inline void addr_map_v4(uint8_t ip[16], const void *v4)
{
	memset(ip, 0, 10);
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, v4, 4);
}

/* fe80::/10: such an address is valid on one interface only. */
static inline bool addr_is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* 127/8 or ::1 */
static inline bool addr_is_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return addr_is_v4(ip) ? ip[12] == 127 : memcmp(ip, one, 16) == 0;
}

static inline bool addr_is_multicast(const uint8_t ip[16])
{
	return addr_is_v4(ip) ? ip[12] >> 4 == 0xe : ip[0] == 0xff;
}

/* An address as text for a log line: 192.0.2.7, fe80::1. */
static inline const char *addr_text(const uint8_t ip[16], char text[INET6_ADDRSTRLEN])
{
	if (addr_is_v4(ip))
		return inet_ntop(AF_INET, ip + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, ip, text, INET6_ADDRSTRLEN);
}

#endif
