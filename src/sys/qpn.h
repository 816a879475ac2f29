/* SPDX-License-Identifier: BSD-2-Clause */
/* qpn.h - numbers as urnic gives them: QPs', communication IDs, and transaction IDs of
 * what connection management asks.  Above is the slot of the process: so whatever carries
 * a packet knows the process that it is for. */
#ifndef SYS_QPN_H
#define SYS_QPN_H

#include <stdint.h>

enum {
	QPN_SLOT_BITS = 10,
	QPN_INDEX_BITS = 14,
	QPN_INDICES = 1 << QPN_INDEX_BITS,
	QPN_AT = 5,    /* byte of a BTH at which the destination's 24 bits begin */
	QPN_BYTES = 3, /* most significant first */
	ID_SLOT_SHIFT = 32 - QPN_SLOT_BITS,
	TID_SLOT_SHIFT = 64 - QPN_SLOT_BITS,
};

/* Of a communication ID. */
static inline uint16_t id_slot(uint32_t id)
{
	return (uint16_t)(id >> ID_SLOT_SHIFT);
}

/* Of a transaction ID. */
static inline uint16_t tid_slot(uint64_t tid)
{
	return (uint16_t)(tid >> TID_SLOT_SHIFT);
}

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
