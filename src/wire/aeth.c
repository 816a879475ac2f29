/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/aeth.h"

/* clang-format off */
static const char *const nak_name[NAK_CODES] = {
	[NAK_PSN_SEQUENCE]       = "PSN sequence error",
	[NAK_INVALID_REQUEST]    = "invalid request",
	[NAK_REMOTE_ACCESS]      = "remote access error",
	[NAK_REMOTE_OPERATIONAL] = "remote operational error",
	[NAK_INVALID_RD_REQUEST] = "invalid RD request",
};
/* clang-format on */

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
