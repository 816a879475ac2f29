/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <string.h>

#include "wire/be.h"

/* --- request and reply --------------------------------------------------- */

static const char key[2][17] = { "MPA ID Req Frame", "MPA ID Rep Frame" };

/* RFC 5044, 7.1.1 */
struct hello {
	uint8_t key[16];
	uint8_t flags, revision;
	be16_t len;
};

/* RFC 6581, 9 */
struct enhanced {
	be16_t ird; /* with the flags for peer-to-peer mode and SEND */
	be16_t ord; /* with the flags for WRITE and READ */
};

static_assert(sizeof(struct hello) == MPA_HELLO_LEN, "RFC 5044");
static_assert(sizeof(struct enhanced) == MPA_ENHANCED_LEN, "RFC 6581");

enum {
	A_P2P = 0x8000,
	B_SEND = 0x4000,
	C_WRITE = 0x8000,
	D_READ = 0x4000,
	DEPTH = 0x3fff
};

static uint16_t or16(unsigned a, unsigned b, unsigned c)
{
	return (uint16_t)(a | b | c);
}

size_t mpa_hello_build(uint8_t *at, const struct mpa_hello *h)
{
	size_t extra = h->flags & MPA_ENHANCED ? MPA_ENHANCED_LEN : 0;
	struct hello f = {
		.flags = h->flags,
		.revision = h->revision,
		.len = be16((uint16_t)(h->data_len + extra)),
	};
	struct enhanced e = {
		be16(or16(h->ird & DEPTH, h->peer_to_peer ? A_P2P : 0,
			  h->rtr & MPA_RTR_SEND ? B_SEND : 0)),
		be16(or16(h->ord & DEPTH, h->rtr & MPA_RTR_WRITE ? C_WRITE : 0,
			  h->rtr & MPA_RTR_READ ? D_READ : 0)),
	};

	assert(h->data_len + extra <= MPA_PRIVATE_MAX);
	memcpy(f.key, key[h->reply], sizeof(f.key));
	memcpy(at, &f, sizeof(f));
	memcpy(at + sizeof(f), &e, extra);
	if (h->data_len)
		memcpy(at + sizeof(f) + extra, h->data, h->data_len);
	return sizeof(f) + extra + h->data_len;
}

static bool has_key(const uint8_t *at, size_t n)
{
	n = n < 16 ? n : 16;
	return !memcmp(at, key[0], n) || !memcmp(at, key[1], n);
}

size_t mpa_hello_need(const uint8_t *at, size_t n)
{
	struct hello f;
	size_t len;

	if (!has_key(at, n))
		return 0;
	if (n < MPA_HELLO_LEN)
		return MPA_HELLO_LEN;
	memcpy(&f, at, sizeof(f));
	len = get_be16(f.len);
	return len <= MPA_PRIVATE_MAX ? MPA_HELLO_LEN + len : 0;
}

int mpa_hello_parse(struct mpa_hello *h, const uint8_t *at, size_t n)
{
	struct enhanced e;
	struct hello f;

	if (n < MPA_HELLO_LEN || mpa_hello_need(at, n) != n)
		return -EBADMSG;
	memcpy(&f, at, sizeof(f));
	*h = (struct mpa_hello){
		.reply = !memcmp(f.key, key[1], sizeof(f.key)),
		.flags = f.flags,
		.revision = f.revision,
		.data = at + MPA_HELLO_LEN,
		.data_len = get_be16(f.len),
	};
	/* Revision 1 reserves the bit and does not check it. */
	if (h->revision < 2)
		h->flags &= (uint8_t)~MPA_ENHANCED;
	if (!(h->flags & MPA_ENHANCED))
		return 0;
	if (h->data_len < MPA_ENHANCED_LEN)
		return -EBADMSG;
	memcpy(&e, h->data, sizeof(e));
	h->data += MPA_ENHANCED_LEN;
	h->data_len = (uint16_t)(h->data_len - MPA_ENHANCED_LEN);
	h->peer_to_peer = get_be16(e.ird) & A_P2P;
	h->ird = get_be16(e.ird) & DEPTH;
	h->ord = get_be16(e.ord) & DEPTH;
	if (get_be16(e.ird) & B_SEND)
		h->rtr |= MPA_RTR_SEND;
	if (get_be16(e.ord) & C_WRITE)
		h->rtr |= MPA_RTR_WRITE;
	if (get_be16(e.ord) & D_READ)
		h->rtr |= MPA_RTR_READ;
	return 0;
}

