/* SPDX-License-Identifier: BSD-2-Clause */
/* evil.h - what the victim of a hostile peer and that peer tell each other over
 * the control connection. */
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
	uint32_t qpn, rkey; /* of the QP that it talks to */
	uint64_t addr;
	union ibv_gid gid;
	struct duo_card honest; /* it must not get there */
};

static inline uint32_t slot_of(uint32_t qpn)
{
	return qpn >> 14;
}

#endif
