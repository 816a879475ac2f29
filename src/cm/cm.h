/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.h - the communication manager (CM) of one NIC, as driver/ and gate.c see it.
 * All functions are called with the engine's turn held. */
#ifndef CM_CM_H
#define CM_CM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cm/proto.h"
#include "sys/source.h"

struct cm_listener;
struct core;
struct device;
struct dgram;
struct host;
struct link;

enum { CM_BACKLOG_MAX = 1024 };

/* Counters of messages (MADs) and iWARP connections; counter.def has their names. */
enum cm_counter {
#define COUNTER(value, name) value,
#include "cm/counter.def"
#undef COUNTER
	CM_COUNTERS
};

/* The CM's questions about the network, answered by driver/. Every pointer may be NULL in
 * tests. */
struct cm_site {
	bool (*same_host)(const uint8_t ip[16]); /* is ip an address of this host? */
	/* Writes at most max addresses of this host to ip[]; returns how many. */
	unsigned (*addresses)(uint8_t (*ip)[16], unsigned max);
	void (*kick)(struct core *core); /* wakes the engine, which then takes a turn */
	/* Takes one refusal: a host answered a packet of ours with "port unreachable",
	 * as no process there has the RoCE UDP port. Sets ip to that host, copies at
	 * most max bytes of the quoted packet, and returns their number; 0: no more
	 * refusals. */
	size_t (*refused)(struct core *core, uint8_t ip[16], void *quote, size_t max);
	/* Returns the MTU (enum ibv_mtu) of our port with the GID ip on this interface;
	 * 0: there is none. ifindex 0: any interface. */
	uint8_t (*mtu)(struct core *core, const uint8_t ip[16], uint32_t ifindex);
	/* A link by which MADs go is broken: the program has closed its descriptors. */
	void (*lost)(struct core *core);
	/* For gate.c: gives the turn back and sends what was produced in it. */
	void (*leave)(struct core *core);
	/* For gate.c, without the turn: makes ready what MADs to our address ip (NULL: to
	 * any) arrive by. Returns 0 or -errno. */
	int (*open_port)(struct core *core, const uint8_t *ip);
	/* For gate.c, without the turn: see cm_gate_await(), cm_gate_find() and
	 * cm_gate_serve(). */
	int (*await)(struct core *core, int fd, bool (*has)(void *arg), void *arg);
	int (*find)(struct core *core, const uint8_t ip[16], uint8_t gid[16]);
	int (*serve)(struct core *core, uint64_t service);
	/* MADs to processes of this host may be forwarded to them instead of going by the
	 * wire. */
	bool by_host;
};

/* host and site are NULL in unit tests. Returns 0 or -errno (-ENOMEM; or no epoll
 * descriptor for iWARP). */
int cm_open(struct cm **out, struct core *core, struct host *host,
	    const struct cm_site *site, uint64_t seed);
void cm_close(struct cm *cm);

/* Opens the QP1 of a link, by which MADs go. With dev: an InfiniBand link, whose port dev
 * is. With dev NULL: the Ethernet link, which all devices share; udp_port is then the
 * RoCE port of its hosts. Returns 0 or -ENOMEM. */
int cm_use_link(struct cm *cm, struct device *dev, struct link *link, uint16_t udp_port);

/* Takes a MAD that another process of this host has forwarded to this process. The MAD
 * waits until the next cm_run(). */
void cm_forwarded(struct cm *cm, const struct dgram *d);

/* The CM as a source of the engine; what follows are its parts. */
struct source *cm_source(struct cm *cm);

/* iWARP's sockets. cm_fd() is readable when there is something to do, and -1 while there
 * is no socket (the first socket causes a kick); any thread may call it. cm_input() polls
 * the sockets, though with SOURCE_TURN not at each call; it returns true if it found
 * anything. */
int cm_fd(const struct cm *cm);
bool cm_input(struct cm *cm, enum source_depth depth, uint64_t now);

/* Runs timers, takes the forwarded MADs, and hands the MADs that wait in QP1 to its
 * link. */
void cm_run(struct cm *cm, uint64_t now);
uint64_t cm_deadline(const struct cm *cm); /* when cm_run() next has something to do */

/* The connection to the process with this slot is lost; the process may have ended. */
void cm_gone(struct cm *cm, uint16_t slot, uint64_t now);
/* At the process's end: tells each connected peer. Returns true if QP1's queue is full:
 * call again after cm_run(). */
bool cm_leave(struct cm *cm, uint64_t now);

