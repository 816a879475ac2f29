/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/lrh.h"

#include <string.h>

#include "wire/icrc.h"

enum { GRH_LEN = 40, BTH_LEN = 12, BTH_FBECN = 4, HOP_LIMIT = 7 };

void lrh_build(struct lrh *at, const struct lrh_fields *f)
{
	*at = (struct lrh){
		.vl_lver = (uint8_t)(f->vl << 4),
		.sl_lnh = (uint8_t)(f->sl << 4 | (f->grh ? LNH_GLOBAL : LNH_LOCAL)),
		.dlid = be16(f->dlid),
		.len = be16((uint16_t)(f->len / 4)),
		.slid = be16(f->slid),
	};
}

size_t lrh_close(uint8_t *pkt, size_t n, struct lrh_fields f)
{
	struct lrh lrh;
	uint16_t vcrc;

	f.len = n + ICRC_LEN;
	lrh_build(&lrh, &f);
	memcpy(pkt, &lrh, sizeof(lrh));
	icrc_end(lrh_icrc(pkt, n), pkt + n);
	n += ICRC_LEN;
	vcrc = lrh_vcrc(pkt, n);
	pkt[n++] = (uint8_t)vcrc;
	pkt[n++] = (uint8_t)(vcrc >> 8);
	return n;
}

/* Bits that switches and routers may change count as ones (7.8.1): without a GRH the VL;
 * with one the whole LRH and the GRH's traffic class, flow label and hop limit; in both
 * cases the BTH's byte with FECN and BECN. */
uint32_t lrh_icrc(const void *pkt, size_t n)
{
	uint8_t head[sizeof(struct lrh) + GRH_LEN + BTH_LEN];
	const struct lrh *lrh = pkt;
	size_t bth = sizeof(*lrh), len;

	if ((lrh->sl_lnh & 3) == LNH_GLOBAL)
		bth += GRH_LEN;
	len = bth + BTH_LEN;
	assert(n >= len);
	memcpy(head, pkt, len);
	if (bth > sizeof(*lrh)) {
		memset(head, 0xff, sizeof(*lrh));
		head[sizeof(*lrh)] |= 0x0f;
		memset(head + sizeof(*lrh) + 1, 0xff, 3);
		head[sizeof(*lrh) + HOP_LIMIT] = 0xff;
	} else {
		head[0] |= 0xf0;
	}
	head[bth + BTH_FBECN] = 0xff;
	return icrc_add(icrc_add(0, head, len), (const uint8_t *)pkt + len, n - len);
}

/* x^16 + x^12 + x^3 + x + 1, low end first, four bits at a time. */
uint16_t lrh_vcrc(const void *pkt, size_t n)
{
	static const uint16_t four[16] = { 0x0000, 0x1a01, 0x3402, 0x2e03, 0x6804, 0x7205,
					   0x5c06, 0x4607, 0xd008, 0xca09, 0xe40a, 0xfe0b,
					   0xb80c, 0xa20d, 0x8c0e, 0x960f };
	const uint8_t *p = pkt;
	uint32_t crc = 0xffff;

	for (; n > 0; n--, p++) {
		crc ^= *p;
		crc = crc >> 4 ^ four[crc & 15];
		crc = crc >> 4 ^ four[crc & 15];
	}
	return (uint16_t)~crc;
}
