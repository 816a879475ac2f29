/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.h - where the InfiniBand transport hands in the MADs for QP number 1 of a link
 * (IBTA vol. 1, 10.2.5). There is no QP behind that number: its owner is connection
 * management (cm/qp1.h), which also sends from it. */
#ifndef VERBS_GSI_H
#define VERBS_GSI_H

#include <stddef.h>
#include <stdint.h>

#include "sys/list.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "wire/well_known.h"

struct link;

enum { GSI_MAD = 256 /* most bytes of a MAD */ };

/* A received MAD; valid during the call. */
struct gsi_mad {
	const uint8_t *head; /* the GRH or its equivalent: LINK_HEAD_LEN bytes */
	uint8_t bytes[GSI_MAD];
	size_t len;
	uint16_t slid;
	uint8_t sl;
	uint16_t pkey_index; /* its partition, as index in the port's table */
	uint32_t port;	     /* number of the receiving port; 0: unknown */
};

/* Each link has one at most. */
struct gsi {
	struct list node; /* in core->gsis, under the turn */
	const struct link *link;
	/* The port, in all of whose partitions QP1 is. NULL: the Ethernet ports of all
	 * devices, which are in the default partition. */
	struct device *dev;
	uint64_t packets, bytes; /* sent; from BTH to the MAD's end */
	/* Called with the turn held. */
	void (*take)(struct gsi *g, const struct gsi_mad *m, uint64_t now);
};

static inline struct gsi *gsi_of(const struct core *core, const struct link *link)
{
	list_for(n, &core->gsis)
	{
		struct gsi *g = container_of(n, struct gsi, node);

		if (g->link == link)
			return g;
	}
	return NULL;
}

/* Returns the index of the partition in which the port hears packets with this P_Key; -1:
 * it hears none of them. */
static inline int gsi_hears(const struct gsi *g, uint16_t pkey)
{
	if (g->dev)
		return device_find_pkey(g->dev, pkey);
	return pkey_match(PKEY_DEFAULT, pkey) ? 0 : -1;
}

#endif
