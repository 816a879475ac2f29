/* SPDX-License-Identifier: BSD-2-Clause */
/* pcapng.c - see pcapng.h. Blocks are in this host's byte order, as the section header's
 * magic tells; packets are in network byte order. */
#include "net/pcapng.h"
#include "net/ip_addr.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "net/lid.h"
#include "net/parcel.h"
#include "net/raw_frame.h"
#include "wire/erf.h"

enum { IP4_LEN = 20, IP6_LEN = 40, UDP_LEN = 8, PROTO_UDP = 17, IP4_DF = 0x40 };
enum { STATS_HEAD = 20, EPB_HEAD = 28, BLOCK_LEAST = 12 };
enum { LINKTYPE_ETHERNET = 1, LINKTYPE_RAW = 101, ETH_LEN = 14 };
enum {
	OPT_COMMENT = 1,
	OPT_SHB_USERAPPL = 4,
	OPT_IF_NAME = 2,
	OPT_IF_DESCRIPTION = 3,
	OPT_IF_TSRESOL = 9,
	OPT_EPB_FLAGS = 2,
	OPT_ISB_IFRECV = 4,
	OPT_ISB_IFDROP = 5,
};

static uint8_t *put16(uint8_t *at, uint16_t v)
{
	memcpy(at, &v, 2);
	return at + 2;
}

static uint8_t *put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
	return at + 4;
}

static void net16(uint8_t *at, size_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static uint8_t *pad4(uint8_t *at, size_t len)
{
	size_t pad = -len & 3;

	memset(at, 0, pad);
	return at + pad;
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *v, uint16_t len)
{
	at = put16(put16(at, code), len);
	memcpy(at, v, len);
	return pad4(at + len, len);
}

static uint8_t *put_text(uint8_t *at, uint16_t code, const char *text)
{
	size_t len = text ? strnlen(text, PCAPNG_TEXT_MAX) : 0;

	return len ? put_option(at, code, text, (uint16_t)len) : at;
}

/* Writes the block's length after its type and at its end. */
static size_t end_block(uint8_t *start, uint8_t *at)
{
	uint32_t len = (uint32_t)(at - start) + 4;

	put32(at, len);
	put32(start + 4, len);
	return len;
}

size_t pcapng_interface(uint8_t *start, enum pcapng_kind kind, const char *of)
{
	static const struct {
		uint16_t type;
		const char *name;
	} forms[PCAPNG_KINDS] = {
		[PCAPNG_IP] = { LINKTYPE_RAW, "urnic" },
		[PCAPNG_V1] = { LINKTYPE_ETHERNET, "RoCE v1" },
		[PCAPNG_IB] = { LINKTYPE_ERF, "InfiniBand" },
	};
	uint8_t *at, nanoseconds = 9;

	at = put32(start, PCAPNG_INTERFACE) + 4;
	at = put16(put16(at, forms[kind].type), 0);
	at = put32(at, 0); /* no snap length */
	at = put_text(at, OPT_IF_NAME, forms[kind].name);
	at = put_text(at, OPT_IF_DESCRIPTION, of);
	at = put_option(at, OPT_IF_TSRESOL, &nanoseconds, 1);
	return end_block(start, put32(at, 0));
}

size_t pcapng_section(uint8_t *start)
{
	uint8_t *at;

	at = put32(start, PCAPNG_SECTION) + 4;
	at = put32(at, 0x1a2b3c4d);
	at = put16(put16(at, 1), 0); /* version 1.0 */
	memset(at, 0xff, 8);	     /* length not known */
	at = put_option(at + 8, OPT_SHB_USERAPPL, "urnic", 5);
	return end_block(start, put32(at, 0));
}

static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t n)
{
	uint64_t s = sum;

	for (; n > 1; n -= 2, p += 2)
		s += (uint32_t)p[0] << 8 | p[1];
	if (n)
		s += (uint32_t)p[0] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint32_t)s;
}

static void put_ip4(uint8_t *at, const struct dgram *d)
{
	memset(at, 0, IP4_LEN);
	at[0] = 0x45;
	at[1] = ip_of(d)->tclass;
	net16(at + 2, IP4_LEN + UDP_LEN + d->len);
	net16(at + 4, d->ip_id < 0 ? 0 : (size_t)d->ip_id);
	at[6] = IP4_DF;
	at[8] = ip_of(d)->ttl;
	at[9] = PROTO_UDP;
	memcpy(at + 12, ip_of(d)->from.ip + 12, 4);
	memcpy(at + 16, ip_of(d)->to.ip + 12, 4);
	net16(at + 10, ~sum16(0, at, IP4_LEN) & 0xffff);
}

static void put_ip6(uint8_t *at, const struct dgram *d)
{
	at[0] = (uint8_t)(0x60 | ip_of(d)->tclass >> 4);
	at[1] = (uint8_t)(ip_of(d)->tclass << 4);
	at[2] = at[3] = 0;
	net16(at + 4, UDP_LEN + d->len);
	at[6] = PROTO_UDP;
	at[7] = ip_of(d)->ttl;
	memcpy(at + 8, ip_of(d)->from.ip, 16);
	memcpy(at + 24, ip_of(d)->to.ip, 16);
}

/* Writes the checksum over the pseudo header (addresses, length, protocol) and the len
 * bytes at udp. */
static void put_udp6_check(uint8_t *udp, size_t len, const struct dgram *d)
{
	uint32_t sum = sum16((uint32_t)len + PROTO_UDP, ip_of(d)->from.ip, 16);

	sum = sum16(sum16(sum, ip_of(d)->to.ip, 16), udp, len);
	net16(udp + 6, sum == 0xffff ? 0xffff : ~sum & 0xffff);
}

