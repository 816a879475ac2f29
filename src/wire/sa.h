/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.h - what is asked of a subnet's administrator: the path to a port, and membership of
 * a multicast group (IBTA vol. 1, 15.2.1.1, 15.2.5.16, 15.2.5.17).  Integers in host
 * order, codes as verbs has them. */
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
 * -EPROTO: it is something else, or the SA is too busy and is to be asked again.  *out is
 * set with 0 only. */
int sa_path_answer(struct sa_path *out, const uint8_t mad[MAD_SIZE]);

/* JoinState: how a port is in a group. */
enum { SA_FULL_MEMBER = 1, SA_SEND_ONLY_FULL_MEMBER = 8 };

struct sa_group {
	uint8_t mgid[16], port_gid[16];
	uint32_t qkey, flow_label;
	uint16_t mlid, pkey;
	uint8_t mtu, rate, life; /* enum ibv_mtu, enum ibv_rate; 4.096 us * 2^n */
	uint8_t tclass, sl, hop_limit;
	uint8_t join_state;
};

/* Writes a request that port_gid join the group in that state (METHOD_SET), with the
 * components that Linux' rdma_cm names, and the MLID if that is not 0; or leave it
 * (METHOD_DELETE). */
void sa_group_ask(uint8_t mad[MAD_SIZE], uint64_t tid, enum mad_method method,
		  const struct sa_group *want);
/* Is mad such a request, or the answer to one?  0 and the method; -EINVAL: an answer that
 * says no; -EPROTO as above.  *out is set but for -EPROTO. */
int sa_group_parse(struct sa_group *out, uint8_t *method, const uint8_t mad[MAD_SIZE]);

#endif