/* --- FPDUs --------------------------------------------------------------- */

size_t mpa_mulpdu(size_t mss, bool markers)
{
	const size_t least = 128; /* RFC 5044, 4.2: the least MULPDU */
	size_t n;

	if (markers)
		mss -= (mss / MPA_MARKER_EVERY + 1) * MPA_MARKER_LEN;
	if (mss < least + MPA_LEN_LEN + MPA_CRC_LEN || mss > SIZE_MAX / 2)
		return least;
	n = (mss & ~(size_t)3) - MPA_LEN_LEN - MPA_CRC_LEN;
	return n < MPA_ULPDU_MAX ? n : MPA_ULPDU_MAX;
}

uint32_t mpa_crc(uint32_t crc, const void *p, size_t n)
{
	/* The cast is safe: ISA-L does not write to p. */
	return crc32_iscsi((unsigned char *)(uintptr_t)p, (int)n, crc);
}

/* As in iSCSI: least significant byte first (RFC 5044, 4.4). */
void mpa_crc_put(uint32_t crc, uint8_t at[MPA_CRC_LEN])
{
	crc = ~crc;
	for (int i = 0; i < MPA_CRC_LEN; i++, crc >>= 8)
		at[i] = (uint8_t)crc;
}

bool mpa_crc_is(uint32_t crc, const uint8_t at[MPA_CRC_LEN])
{
	uint8_t want[MPA_CRC_LEN];

	mpa_crc_put(crc, want);
	return !memcmp(want, at, MPA_CRC_LEN);
}

/* --- markers ------------------------------------------------------------- */

/* Bytes of the stream from pos to the next marker; 0: one is at pos. */
static size_t to_marker(uint32_t pos)
{
	return -pos & (MPA_MARKER_EVERY - 1);
}

size_t mpa_marked_len(size_t n, uint32_t pos)
{
	const size_t between = MPA_MARKER_EVERY - MPA_MARKER_LEN;
	size_t first = to_marker(pos);

	if (n <= first)
		return n;
	return n + ((n - first - 1) / between + 1) * MPA_MARKER_LEN;
}

struct marker {
	be16_t reserved, back;
}; /* RFC 5044, 4.3: FPDUPTR */

static_assert(sizeof(struct marker) == MPA_MARKER_LEN, "RFC 5044");

/* A marker points back to the length field; a marker directly before that field contains
 * 0. */
static size_t back_of(size_t at, uint32_t pos)
{
	return to_marker(pos) == 0 && at > 0 ? at - MPA_MARKER_LEN : at;
}

size_t mpa_mark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos)
{
	size_t at = 0;

	while (n > 0) {
		size_t run = to_marker(pos + (uint32_t)at);

		if (run == 0) {
			struct marker m = {
				.back = be16((uint16_t)back_of(at, pos)),
			};

			memcpy(dst + at, &m, sizeof(m));
			at += sizeof(m);
			run = MPA_MARKER_EVERY - MPA_MARKER_LEN;
		}
		if (run > n)
			run = n;
		memcpy(dst + at, src, run);
		at += run;
		src += run;
		n -= run;
	}
	return at;
}

bool mpa_unmark(uint8_t *dst, const uint8_t *src, size_t n, uint32_t pos)
{
	size_t at = 0;

	while (n > 0) {
		size_t run = to_marker(pos + (uint32_t)at);

		if (run == 0) {
			struct marker m;

			memcpy(&m, src + at, sizeof(m));
			if (get_be16(m.back) != back_of(at, pos))
				return false;
			at += sizeof(m);
			run = MPA_MARKER_EVERY - MPA_MARKER_LEN;
		}
		if (run > n)
			run = n;
		memcpy(dst, src + at, run);
		dst += run;
		at += run;
		n -= run;
	}
	return true;
}
