/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_ip.h - IP addresses and ports in connection management: the IP CM service (IBTA vol.
 * 1, annex A11).
 *
 * The service ID contains a port space and a port.  The private data of a REQ or SIDR_REQ
 * begins with the addresses of both ends. */
#ifndef WIRE_CM_IP_H
#define WIRE_CM_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CM_IP_HDR = 36 };

struct cm_ip {
	bool v6;
	uint16_t src_port;
	uint8_t src[16], dst[16]; /* IPv4 as mapped addresses */
};

/* space: the port space, as rdma_cm numbers it: 0x0106 is TCP, 0x0111 UDP and so on. */
static inline uint64_t cm_service_id(uint16_t space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

static inline uint16_t cm_service_port(uint64_t id)
{
	return (uint16_t)id;
}

/* The port space; 0: not a service ID of this service. */
static inline uint16_t cm_service_space(uint64_t id)
{
	return id >> 32 ? 0 : (uint16_t)(id >> 16);
}

/* Writes CM_IP_HDR bytes. */
void cm_ip_build(uint8_t *at, const struct cm_ip *ip);

/* Returns 0; -EPROTO without changing *ip: too short, another version, or no IP. */
int cm_ip_parse(struct cm_ip *ip, const uint8_t *at, size_t len);

#endif
