/* SPDX-License-Identifier: BSD-2-Clause */
/* nic_own.h - the NIC itself, inside nic/ only. */
#ifndef NIC_NIC_OWN_H
#define NIC_NIC_OWN_H

#include "core/core.h"
#include "nic/dump.h"
#include "nic/engine.h"
#include "nic/nic.h"
#include "nic/port.h"
#include "nic/sources.h"

struct conns;
struct host;
struct netdev_monitor;

struct nic {
	struct core core;
	struct engine engine;
	struct host *host;
	struct port *port;
	struct link *link;   /* the outermost */
	struct conns *conns; /* of iWARP */
	struct netdev_monitor *monitor;
	struct nic_sources sources;
	struct dumper dumper;
	unsigned users;
};

#endif
