/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/aeth.h"

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
