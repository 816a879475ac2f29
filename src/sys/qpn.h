/* SPDX-License-Identifier: BSD-2-Clause */
/* qpn.h - QP numbers as urnic gives them: above the slot of the process, below an index.
 * So who sees a packet knows the process that it is for. */
#ifndef SYS_QPN_H
#define SYS_QPN_H

#include <stdint.h>

enum {
	QPN_SLOT_BITS = 10,
	QPN_INDEX_BITS = 14,
	QPN_INDICES = 1 << QPN_INDEX_BITS,
	QPN_AT = 5,    /* byte of a BTH at which the destination's 24 bits begin */
	QPN_BYTES = 3, /* most significant first */
};

static inline uint32_t qpn_make(uint16_t slot, uint32_t index)
{
	return (uint32_t)slot << QPN_INDEX_BITS | index;
}

static inline uint16_t qpn_slot(uint32_t qpn)
{
	return (uint16_t)(qpn >> QPN_INDEX_BITS);
}

static inline uint32_t qpn_index(uint32_t qpn)
{
	return qpn & (QPN_INDICES - 1);
}

/* Of a packet of QPN_AT + QPN_BYTES bytes at least. */
static inline uint32_t qpn_of_packet(const uint8_t *bth)
{
	return (uint32_t)bth[QPN_AT] << 16 | (uint32_t)bth[QPN_AT + 1] << 8 |
	       bth[QPN_AT + 2];
}

#endif
