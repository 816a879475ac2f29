/* SPDX-License-Identifier: BSD-2-Clause */
/* mgid.c - see mgid.h. */
#include "rdmacm/mgid.h"

#include <stdbool.h>
#include <string.h>

#include "sys/sockaddr.h"

enum {
	TRANSIENT_LINK_LOCAL = 0x12, /* flags, scope */
	PKEY_FULL_MEMBER = 0x80,
	SIGNATURE_IPOIB = 0x1b,
	SIGNATURE_CM = 0x01,
};

/* Is ip the GID of a group that an SA has chosen (ff1x:a01b::/32)? */
static bool is_of_sa(const uint8_t ip[16])
{
	return ip[0] == 0xff && (ip[1] & 0xf0) == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b;
}

void cma_mgid(enum rdma_port_space ps, uint16_t pkey, const struct sockaddr *a,
	      uint8_t mgid[16])
{
	const bool v6 = a->sa_family == AF_INET6;
	uint8_t ip[16];

	sockaddr_ip(a, ip);
	if (a->sa_family == AF_IB || (v6 && is_of_sa(ip))) {
		memcpy(mgid, ip, 16);
		return;
	}
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = TRANSIENT_LINK_LOCAL;
	mgid[2] = v6 ? 0x60 : 0x40;
	mgid[3] = ps == RDMA_PS_UDP ? SIGNATURE_CM : SIGNATURE_IPOIB;
	mgid[4] = (uint8_t)(pkey >> 8 | PKEY_FULL_MEMBER);
	mgid[5] = (uint8_t)pkey;
	if (v6) {
		memcpy(mgid + 6, ip + 6, 10);
	} else {
		memcpy(mgid + 12, ip + 12, 4);
		mgid[12] &= 0x0f;
	}
}
