/* SPDX-License-Identifier: BSD-2-Clause */
/* aeth.h - the syndrome of an AETH (IBTA vol. 1, ACK extended transport header): bit 7 is
 * reserved, bits 6-5 are the type, bits 4-0 the value. */
#ifndef WIRE_AETH_H
#define WIRE_AETH_H

#include <stdbool.h>
#include <stdint.h>

enum aeth_type { AETH_ACK = 0, AETH_RNR_NAK = 1, AETH_RESERVED = 2, AETH_NAK = 3 };

enum { AETH_NO_CREDITS = 31 }; /* value of an ACK that gives no credits */

/* Values of a NAK; all others are reserved. */
enum nak_code {
	NAK_PSN_SEQUENCE = 0,
	NAK_INVALID_REQUEST = 1,
	NAK_REMOTE_ACCESS = 2,
	NAK_REMOTE_OPERATIONAL = 3,
	NAK_INVALID_RD_REQUEST = 4,
	NAK_CODES
};

/* value: credits, an RNR timer code or enum nak_code; modulo 32. */
static inline uint8_t aeth_syndrome(enum aeth_type type, unsigned value)
{
	return (uint8_t)((unsigned)type << 5 | (value & 31));
}

static inline enum aeth_type aeth_type(uint8_t syndrome)
{
	return (enum aeth_type)(syndrome >> 5 & 3);
}

static inline unsigned aeth_value(uint8_t syndrome)
{
	return syndrome & 31;
}

/* Returns false for the reserved bit, type and NAK codes: ignore such a packet. */
bool aeth_valid(uint8_t syndrome);

#endif