uint64_t cm_counter(const struct cm *cm, enum cm_counter c);
void cm_log_counters(const struct cm *cm);
/* Writes some of the listeners and connections to out, one line each, beginning at *at
 * (all zero at first), and advances *at. Returns false after the last of them. */
struct cm_place {
	unsigned stage, from;
};
bool cm_describe(struct cm *cm, struct cm_place *at, FILE *out);

/* --- listening ----------------------------------------------------------- */

struct cm_service {
	uint16_t space, port; /* port 0: cm_bind() picks a free one */
	bool any, v6;	      /* the wildcard address of the family that v6 tells */
	bool v6_only;	      /* the IPv6 wildcard does not serve IPv4, too */
	uint8_t ip[16];	      /* unless any; IPv4 mapped */
	uint32_t ifindex;     /* interface of ip, if that is link-local */
	bool native;	      /* as in struct cm_target; ip is a GID */
	/* Served by TCP: besides RoCE, or (only_iwarp) by TCP alone. */
	bool iwarp;
	bool only_iwarp;
	bool only_ib; /* served at an adapter of a fabric, by no Ethernet interface */
	/* The descriptor that keeps the service registered with the fabric, closed with
	 * the listener; 0: none. */
	int fd;
};

/* Returns the service ID (annex A11) of a service whose port is known. */
uint64_t cm_id_of_service(const struct cm_service *s);

/* Takes the service's name on this host, and sets s->port. If any port will do, takes the
 * TCP port of an iWARP service as well; otherwise cm_listen() takes it, since a program
 * that binds may be about to connect. Returns 0, -EADDRINUSE or -ENOMEM. */
int cm_bind(struct cm *cm, struct cm_service *s, struct cm_listener **out);
/* Starts to deliver requests to owner: SIDR requests if datagram, else REQs. At most
 * backlog (0: CM_BACKLOG_MAX) may wait for cm_taken(). Returns 0, -EINVAL (it listens
 * already), -ENOMEM, or -EADDRINUSE: another program has the TCP port and the service is
 * iWARP's alone. If RoCE serves it as well, the occupied TCP port is only logged. */
int cm_listen(struct cm *cm, struct cm_listener *l, int backlog, bool datagram,
	      struct cm_owner *owner);
/* Do requests for this listener arrive by the UDP port? */
bool cm_needs_port(const struct cm_listener *l);
void cm_unbind(struct cm *cm, struct cm_listener *l);

/* The program has read the request of c: its listener has room for another. */
void cm_taken(struct cm *cm, struct cm_conn *c);
/* Accepts as c->proto->accept() does, and attaches. c's events go to owner from then on.
 * As with Linux, nobody is told what happened before: accepting then fails. */
int cm_accept(struct cm_conn *c, const struct cm_param *self, struct cm_owner *owner,
	      uint64_t now);

/* --- paths of InfiniBand ------------------------------------------------- */

/* Asks the subnet's SA for the path between the GIDs of route, in its partition. The
 * event CM_EV_PATH follows, with status 0, -ETIMEDOUT (no answer within patience_ns) or
 * -EINVAL (there is no path). Returns 0, -ENODEV (no InfiniBand port) or -ENOMEM. */
int cm_path(struct cm *cm, const struct cm_route *route, uint64_t patience_ns,
	    struct cm_owner *owner, uint64_t now);
/* Abandons all path queries of this owner; it gets no more CM_EV_PATH. */
void cm_path_forget(struct cm *cm, const struct cm_owner *owner);

/* --- multicast groups of InfiniBand ---------------------------------------- */

struct cm_member;

/* Joins our port to the multicast group that want describes, in want's join state, until
 * cm_part(). The event CM_EV_GROUP follows, with status 0, -ETIMEDOUT (no answer within
 * patience_ns) or -EINVAL (the SA refuses). After status 0 one with -ENETRESET may
 * follow: a new subnet manager did not give the group its former LID. Returns 0, -ENODEV
 * (no InfiniBand port) or -ENOMEM. */
int cm_join(struct cm *cm, const struct sa_group *want, uint64_t patience_ns,
	    struct cm_owner *owner, struct cm_member **out, uint64_t now);
/* Frees m; its owner gets no more events. The port leaves the group with its last
 * member. */
void cm_part(struct cm *cm, struct cm_member *m, uint64_t now);
/* A subnet manager asks for all memberships again. Each join names the group's former
 * LID, so that two groups do not exchange theirs. */
void cm_reregister(struct cm *cm, uint64_t now);

extern const struct cm_proto cm_ib_proto, cm_iw_proto;

#endif
