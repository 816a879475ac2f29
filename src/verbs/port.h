/* SPDX-License-Identifier: BSD-2-Clause */
/* port.h - the attributes of a port, which its owner fills: a network interface or a
 * fabric (docs/dev/paths.md). */
#ifndef VERBS_PORT_H
#define VERBS_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/well_known.h"

enum { GID_TABLE = 128, PKEY_TABLE = 128 };
/* Where RoCE v1 is offered, index GID_V1 + n holds GID n as RoCE v1, for n below
 * GID_V1. The limit keeps indices below 64, since perftest takes no index above that.
 * With caps.v1_gids GID n is at index 2n + 1, and as RoCE v1 at index 2n. */
enum { GID_V1 = 32 };

struct gid_entry {
	union ibv_gid gid;
	uint32_t ifindex;
	bool used;
	bool local_only; /* made up from the MAC: not for use on the wire */
	bool v1;	 /* RoCE v1; false on Ethernet: v2 */
	bool said_v1;	 /* it is said to be of v1, and its packets are of v2 */
};

/* Is the type of the GID that of RoCE v1? */
static inline bool gid_is_v1(const struct gid_entry *e)
{
	return e->v1 || e->said_v1;
}

struct port {
	uint32_t number;    /* the owner's interface index; 0: none */
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	bool active;
	/* InfiniBand: PortState and PortPhysicalState (0: derived from `active`), and
	 * other PortInfo fields. */
	uint8_t state, phys_state, subnet_timeout, max_vl;
	uint32_t reregisters; /* number of reregistrations a subnet manager asked for */
	uint8_t speed, width; /* as in ibv_port_attr */
	enum ibv_mtu max_mtu, active_mtu;
	uint32_t cap_flags; /* IBV_PORT_... */
	uint16_t lid, sm_lid;
	uint8_t ip[16]; /* InfiniBand: an IP address that is no GID; zeroes: none */
	uint8_t lmc, sm_sl;
	unsigned pkeys, gids; /* table lengths; a free entry is zeroes */
	uint16_t pkey[PKEY_TABLE];
	struct gid_entry gid[GID_TABLE];
};

/* Port events as bits, in the order in which they are raised; port_event() gives the
 * verbs event. */
enum port_change {
	PORT_DOWN = 1,
	PORT_LID = 2,
	PORT_SM = 4,
	PORT_PKEY = 8,
	PORT_GID = 16,
	PORT_REREGISTER = 32,
	PORT_UP = 64,
	PORT_CHANGES = 128, /* end of the bits */
};

/* Returns the changes from `was` to `now`, as a mask of enum port_change. */
unsigned port_changes(const struct port *was, const struct port *now);
enum ibv_event_type port_event(enum port_change change);

#endif
