/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.h - requests to a subnet's administrator (SA) and their answers: the path to a port,
 * and membership of a multicast group (IBTA vol. 1, 15.2.1.1, 15.2.5.16, 15.2.5.17).
 * Integers are in host byte order, codes as in verbs. */
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
	uint8_t life;	   /* packet lifetime: 4.096 us * 2^n */
};

/* Writes a request for one path between want's GIDs in want's partition. */
void sa_path_ask(uint8_t mad[MAD_SIZE], uint64_t tid, const struct sa_path *want);

/* Is mad the answer to such a request?  Returns 0 with *out; -EINVAL: the SA knows no
 * such path; -EPROTO: mad is something else, or no judgement of an SA, which must be
 * asked again. */
int sa_path_answer(struct sa_path *out, const uint8_t mad[MAD_SIZE]);

/* JoinState: the kind of membership. */
enum { SA_FULL_MEMBER = 1, SA_SEND_ONLY_FULL_MEMBER = 8 };

struct sa_group {
	uint8_t mgid[16], port_gid[16];
	uint32_t qkey, flow_label;
	uint16_t mlid, pkey;
	uint8_t mtu, rate, life; /* enum ibv_mtu, enum ibv_rate; 4.096 us * 2^n */
	uint8_t tclass, sl, hop_limit;
	uint8_t join_state;
};

/* Writes a request for port_gid to join the group with want's join_state (METHOD_SET) or
 * to leave it (METHOD_DELETE).  A join names the components that Linux' rdma_cm names,
 * and the MLID if that is not 0. */
void sa_group_ask(uint8_t mad[MAD_SIZE], uint64_t tid, enum mad_method method,
		  const struct sa_group *want);
/* Is mad such a request, or the answer to one?  Returns 0; -EINVAL: an answer that
 * refuses; -EPROTO as sa_path_answer().  *out and *method are set unless it is
 * -EPROTO. */
int sa_group_parse(struct sa_group *out, uint8_t *method, const uint8_t mad[MAD_SIZE]);

#endif
