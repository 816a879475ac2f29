/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.h - the communication manager of one NIC, as nic/ and abi/ see it.
 * All calls are made with the engine's turn held. */
#ifndef CM_CM_H
#define CM_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cm/proto.h"

struct cm_listener;
struct core;
struct device;
struct dgram;
struct host;
struct link;
struct transport;

enum { CM_BACKLOG_MAX = 1024 };

/* What happened to MADs: counter.def has their names. */
enum cm_counter {
#define COUNTER(value, name) value,
#include "cm/counter.def"
#undef COUNTER
	CM_COUNTERS
};

/* What it has to know of the network. */
struct cm_site {
	bool (*same_host)(const uint8_t ip[16]); /* an address of this host? */
	/* All of them, at most max; how many. */
	unsigned (*addresses)(uint8_t (*ip)[16], unsigned max);
	void (*kick)(struct core *core); /* the engine has a turn to run */
	/* A packet with a MAD that a host has refused, as nobody has its UDP port there:
	 * the host, and as much of the packet as was quoted.  0: no more. */
	size_t (*refused)(struct core *core, uint8_t ip[16], void *quote, size_t max);
	/* Processes of this host need not be reached by the wire. */
	bool by_host;
};

/* host, site: NULL in unit tests.  0 or -ENOMEM. */
int cm_open(struct cm **out, struct core *core, struct host *host,
	    const struct cm_site *site, uint64_t seed);
void cm_close(struct cm *cm);

/* MADs go by the QP1 of this link: of InfiniBand's, which is dev's; dev NULL: of
 * Ethernet's, which is all devices', and whose hosts have that UDP port.  0 or -ENOMEM.
 */
int cm_use_link(struct cm *cm, struct device *dev, struct link *link,
		const struct transport *transport, uint16_t udp_port);

/* Takes a MAD that another process of this host has forwarded to this one; it waits for
 * the next cm_run(). */
void cm_forwarded(struct cm *cm, const struct dgram *d);

/* iWARP's sockets: the descriptor is readable when there is something to do; -1:
 * there are none yet, and with the first comes a kick.  Any thread.
 * First a look, then what QPs' connections have brought, then what was seen: so
 * that a peer which parts and connects again is told in that order.  True: there
 * was something. */
int cm_fd(const struct cm *cm);
void cm_look(struct cm *cm, uint64_t now);
bool cm_input(struct cm *cm, uint64_t now);

/* Timers, and MADs that were forwarded to us.  What there is to say goes to QP1. */
void cm_run(struct cm *cm, uint64_t now);
uint64_t cm_deadline(const struct cm *cm); /* when cm_run() has something to do */

/* The connection to a process of this host is gone; perhaps the process is. */
void cm_gone(struct cm *cm, uint16_t slot, uint64_t now);
/* In the child of a fork: close what is the parent's. */
void cm_forked(struct cm *cm);
/* This process ends: each connected peer is told.  True: there are more, when
 * what QP1 has to send is on its way. */
bool cm_leave(struct cm *cm, uint64_t now);

uint64_t cm_counter(const struct cm *cm, enum cm_counter c);
void cm_log_counters(const struct cm *cm);
/* Some of the listeners and connections, a line each, from *at on, which is zeroed at
 * first.  False: that was all. */
struct cm_place {
	unsigned stage, from;
};
bool cm_describe(struct cm *cm, struct cm_place *at, FILE *out);

/* --- listening ----------------------------------------------------------- */

struct cm_service {
	uint16_t space, port; /* port 0: any free one */
	bool any, v6;	      /* any: the wildcard of the family */
	bool v6_only;	      /* else the IPv6 wildcard is both's */
	uint8_t ip[16];	      /* not any; IPv4 mapped */
	uint32_t ifindex;     /* of a link-local one */
	bool native;	      /* as in struct cm_target; ip is a GID */
	bool iwarp;	      /* by TCP, too ... */
	bool only_iwarp;      /* ... or by that alone */
	bool only_ib;	      /* at an adapter of a fabric, and no interface */
	int fd;		      /* what stands for it there, closed with it; or 0 */
};

/* The ID of a service whose port is known (A11). */
uint64_t cm_id_of_service(const struct cm_service *s);

/* Take the service's name on this host; s->port is set.  0, -EADDRINUSE,
 * -ENOMEM.  The TCP port is taken here if any port will do, else by cm_listen():
 * as a program that binds may be about to connect. */
int cm_bind(struct cm *cm, struct cm_service *s, struct cm_listener **out);
/* From now on its owner gets requests, at most backlog before they are owned
 * (0: CM_BACKLOG_MAX).  datagram: SIDR requests only, else REQs only.
 * -EADDRINUSE: a program has the TCP port of an iWARP service; where there is
 * another way in, that is a line in the log. */
int cm_listen(struct cm *cm, struct cm_listener *l, int backlog, bool datagram,
	      struct cm_owner *owner);
/* Do its requests come by the UDP port? */
bool cm_needs_port(const struct cm_listener *l);
void cm_unbind(struct cm *cm, struct cm_listener *l);

/* Give a request's connection an owner, which is told at once what has happened
 * to it meanwhile. */
void cm_own(struct cm *cm, struct cm_conn *c, struct cm_owner *owner);

/* --- paths of InfiniBand ------------------------------------------------- */

/* Asks the subnet for the path between the GIDs of route, in its partition.  PATH
 * follows; its status is -ETIMEDOUT: nobody answers for so long; -EINVAL: there is none.
 * 0, -ENODEV or -ENOMEM. */
int cm_path(struct cm *cm, const struct cm_route *route, uint64_t patience_ns,
	    struct cm_owner *owner, uint64_t now);
/* What it has asked for does not matter any more. */
void cm_path_forget(struct cm *cm, const struct cm_owner *owner);

/* --- multicast groups of InfiniBand ---------------------------------------- */

struct cm_member;

/* Our port is to be in the group that want names, in its join state, as long as the
 * member lives.  GROUP follows; its status is -ETIMEDOUT: nobody answers for so long;
 * -EINVAL: the SA says no.  After 0 another one may follow: -ENETRESET, a subnet manager
 * has wanted to be told again, and the group is no more what it was.  0, -ENODEV or
 * -ENOMEM. */
int cm_join(struct cm *cm, const struct sa_group *want, uint64_t patience_ns,
	    struct cm_owner *owner, struct cm_member **out, uint64_t now);
/* The owner is told nothing more, and the member is no more. */
void cm_part(struct cm *cm, struct cm_member *m, uint64_t now);
/* A subnet manager wants to be told again of all memberships.  It is asked for the same
 * LID of each group, so that those of two groups are not exchanged. */
void cm_reregister(struct cm *cm, uint64_t now);

extern const struct cm_proto cm_ib_proto, cm_iw_proto;

#endif
