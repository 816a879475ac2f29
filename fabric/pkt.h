/* SPDX-License-Identifier: BSD-2-Clause */
/* pkt.h - a packet within a fabric. */
#ifndef FABRIC_PKT_H
#define FABRIC_PKT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/mad.h"

/* A packet other than a MAD. Its bytes, BTH to ICRC, belong to the caller that injected
 * it and must stay until done(). A hostile owner may change them, so the fabric relies
 * only on the copies in struct mad_pkt and in bth. */
struct fabric_data {
	const uint8_t *bytes;
	uint32_t len; /* a multiple of 4 */
	uint32_t refs;
	uint8_t bth[12];
};

/* A MAD with the fields of its LRH, GRH, BTH and DETH; or a packet of data, whose `mad`
 * is unused. */
struct mad_pkt {
	struct fabric_data *data; /* NULL: it is a MAD */
	uint16_t slid, dlid, pkey;
	uint8_t sl, hops;
	uint32_t sqpn, dqpn, qkey;
	bool grh;
	uint8_t tclass, hop_limit;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
	uint8_t mad[MAD_SIZE];
};

#endif
