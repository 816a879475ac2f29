/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm_ip.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "wire/be.h"

/* A11.6: an IPv4 address is in the last 4 bytes, after zeroes. */
struct ip_hdr {
	uint8_t version;    /* major(4) | minor(4): 0 */
	uint8_t ip_version; /* IP version(4) | reserved(4) */
	be16_t src_port;
	uint8_t src[16], dst[16];
};

static_assert(sizeof(struct ip_hdr) == CM_IP_HDR, "IP CM");

static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

void cm_ip_build(uint8_t *at, const struct cm_ip *ip)
{
	struct ip_hdr h = {
		.ip_version = (uint8_t)((ip->v6 ? 6 : 4) << 4),
		.src_port = be16(ip->src_port),
	};
	unsigned skip = ip->v6 ? 0 : 12;

	memcpy(h.src + skip, ip->src + skip, 16 - skip);
	memcpy(h.dst + skip, ip->dst + skip, 16 - skip);
	memcpy(at, &h, sizeof(h));
}

int cm_ip_parse(struct cm_ip *ip, const uint8_t *at, size_t len)
{
	struct ip_hdr h;
	uint8_t version;

	if (len < sizeof(h))
		return -EPROTO;
	memcpy(&h, at, sizeof(h));
	version = h.ip_version >> 4;
	if (h.version != 0 || (version != 4 && version != 6))
		return -EPROTO;
	ip->v6 = version == 6;
	ip->src_port = get_be16(h.src_port);
	memcpy(ip->src, h.src, sizeof(ip->src));
	memcpy(ip->dst, h.dst, sizeof(ip->dst));
	if (version == 4) {
		memcpy(ip->src, mapped, sizeof(mapped));
		memcpy(ip->dst, mapped, sizeof(mapped));
	}
	return 0;
}
