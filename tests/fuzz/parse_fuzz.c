/* SPDX-License-Identifier: BSD-2-Clause */
/* The packet parser, the header builder and the ICRC on any bytes.
 *
 * Input: flags (bit 0: IPv6; bit 1: what follows is the IP header as well; bit 2: it is
 * a GRH of RoCE v1), identification (2 bytes), then BTH to ICRC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "net/raw_frame.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

/* clang-format off */
static const struct icrc_path paths[2] = {
	{ .src = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
	  .dst = { [10] = 0xff, 0xff, 10, 0, 0, 2 }, .sport = 0xc001, .dport = 4791 },
	{ .src = { 0xfd, [15] = 1 },
	  .dst = { 0xfd, [15] = 2 }, .sport = 0xc001, .dport = 4791 },
};
/* clang-format on */

/* A parsed packet's parts lie within the packet, in order, and the headers that are
 * built from its fields are the same but for reserved bits. */
static void parse(const uint8_t *bth, size_t len)
{
	uint8_t built[IB_HDR_MAX + 3] = { 0 }, rebuilt[IB_HDR_MAX];
	struct ib_pkt pkt, again;
	size_t hdr;

	if (ib_parse(&pkt, bth, len))
		return;
	hdr = ib_hdr_len(bth[0]);
	MUST(hdr >= sizeof(struct bth) && hdr <= IB_HDR_MAX && hdr <= len);
	MUST(pkt.payload == bth + hdr);
	MUST(hdr + pkt.payload_len + pkt.f.pad == len);
	MUST(ib_build(built, &pkt.f) == hdr);
	MUST(built[0] == bth[0] && built[1] == bth[1]);
	MUST(memcmp(built + 5, bth + 5, 3) == 0);
	MUST(memcmp(built + 9, bth + 9, 3) == 0);
	MUST(ib_parse(&again, built, hdr + pkt.f.pad) == 0);
	MUST(ib_build(rebuilt, &again.f) == hdr && memcmp(rebuilt, built, hdr) == 0);
	if (ib_has(&pkt, IB_AETH) && aeth_valid(pkt.f.syndrome))
		MUST(aeth_syndrome(aeth_type(pkt.f.syndrome),
				   aeth_value(pkt.f.syndrome)) == pkt.f.syndrome);
}

/* The ICRC does not depend on how the packet is cut. The identification that it was made
 * with is found again, and no other one. */
static void crc(const struct icrc_path *path, uint16_t id, const uint8_t *bth, size_t len)
{
	size_t udp_len = len + ICRC_LEN;
	size_t cut = sizeof(struct bth) + id % (len - sizeof(struct bth) + 1);
	uint32_t whole = icrc_start(path, id, udp_len, bth, len), crc, with0;
	uint16_t found = (uint16_t)~id;

	crc = icrc_start(path, id, udp_len, bth, cut);
	MUST(icrc_add(crc, bth + cut, len - cut) == whole);
	with0 = icrc_start(path, 0, udp_len, bth, len);
	if (path == &paths[1])
		MUST(with0 == whole);
	else
		MUST(icrc_solve_ip_id(with0, whole, icrc_after_id(udp_len), &found) &&
		     found == id);
	/* The packet's ICRC is either right, or explained by an identification with
	 * which it is right. */
	crc = icrc_get(bth + len);
	if (path == &paths[0] &&
	    icrc_solve_ip_id(with0, crc, icrc_after_id(udp_len), &found))
		MUST(icrc_start(path, found, udp_len, bth, len) == crc);
}

/* A frame from a packet socket: the datagram of an accepted frame lies within the frame,
 * and is the same when it is built again. */
static void frame(const uint8_t *data, size_t len)
{
	uint8_t head[RAW_HEAD_MAX], *at = malloc(len + 1);
	const uint8_t *udp;
	struct dgram d;

	memcpy(at, data, len);
	if (raw_frame_parse(&d, at, len, 4791)) {
		udp = d.one.iov_base;
		MUST(udp >= at + RAW_IP4 + RAW_UDP && udp + d.len <= at + len);
		MUST(raw_frame_build(head, &d, d.len) == (size_t)(udp - at));
		MUST(memcmp(head + 4, at + 4, 2) == 0 || d.may_fragment ||
		     at[0] >> 4 == 6);
	}
	free(at);
}

/* The same for RoCE v1. */
static void frame_v1(const uint8_t *data, size_t len)
{
	uint8_t head[RAW_HEAD_MAX], *at = malloc(len + 1);
	struct icrc_path path = { .v1 = true };
	struct dgram d;

	memcpy(at, data, len);
	if (raw_grh_parse(&d, at, len)) {
		const uint8_t *bth = d.one.iov_base;
		size_t n = d.len - ICRC_LEN, cut = sizeof(struct bth) + len % (n - 11);

		MUST(bth == at + RAW_GRH && bth + d.len <= at + len);
		MUST(raw_grh_build(head, &d, d.len) == RAW_GRH);
		MUST(head[0] == at[0] &&
		     (head[1] ^ at[1]) < 16); /* the flow label is 0 */
		MUST(memcmp(head + 4, at + 4, RAW_GRH - 4) == 0);
		memcpy(path.src, at + 8, 16);
		memcpy(path.dst, at + 24, 16);
		MUST(icrc_add(icrc_start(&path, 0, d.len, bth, cut), bth + cut,
			      n - cut) == icrc_start(&path, 1, d.len, bth, n));
	}
	free(at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct icrc_path *path;
	uint8_t grh[40];
	uint16_t id;
	size_t len;

	if (size < 3)
		return 0;
	if (data[0] & 2)
		frame(data + 3, size - 3);
	if (data[0] & 4)
		frame_v1(data + 3, size - 3);
	path = &paths[data[0] & 1];
	id = (uint16_t)(data[1] << 8 | data[2]);
	len = size - 3;
	parse(data + 3, len);
	if (len < sizeof(struct bth) + ICRC_LEN || len > 9000)
		return 0;
	parse(data + 3, len - ICRC_LEN);
	crc(path, id, data + 3, len - ICRC_LEN);
	grh_build(grh, &(struct grh_fields){ .src = path->src,
					     .dst = path->dst,
					     .tclass = data[0],
					     .ttl = data[1],
					     .ip_id = id,
					     .udp_len = len });
	MUST(grh[0] >> 4 == 6 || grh[20] == 0x45);
	return 0;
}
