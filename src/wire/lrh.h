/* SPDX-License-Identifier: BSD-2-Clause */
/* lrh.h - a packet of an InfiniBand link: the header in front of the GRH or BTH, and the
 * two CRCs behind the payload (IBTA vol. 1, 7.7, 7.8).
 */
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

enum { LNH_LOCAL = 2, LNH_GLOBAL = 3 }; /* a BTH is next, or a GRH */

struct lrh_fields {
	uint8_t vl, sl;
	bool grh;
	uint16_t dlid, slid;
	size_t len; /* bytes from the LRH to the ICRC, a multiple of 4 */
};

void lrh_build(struct lrh *at, const struct lrh_fields *f);

/* A packet of n bytes from the LRH's place to the payload's padding, at least to the
 * BTH's end, gets its LRH and, behind it, both CRCs.  Returns the bytes of the whole;
 * f->len need not be set. */
enum { LRH_MORE = 4 + VCRC_LEN };
size_t lrh_close(uint8_t *pkt, size_t n, struct lrh_fields f);

/* Of a packet of n bytes from the LRH to the payload's padding, at least to the BTH's
 * end; icrc.h has how it is put behind that. */
uint32_t lrh_icrc(const void *pkt, size_t n);

/* Of n bytes from the LRH to the ICRC; it goes on the wire with its low byte first. */
uint16_t lrh_vcrc(const void *pkt, size_t n);

#endif
