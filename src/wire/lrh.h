/* SPDX-License-Identifier: BSD-2-Clause */
/* lrh.h - packets of an InfiniBand link: the header (LRH) in front of the GRH or BTH, and
 * the two CRCs after the payload (IBTA vol. 1, 7.7, 7.8). */
#ifndef WIRE_LRH_H
#define WIRE_LRH_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/be.h"

enum { VCRC_LEN = 2 };

struct lrh {
	uint8_t vl_lver; /* VL(4) | LVer(4) */
	uint8_t sl_lnh;	 /* SL(4) | reserved(2) | LNH(2) */
	be16_t dlid, len, slid;
};

static_assert(sizeof(struct lrh) == 8, "LRH");

enum { LNH_LOCAL = 2, LNH_GLOBAL = 3 }; /* next header: BTH, or GRH */

struct lrh_fields {
	uint8_t vl, sl;
	bool grh;
	uint16_t dlid, slid;
	size_t len; /* bytes from the LRH to the ICRC, a multiple of 4 */
};

void lrh_build(struct lrh *at, const struct lrh_fields *f);

/* Completes a packet: n bytes from the LRH's place to the payload's padding, with a BTH
 * at least, get their LRH and after them both CRCs, LRH_MORE bytes.  f.len need not be
 * set.  Returns the length of the complete packet. */
enum { LRH_MORE = 4 + VCRC_LEN };
size_t lrh_close(uint8_t *pkt, size_t n, struct lrh_fields f);

/* The ICRC of a packet of n bytes, from the LRH to the payload's padding, with a BTH at
 * least.  icrc.h has how it is written. */
uint32_t lrh_icrc(const void *pkt, size_t n);

/* The VCRC of n bytes, from the LRH to the ICRC.  It is sent low byte first. */
uint16_t lrh_vcrc(const void *pkt, size_t n);

#endif
