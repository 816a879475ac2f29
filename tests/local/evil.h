/* SPDX-License-Identifier: BSD-2-Clause */
/* evil.h - the messages between a hostile process and its victim over the control
 * connection. */
#ifndef LOCAL_TESTS_EVIL_H
#define LOCAL_TESTS_EVIL_H

#include "duo.h"

enum { EVIL_OVER = UINT32_MAX, EVIL_LEN = 32 << 10 };

/* the hostile process's own */
struct evil_card {
	uint32_t slot; /* a slot, or EVIL_OVER */
	uint32_t qpn;
};

struct victim_card {
	/* The QP that the hostile peer is connected to, and the key of that QP's memory.
	 */
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
	struct duo_card honest; /* an honest peer's QPs, which must not be harmed */
};

static inline uint32_t slot_of(uint32_t qpn)
{
	return qpn >> 14;
}

#endif
