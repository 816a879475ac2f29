/* SPDX-License-Identifier: BSD-2-Clause */
/* av.h - address vectors and handles: where a packet goes, and from where. */
#ifndef CORE_AV_H
#define CORE_AV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/addr.h"
#include "sys/live.h"

struct pd;
struct device;

struct av {
	uint8_t sgid[16], dgid[16]; /* IP addresses, IPv4 mapped */
	uint32_t ifindex;	    /* to leave by, where dgid needs it; else 0 */
	bool here;		    /* address handles: dgid is this host's */
	uint8_t sgid_index, tclass, hop_limit, sl;
	uint32_t flow_label;
};

struct ah {
	struct live live;
	struct ibv_ah ibv;
	struct pd *pd;
	struct av av;
	struct ibv_ah_attr attr;
};

static inline bool gid_is_multicast(const uint8_t ip[16])
{
	return addr_is_v4(ip) ? ip[12] >> 4 == 0xe : ip[0] == 0xff;
}

struct ah *ah_of(struct ibv_ah *ibv);

/* Check attr against dev's port and GID table and resolve it.  RoCE: a GRH is
 * needed.  0 or -EINVAL. */
int av_resolve(struct device *dev, const struct ibv_ah_attr *attr, struct av *av);
/* Counts in pd->users.  0, -EINVAL or -ENOMEM. */
int ah_create(struct pd *pd, struct device *dev, const struct ibv_ah_attr *attr,
	      struct ah **out);
int ah_destroy(struct ah *ah);

#endif
