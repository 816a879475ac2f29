/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/icrc.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <stdatomic.h>
#include <string.h>

enum {
	ONES = 8,
	IP4 = 20,
	IP6 = 40,
	UDP = 8,
	BTH = 12,
	BTH_FBECN = 4,
	HEAD = 44,   /* longest headers of a packet */
	BLOCK = 256, /* bytes that the CRC code processes at a time */
	PROTO_UDP = 17,
	NEXT_BTH = 0x1b,
};

static bool is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

static void store_be16(uint8_t *at, size_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static uint8_t *put_ip4(uint8_t *at, const struct icrc_path *path, uint16_t ip_id,
			size_t udp_len)
{
	at[0] = 0x45;
	at[1] = 0xff; /* TOS */
	store_be16(at + 2, IP4 + UDP + udp_len);
	store_be16(at + 4, ip_id);
	store_be16(at + 6, path->may_fragment ? 0 : 0x4000); /* DF, no offset */
	at[8] = 0xff;					     /* TTL */
	at[9] = PROTO_UDP;
	store_be16(at + 10, 0xffff); /* checksum */
	memcpy(at + 12, path->src + 12, 4);
	memcpy(at + 16, path->dst + 12, 4);
	return at + IP4;
}

/* Builds the IPv6 header or the GRH. */
static uint8_t *put_ip6(uint8_t *at, const struct icrc_path *path, uint8_t next,
			size_t len)
{
	at[0] = 0x6f; /* traffic class, flow label */
	memset(at + 1, 0xff, 3);
	store_be16(at + 4, len);
	at[6] = next;
	at[7] = 0xff; /* hop limit */
	memcpy(at + 8, path->src, 16);
	memcpy(at + 24, path->dst, 16);
	return at + IP6;
}

static uint8_t *put_udp(uint8_t *at, const struct icrc_path *path, size_t udp_len)
{
	store_be16(at, path->sport);
	store_be16(at + 2, path->dport);
	store_be16(at + 4, UDP + udp_len);
	store_be16(at + 6, 0xffff);
	return at + UDP;
}

static uint8_t *put_path(uint8_t *at, const struct icrc_path *path, uint16_t ip_id,
			 size_t len)
{
	if (path->v1)
		return put_ip6(at, path, NEXT_BTH, len);
	at = is_v4(path->dst) ? put_ip4(at, path, ip_id, len)
			      : put_ip6(at, path, PROTO_UDP, UDP + len);
	return put_udp(at, path, len);
}

/* How many bytes of an n byte packet to copy behind the pseudo header, so that a packet
 * without payload needs only one call, and a packet with full payload leaves whole blocks
 * (240 bytes outside of a block cost as much as 2 KiB in blocks). */
static size_t head_len(size_t n)
{
	size_t rest = (n - BTH) % BLOCK;

	if (n <= HEAD)
		return n;
	return rest <= HEAD - BTH ? BTH + rest : HEAD;
}

/* ISA-L's AVX-512 CRC leaves the upper halves of the vector registers dirty.  That would
 * slow down the SSE code after it, ours and the program's, by 100 ns for each packet. */
#if defined(__x86_64__)
__attribute__((target("avx"))) static void clean_upper_avx(void)
{
	__builtin_ia32_vzeroupper();
}

static void clean_upper(void)
{
	if (__builtin_cpu_supports("avx"))
		clean_upper_avx();
}
#else
static void clean_upper(void)
{
}
#endif

uint32_t icrc_start(const struct icrc_path *path, uint16_t ip_id, size_t udp_len,
		    const void *bth, size_t n)
{
	uint8_t head[ONES + IP6 + UDP + HEAD], *at = head;
	size_t copied = head_len(n);
	uint32_t crc;

	assert(n >= BTH);
	memset(at, 0xff, ONES);
	at += ONES;
	at = put_path(at, path, ip_id, udp_len);
	memcpy(at, bth, copied);
	at[BTH_FBECN] = 0xff;
	at += copied;

	crc = crc32_gzip_refl(0, head, (uint64_t)(at - head));
	if (copied == n) /* too short for the wide registers */
		return crc;
	return icrc_add(crc, (const uint8_t *)bth + copied, n - copied);
}

uint32_t icrc_add(uint32_t crc, const void *p, size_t n)
{
	crc = crc32_gzip_refl(crc, p, n);
	clean_upper();
	return crc;
}

uint32_t icrc_shared(const struct icrc_path *path, size_t udp_len, const void *bth)
{
	uint8_t head[ONES + IP6 + UDP + ICRC_SHARED], *at = head;

	memset(at, 0xff, ONES);
	at = put_path(at + ONES, path, 0, udp_len);
	memcpy(at, bth, ICRC_SHARED);
	at[BTH_FBECN] = 0xff;
	at += ICRC_SHARED;
	return crc32_gzip_refl(0, head, (uint64_t)(at - head));
}

/* The CRC is linear: each bit of the identification changes it by a constant, since the
 * same 30 bytes lie between the identification and the end of what is shared. */
uint32_t icrc_with_id(uint32_t shared, uint16_t ip_id)
{
	static const uint32_t bit[16] = {
		0x0ee7e8d1, 0x1dcfd1a2, 0x3b9fa344, 0x773f4688, 0xee7e8d10, 0x078c1c61,
		0x0f1838c2, 0x1e307184, 0xf1da05aa, 0x38c50d15, 0x718a1a2a, 0xe3143454,
		0x1d596ee9, 0x3ab2ddd2, 0x7565bba4, 0xeacb7748,
	};

	for (unsigned id = ip_id; id; id &= id - 1)
		shared ^= bit[__builtin_ctz(id)];
	return shared;
}

/* --- solving for the identification ---------------------------------------
 *
 * Polynomials modulo P over GF(2); bit 31 is the coefficient of x^0, bit 0 that of x^31.
 * The CRCs of messages that differ only in their identification differ by
 * id(x) * x^32 * x^(8 * after_id).  id(x) has 16 coefficients, which are the upper half
 * of the word, with the first byte in the lower of its two bytes. */

static const uint32_t P = 0xedb88320;
static const uint32_t INV_X8 = 0x6567cb95;  /* 1 / x^8 */
static const uint32_t INV_X32 = 0x5b358fd3; /* 1 / x^32 */

static uint32_t mul(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i++, b <<= 1) {
		r ^= a & -(b >> 31);
		a = a >> 1 ^ (P & -(a & 1));
	}
	return r;
}

