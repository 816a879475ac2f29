/* SPDX-License-Identifier: BSD-2-Clause */
/* path.h - the path of packets, from a connected QP or an address handle, and address
 * handles themselves (docs/dev/paths.md). */
#ifndef VERBS_PATH_H
#define VERBS_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "sys/live.h"

struct context;
struct pd;

struct path {
	struct link *link;     /* carries the packets; only the link reads addr */
	struct link_addr addr; /* from this port to the peer */
	/* The fields from here on belong to a QP. A UD QP has them too, although its
	 * addresses come from address handles. */
	uint32_t mtu;	     /* bytes of payload in a packet */
	uint16_t pkey_index; /* in the port's table */
	uint32_t rate;	     /* rate limit in Mb/s (9.11); 0: the port's rate */
	uint8_t sl;
	bool same_host; /* address handle: the peer is on this host */
};

struct ah {
	struct live live;
	struct ibv_ah ibv;
	struct pd *pd;
	struct path path;
	struct ibv_ah_attr attr;
};

struct ah *ah_of(struct ibv_ah *ibv);

/* Checks attr against the port and GID table of ctx's device, and asks its link for
 * the address. Returns 0 or -EINVAL. */
int path_resolve(const struct context *ctx, const struct ibv_ah_attr *attr,
		 struct path *path);
/* The handle counts in pd->users. Returns 0, -EINVAL, -ENOMEM or -EOPNOTSUPP. */
int ah_create(struct pd *pd, const struct context *ctx, const struct ibv_ah_attr *attr,
	      struct ah **out);
int ah_destroy(struct ah *ah);

#endif
