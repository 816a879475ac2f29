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
struct captures;
struct cm;
struct conf;
struct conns;
struct ethernet;
struct faults;
struct host;
struct link;
struct netdev_monitor;
struct nic;
struct tally;

enum { SOURCES = 3 };

/* Sources that are no part of their room (sources.c). */
struct nic_sources {
	struct source source[SOURCES];
};

/* Who takes messages that other processes of this user pass to this one. */
struct guest {
	struct source source;
	/* Of the process of slot: a message; it has ended. Turn held. */
	void (*heard)(struct nic *nic, uint16_t slot, const void *buf, size_t len);
	void (*gone)(struct nic *nic, uint16_t slot);
};

struct nic {
	struct core core;
	struct engine engine;
	struct host *host;
	struct links links;
	struct ethernet *ethernet; /* one of links */
	struct adapter *adapter;   /* one of links; NULL: no fabric */
	struct captures *captures; /* of captures.c; NULL: none yet */
	struct faults *faults;	   /* of wraps.c */
	struct cm *cm;
	struct conns *conns; /* iWARP connections */
	struct netdev_monitor *monitor;
	struct nic_sources sources;
	struct dumper dumper;
	struct tally *tally; /* counters that others may read; NULL: none */
	struct guest guest;  /* without functions in unit tests */
	unsigned users;
};

extern struct lock nic_lock;
extern struct nic *the_nic GUARDED_BY(nic_lock); /* the process's one NIC */

/* Installs the handlers of fork(), once. */
void nic_watch_forks(void);

static inline struct nic *nic_of_core(struct core *core)
{
	return container_of(core, struct nic, core);
}

/* --- for connection management: see struct cm_site (cm/cm.h) -------------- */

/* The descriptors of a link are gone. The turn must be held. */
void nic_lost(struct core *core);
/* Sends what the holder of the turn has produced, and gives the turn back. */
void nic_leave(struct core *core) NO_TSA;
/* Makes ready, without the turn, what MADs to our address ip (NULL: to any) arrive by,
 * and asks to be told of destinations that refuse us. Returns 0 or -EADDRINUSE ... */
int nic_open_port(struct core *core, const uint8_t *ip);
/* The caller is about to sleep until has(arg), which makes fd readable. Looks for input
 * for WAKE_UP_NS, then sleeps on the NIC's sockets, too, for up to WATCH_LOOK_NS, and
 * takes in itself what comes: a peer that answers soon wakes one thread, or none. Returns
 * 1 if has(arg); 0 if the time is up, and then the engine's thread watches; -EINTR.
 * has() is called without the turn. */
int nic_await(struct core *core, int fd, bool (*has)(void *arg), void *arg);
/* Finds the GID of the port with address ip on the fabric where this program has an
 * adapter. Asks the fabric and waits for it, so call it without the turn. Returns 0;
 * -EHOSTUNREACH: no port has the address; -ENODEV: this program has no adapter; -EIO
 * ... */
int nic_find(struct core *core, const uint8_t ip[16], uint8_t gid[16]);
/* Directs requests for this service of connection management to us. Returns a
 * descriptor, which keeps the service ours while it is open, or -EADDRINUSE ... */
int nic_serve(struct core *core, uint64_t service);

/* --- its beginning and its end -------------------------------------------- */

/* Builds the NIC in *nic, which is zeroed, and starts it. Returns 0 or -errno. */
int nic_start(struct nic *nic, const struct conf *conf);
/* Stops the NIC, takes it apart and frees it. */
void nic_stop(struct nic *nic);
void nic_log_counters(struct nic *nic);

#endif
