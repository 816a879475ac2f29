/* SPDX-License-Identifier: BSD-2-Clause */
/* qpn.h - how urnic composes numbers: of QPs, communication IDs, and transaction IDs of
 * connection management.  Their upper bits are the slot of the process, so anything that
 * carries a packet knows which process it is for. */
#ifndef WIRE_QPN_H
#define WIRE_QPN_H

#include <stdint.h>

enum {
	QPN_SLOT_BITS = 10,
	QPN_INDEX_BITS = 14,
	QPN_INDICES = 1 << QPN_INDEX_BITS,
	QPN_AT = 5,    /* offset in the BTH of the destination QP's 24 bits */
	QPN_BYTES = 3, /* most significant first */
	ID_SLOT_SHIFT = 32 - QPN_SLOT_BITS,
	TID_SLOT_SHIFT = 64 - QPN_SLOT_BITS,
};

/* The slot in a communication ID. */
static inline uint16_t id_slot(uint32_t id)
{
	return (uint16_t)(id >> ID_SLOT_SHIFT);
}

/* The slot in a transaction ID. */
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

/* The destination QP of a packet of at least QPN_AT + QPN_BYTES bytes. */
static inline uint32_t qpn_of_packet(const uint8_t *bth)
{
	return (uint32_t)bth[QPN_AT] << 16 | (uint32_t)bth[QPN_AT + 1] << 8 |
	       bth[QPN_AT + 2];
}

#endif
