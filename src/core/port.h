/* SPDX-License-Identifier: BSD-2-Clause */
/* port.h - what a port is like: filled by its owner, which is a network interface or a
 * fabric (docs/paths.md). */
#ifndef CORE_PORT_H
#define CORE_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/gsi.h"

enum { GID_TABLE = 128, PKEY_TABLE = 128 };
/* GID GID_V1 + n is GID n as RoCE v1 where that is offered, for n below GID_V1: perftest
 * takes no index above 64. */
enum { GID_V1 = 32 };

struct gid_entry {
	union ibv_gid gid;
	uint32_t ifindex;
	bool used;
	bool local_only; /* synthesised: cannot go on a wire */
	bool v1;	 /* of RoCE v1; else, of Ethernet, of v2 */
};

struct port {
	uint32_t number;    /* of its owner: the interface's index; 0: none */
	uint8_t link_layer; /* IBV_LINK_LAYER_... */
	bool active;
	/* Of InfiniBand: PortState and PortPhysicalState (0: as active says), and others
	 * of PortInfo. */
	uint8_t state, phys_state, subnet_timeout, max_vl;
	uint32_t reregisters; /* how often a subnet manager has asked for that */
	uint8_t speed, width; /* as in ibv_port_attr */
	enum ibv_mtu max_mtu, active_mtu;
	uint32_t cap_flags; /* IBV_PORT_... */
	uint16_t lid, sm_lid;
	uint8_t ip[16]; /* of InfiniBand: an address that is no GID; zeroes: none */
	uint8_t lmc, sm_sl;
	unsigned pkeys, gids; /* entries of the tables; a free one is zeroes */
	uint16_t pkey[PKEY_TABLE];
	struct gid_entry gid[GID_TABLE];
};

/* Events of a port, as bits: port_event() has their names in verbs, in the order
 * in which they are told. */
enum port_change {
	PORT_DOWN = 1,
	PORT_LID = 2,
	PORT_SM = 4,
	PORT_PKEY = 8,
	PORT_GID = 16,
	PORT_REREGISTER = 32,
	PORT_UP = 64,
	PORT_CHANGES = 128, /* none is above */
};

/* What of `now` is to be told to whoever knew `was`. */
unsigned port_changes(const struct port *was, const struct port *now);
enum ibv_event_type port_event(enum port_change change);

#endif
