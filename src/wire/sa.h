/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.h - what is asked of a subnet's administrator: the path to a port (IBTA vol. 1,
 * 15.2.1.1, 15.2.5.16).  Integers in host order, codes as verbs has them. */
#ifndef WIRE_SA_H
#define WIRE_SA_H

#include <stdint.h>

#include "wire/mad.h"

struct sa_path {
	uint8_t sgid[16], dgid[16];
	uint16_t slid, dlid, pkey;
	uint32_t flow_label;
	uint8_t hop_limit, tclass, sl;
	uint8_t mtu, rate; /* enum ibv_mtu, enum ibv_rate */
	uint8_t life;	   /* of a packet on its way: 4.096 us * 2^n */
};

/* Writes a request for one path between these GIDs in this partition. */
void sa_path_ask(uint8_t mad[MAD_SIZE], uint64_t tid, const struct sa_path *want);

/* Is mad the answer to such a request?  0; -EINVAL: the SA knows no such path;
 * -EPROTO: it is something else.  *out is set with 0 only. */
int sa_path_answer(struct sa_path *out, const uint8_t mad[MAD_SIZE]);

#endif
