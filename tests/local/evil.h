/* SPDX-License-Identifier: BSD-2-Clause */
/* evil.h - the messages between a hostile process and its victim over the control
 * connection. */
#ifndef LOCAL_TESTS_EVIL_H
#define LOCAL_TESTS_EVIL_H

#include "duo.h"

enum { EVIL_OVER = UINT32_MAX, EVIL_LEN = 32 << 10 };

/* of the hostile peer */
struct evil_card {
	uint32_t slot; /* or EVIL_OVER */
	uint32_t qpn;
};

struct victim_card {
	uint32_t qpn,
		rkey; /* the QP that the hostile peer talks to, and its memory's key */
	uint64_t addr;
	union ibv_gid gid;
	struct duo_card honest; /* an honest peer's QPs, which must come to no harm */
};

static inline uint32_t slot_of(uint32_t qpn)
{
	return qpn >> 14;
}

#endif