static uint32_t inv_shift(size_t after_id)
{
	uint32_t r = INV_X32;

	for (uint32_t sq = INV_X8; after_id; after_id >>= 1, sq = mul(sq, sq))
		if (after_id & 1)
			r = mul(r, sq);
	return r;
}

/* A cache of inverses, since a stream of packets has few lengths.  An entry is length <<
 * 32 | inverse and is written in one store, so threads need no lock; 0 is empty (an
 * inverse is never 0). */
static uint32_t inv_shift_cached(size_t after_id)
{
	static _Atomic uint64_t cache[64];
	_Atomic uint64_t *e = &cache[(after_id ^ after_id >> 6) % 64];
	uint64_t v = atomic_load_explicit(e, memory_order_relaxed);

	if (v >> 32 != after_id || v == 0) {
		v = (uint64_t)after_id << 32 | inv_shift(after_id);
		atomic_store_explicit(e, v, memory_order_relaxed);
	}
	return (uint32_t)v;
}

bool icrc_solve_ip_id(uint32_t computed_id0, uint32_t on_wire, size_t after_id,
		      uint16_t *id)
{
	uint32_t x = mul(computed_id0 ^ on_wire, inv_shift_cached(after_id));

	if (x & 0xffff)
		return false;
	*id = (uint16_t)((x >> 16 & 0xff) << 8 | x >> 24);
	return true;
}
