/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/aeth.h"

/* Encoding of the RNR NAK timer field, in units of 10 us. */
static const uint32_t rnr_10us[32] = {
	65536,     1,     2,     3,     4,     6,     8,    12,
	   16,    24,    32,    48,    64,    96,   128,   192,
	  256,   384,   512,   768,  1024,  1536,  2048,  3072,
	 4096,  6144,  8192, 12288, 16384, 24576, 32768, 49152,
};

static const char *const nak_name[NAK_CODES] = {
	[NAK_PSN_SEQUENCE]       = "PSN sequence error",
	[NAK_INVALID_REQUEST]    = "invalid request",
	[NAK_REMOTE_ACCESS]      = "remote access error",
	[NAK_REMOTE_OPERATIONAL] = "remote operational error",
	[NAK_INVALID_RD_REQUEST] = "invalid RD request",
};

bool aeth_valid(uint8_t syndrome)
{
	if (syndrome & 0x80)
		return false;
	switch (aeth_type(syndrome)) {
	case AETH_ACK:
	case AETH_RNR_NAK:
		return true;
	case AETH_RESERVED:
		return false;
	case AETH_NAK:
		return aeth_value(syndrome) < NAK_CODES;
	}
	return false;
}

const char *nak_str(unsigned code)
{
	return code < NAK_CODES ? nak_name[code] : "reserved";
}

uint64_t rnr_timer_ns(unsigned code)
{
	return rnr_10us[code & 31] * UINT64_C(10000);
}
