/* SPDX-License-Identifier: BSD-2-Clause */
/* nic_own.h - struct nic and its parts, inside driver/ only. */
#ifndef DRIVER_NIC_OWN_H
#define DRIVER_NIC_OWN_H

#include "driver/dump.h"
#include "driver/engine.h"
#include "driver/links.h"
#include "sys/lock.h"
#include "sys/source.h"
#include "verbs/core.h"

struct adapter;
struct cm;
struct conf;
struct conns;
struct ethernet;
struct host;
struct netdev_monitor;
struct tally;

enum { SOURCES = 8 };

/* The sources that the engine runs (sources.c). */
struct nic_sources {
	struct source source[SOURCES];
};

struct nic {
	struct core core;
	struct engine engine;
	struct host *host;
	struct links links;
	struct ethernet *ethernet; /* one of links */
	struct adapter *adapter;   /* one of links; NULL: no fabric */
	struct cm *cm;
	struct conns *conns; /* iWARP connections */
	struct netdev_monitor *monitor;
	struct nic_sources sources;
	struct dumper dumper;
	struct tally *tally; /* counters that others may read; NULL: none */
	/* XRC domains shared between processes: set at the first message, cleared when
	 * ib closes */
	bool xrc;
	unsigned users;
};

extern struct lock nic_lock;
extern struct nic *the_nic GUARDED_BY(nic_lock); /* the process's one NIC */

/* Installs the handlers of fork(), once. */
void nic_watch_forks(void);

/* Builds the NIC in *nic, which is zeroed, and starts it. Returns 0 or -errno. */
int nic_start(struct nic *nic, const struct conf *conf);
/* Stops the NIC, takes it apart and frees it. */
void nic_stop(struct nic *nic);
void nic_log_counters(struct nic *nic);

#endif
