/* SPDX-License-Identifier: BSD-2-Clause */
/* nic_own.h - the NIC itself, inside nic/ only. */
#ifndef NIC_NIC_OWN_H
#define NIC_NIC_OWN_H

#include "core/core.h"
#include "nic/dump.h"
#include "nic/engine.h"
#include "nic/links.h"
#include "sys/lock.h"
#include "sys/source.h"

struct adapter;
struct cm;
struct conf;
struct conns;
struct ethernet;
struct host;
struct netdev_monitor;

enum { SOURCES = 8 };

/* What the engine turns: sources.c. */
struct nic_sources {
	struct source source[SOURCES];
};

struct nic {
	struct core core;
	struct engine engine;
	struct host *host;
	struct links links;
	struct ethernet *ethernet; /* one of them */
	struct adapter *adapter;   /* another; NULL: there is no fabric */
	struct cm *cm;
	struct conns *conns; /* of iWARP */
	struct netdev_monitor *monitor;
	struct nic_sources sources;
	struct dumper dumper;
	bool xrc; /* between processes: from the first message until ib goes */
	unsigned users;
};

/* nic, which is zeroes, is put together and begins to run.  0 or -errno. */
int nic_start(struct nic *nic, const struct conf *conf);
/* It is taken apart, and freed. */
void nic_stop(struct nic *nic);
void nic_log_counters(struct nic *nic);

#endif
