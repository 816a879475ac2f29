/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/wc_path.h"
#include "sys/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdbool.h>
#include <string.h>

enum { IP4_AT = 20, IP4_LEN = 20, NEXT_BTH = 0x1b };

/* The undefined bytes before an IPv4 header may look like IPv6, so the IPv4 header is
 * recognised by its checksum (RFC 791). */
static bool is_ip4(const uint8_t *hdr)
{
	uint32_t sum = 0;

	if (hdr[0] != 0x45)
		return false;
	for (int i = 0; i < IP4_LEN; i += 2)
		sum += (uint32_t)(hdr[i] << 8 | hdr[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static void map_ip4(union ibv_gid *gid, uint32_t ip)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(&gid->raw[12], &ip, sizeof(ip));
}

int wc_path_parse(const struct ibv_grh *grh, struct wc_path *out)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	uint32_t word;
	struct iphdr ip;

	if (is_ip4(bytes + IP4_AT)) {
		memcpy(&ip, bytes + IP4_AT, sizeof(ip));
		map_ip4(&out->sgid, ip.saddr);
		map_ip4(&out->dgid, ip.daddr);
		out->flow_label = 0;
		out->tclass = ip.tos;
		out->v1 = false;
		return 0;
	}
	if (bytes[0] >> 4 != 6)
		return -EPROTONOSUPPORT;
	word = ntohl(grh->version_tclass_flow);
	out->sgid = grh->sgid;
	out->dgid = grh->dgid;
	out->flow_label = word & 0xfffff;
	out->tclass = (uint8_t)(word >> 20);
	out->v1 = grh->next_hdr == NEXT_BTH;
	return 0;
}

int wc_path_mac(const union ibv_gid *gid, uint8_t mac[6])
{
	static const uint8_t local[8] = { 0xfe, 0x80 };
	const uint8_t *ip = gid->raw;

	if (ip[0] == 0xff) { /* RFC 2464, 7 */
		mac[0] = mac[1] = 0x33;
		memcpy(mac + 2, ip + 12, 4);
		return 0;
	}
	if (addr_is_v4(ip) && ip[12] >> 4 == 0xe) {
		mac[0] = 0x01; /* RFC 1112, 6.4 */
		mac[1] = 0x00;
		mac[2] = 0x5e;
		mac[3] = ip[13] & 0x7f;
		mac[4] = ip[14];
		mac[5] = ip[15];
		return 0;
	}
	if (memcmp(ip, local, sizeof(local)) || ip[11] != 0xff || ip[12] != 0xfe)
		return -EOPNOTSUPP;
	memcpy(mac, ip + 8, 3); /* RFC 4291, appendix A */
	memcpy(mac + 3, ip + 13, 3);
	mac[0] ^= 2;
	return 0;
}
