/* SPDX-License-Identifier: BSD-2-Clause */
/* path.h - where packets go: the path of a connected QP or an address handle, and
 * address handles (docs/paths.md). */
#ifndef CORE_PATH_H
#define CORE_PATH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"
#include "sys/live.h"

struct context;
struct pd;

struct path {
	struct link *link;     /* carries it, and alone reads: */
	struct link_addr addr; /* from us to the peer */
	/* A QP's, and so of UD QPs, too, whose addresses are those of handles: */
	uint32_t mtu;	     /* bytes of payload in a packet */
	uint16_t pkey_index; /* of the port's table.  Of a message of QP1: its own */
	uint32_t rate;	     /* Mb/s that its packets keep to (9.11); 0: as the port */
	uint8_t sl;
	bool same_host; /* address handles: the peer is of this host */
};

struct ah {
	struct live live;
	struct ibv_ah ibv;
	struct pd *pd;
	struct path path;
	struct ibv_ah_attr attr;
};

struct ah *ah_of(struct ibv_ah *ibv);

/* Check attr against the port and GID table of ctx's device, and ask its link for the
 * address.  0 or -EINVAL. */
int path_resolve(const struct context *ctx, const struct ibv_ah_attr *attr,
		 struct path *path);
/* Counts in pd->users.  0, -EINVAL, -ENOMEM or -EOPNOTSUPP. */
int ah_create(struct pd *pd, const struct context *ctx, const struct ibv_ah_attr *attr,
	      struct ah **out);
int ah_destroy(struct ah *ah);

#endif