/* Writes the Ethernet frame; returns its length, or 0. */
static size_t put_frame_v1(uint8_t *at, const struct dgram *d)
{
	memset(at, 0, ETH_LEN);
	net16(at + 12, RAW_TYPE_V1);
	if (d->len > UINT16_MAX || dgram_flatten(at + ETH_LEN + RAW_GRH, d))
		return 0;
	return ETH_LEN + raw_grh_build(at + ETH_LEN, d, d->len) + d->len;
}

/* Writes the packet from its IP header on; returns its length, or 0. */
static size_t put_packet(uint8_t *at, const struct dgram *d)
{
	bool v4 = addr_is_v4(ip_of(d)->to.ip);
	size_t ip_len = v4 ? IP4_LEN : IP6_LEN, udp_len = UDP_LEN + d->len;
	uint8_t *udp = at + ip_len;

	if (ip_len + udp_len > UINT16_MAX || dgram_flatten(udp + UDP_LEN, d))
		return 0;
	net16(udp, ip_of(d)->from.port);
	net16(udp + 2, ip_of(d)->to.port);
	net16(udp + 4, udp_len);
	net16(udp + 6, 0);
	if (v4) {
		put_ip4(at, d);
	} else {
		put_ip6(at, d);
		put_udp6_check(udp, udp_len, d);
	}
	return ip_len + udp_len;
}

/* Writes the ERF record; returns its length, or 0. */
static size_t put_erf(uint8_t *at, const struct dgram *d, uint64_t wall_ns)
{
	size_t len = lid_frame(at + sizeof(struct erf), d);
	const struct erf h = erf_head(wall_ns, len, 0);

	memcpy(at, &h, sizeof(h));
	return len ? sizeof(h) + len : 0;
}

/* Writes a packet's block around its len bytes, which are there already. */
static size_t end_epb(uint8_t *start, size_t len, uint32_t interface, uint32_t flags,
		      uint64_t wall_ns, const char *note)
{
	uint8_t *at = put32(start, PCAPNG_PACKET) + 4;

	at = put32(at, interface);
	at = put32(at, (uint32_t)(wall_ns >> 32));
	at = put32(at, (uint32_t)wall_ns);
	at = put32(at, (uint32_t)len); /* captured */
	at = put32(at, (uint32_t)len); /* on the wire */
	at = pad4(at + len, len);
	at = put_option(at, OPT_EPB_FLAGS, &flags, sizeof(flags));
	at = put_text(at, OPT_COMMENT, note);
	return end_block(start, put32(at, 0));
}

size_t pcapng_epb(uint8_t *start, const struct dgram *d, enum pcapng_kind kind,
		  uint32_t interface, enum pcapng_dir dir, uint64_t wall_ns,
		  const char *note)
{
	uint8_t *at = start + EPB_HEAD;
	size_t len = kind == PCAPNG_IB	 ? put_erf(at, d, wall_ns)
		     : kind == PCAPNG_V1 ? put_frame_v1(at, d)
					 : put_packet(at, d);

	return len ? end_epb(start, len, interface, dir, wall_ns, note) : 0;
}

size_t pcapng_record(uint8_t *start, const void *bytes, size_t len, uint32_t interface,
		     uint64_t wall_ns)
{
	memcpy(start + EPB_HEAD, bytes, len);
	return end_epb(start, len, interface, 0, wall_ns, NULL);
}

size_t pcapng_stats(uint8_t *start, uint32_t interface, uint64_t wall_ns,
		    uint64_t received, uint64_t dropped, const char *note)
{
	uint8_t *at = put32(start, PCAPNG_STATS) + 4;

	at = put32(at, interface);
	at = put32(at, (uint32_t)(wall_ns >> 32));
	at = put32(at, (uint32_t)wall_ns);
	at = put_text(at, OPT_COMMENT, note);
	at = put_option(at, OPT_ISB_IFRECV, &received, sizeof(received));
	at = put_option(at, OPT_ISB_IFDROP, &dropped, sizeof(dropped));
	return end_block(start, put32(at, 0));
}

/* --- reading -------------------------------------------------------------------------
 */

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, 4);
	return v;
}

static size_t least_of(uint32_t type)
{
	return type == PCAPNG_PACKET  ? BLOCK_LEAST + 20
	       : type == PCAPNG_STATS ? BLOCK_LEAST + 12
				      : BLOCK_LEAST;
}

long pcapng_block(const uint8_t *at, size_t len, size_t most, uint32_t *type)
{
	uint32_t n;

	if (len < 8)
		return 0;
	*type = get32(at);
	n = get32(at + 4);
	if (n < least_of(*type) || n > most || n % 4)
		return -EPROTO;
	if (n > len)
		return 0;
	return get32(at + n - 4) == n ? (long)n : -EPROTO;
}

uint32_t pcapng_interface_of(const uint8_t *block)
{
	return get32(block + 8);
}

void pcapng_set_interface(uint8_t *block, uint32_t interface)
{
	put32(block + 8, interface);
}

void pcapng_stats_note(const uint8_t *block, char note[PCAPNG_TEXT_MAX + 1])
{
	const uint8_t *at = block + STATS_HEAD, *end = block + get32(block + 4) - 4;
	uint16_t option[2];

	note[0] = '\0';
	while ((size_t)(end - at) >= sizeof(option)) {
		size_t len;

		memcpy(option, at, sizeof(option));
		len = option[1];
		if (len > (size_t)(end - at) - sizeof(option))
			return;
		if (option[0] == OPT_COMMENT && len <= PCAPNG_TEXT_MAX) {
			memcpy(note, at + sizeof(option), len);
			note[len] = '\0';
			return;
		}
		len = sizeof(option) + ((len + 3) & ~(size_t)3);
		at += len < (size_t)(end - at) ? len : (size_t)(end - at);
	}
}
