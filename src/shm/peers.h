/* SPDX-License-Identifier: BSD-2-Clause */
/* local.h - other processes of the same host, as driver/ sees them.  Read
 * docs/dev/peers.md first.  All calls need the turn, unless they say otherwise. */
#ifndef SHM_PEERS_H
#define SHM_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"
#include "verbs/room.h"

struct core;
struct host;
struct peer;
struct host_said;
struct peers;
struct qp;
struct source;

struct peers_ops {
	/* The peer that qp leads to refuses shared memory: qp must use its path's link.
	 * No QP is locked. */
	void (*refused)(void *arg, struct qp *qp);
	/* A datagram came in by a pipe.  It is valid during the call. */
	void (*datagram)(void *arg, const struct dgram *d, uint64_t now);
	/* The source's time has become earlier, by a control call, or messages were taken
	 * in from descriptors that the engine's thread sleeps on: wakes that thread.  May
	 * be NULL. */
	void (*sooner)(void *arg);
};

/* The best way that may be used; one that is not possible falls back to the one before.
 * OFF: every pipe is refused.  PIPE: all goes through the pipe, here and at the peer.
 * VM: process_vm_readv() and process_vm_writev(), and this process allows them to others
 * (Yama).  AUTO: the same, where Yama allows them already. */
enum local_way { LOCAL_OFF, LOCAL_PIPE, LOCAL_VM, LOCAL_AUTO };

extern struct room_key peers_key;

/* NULL: local is not open. */
static inline struct peers *peers_of(const struct core *core)
{
	return room_get(core, &peers_key);
}

/* off_why: the reason to log if way is LOCAL_OFF.  Returns 0 or -ENOMEM. */
int peers_open(struct core *core, struct host *host, enum local_way way,
	       const char *off_why, const struct peers_ops *ops, void *arg);
void peers_close(struct core *core);
void peers_forked(struct core *core); /* in the child of a fork */

/* The process of slot, which may be this process.  Asks it for a pipe if there is none
 * yet.  NULL: it refused, or no process has the slot: use the wire. */
struct peer *peers_peer(struct peers *l, uint16_t slot);

/* From now on QPs that begin (RESET to INIT) use the wire, also from peers, and datagrams
 * that this process sends; or no longer.  Returns 0 or -ENOMEM. */
int peers_avoid(struct peers *l, bool avoid);
/* Has peers_avoid() ever asked for it?  Any thread may ask. */
bool peers_may_avoid(struct peers *l);
/* QP qpn begins. */
void peers_begins(struct peers *l, uint32_t qpn);
/* Does QP qpn of this process use the wire?  Does QP dest of p's? */
bool peers_uses_wire(const struct peers *l, uint32_t qpn);
bool peers_avoids(const struct peer *p, uint32_t dest);

/* How many requests and datagrams of this process went through memory so far.  Turn
 * held. */
uint64_t peers_requests(const struct peers *l);

/* The rings as one source of the engine; what follows are its parts.  A ring is hot while
 * its writer relies on being polled, and cold while it sends a KICK. */
struct source *peers_source(struct peers *l);

struct peers_got {
	unsigned records;
	bool one_sided; /* the records included WRITEs, READs or atomics of peers */
};

/* Takes in what peers have written, from as many rings as one turn looks at.  For any
 * turn, also a brief one. */
struct peers_got peers_input(struct peers *l, uint64_t now);
/* Takes in what this process has written to itself, and returns the number of records.
 * Cheap if there are none. */
unsigned peers_loopback(struct peers *l, uint64_t now);
/* After output: wakes the peers that were written to and sleep.  Returns true if this
 * process has written to itself. */
bool peers_flush(struct peers *l);
/* Logs the counters in one or two lines of level info, if any is not 0. */
void peers_log_counters(struct core *core);

/* Can datagrams to slot go through a pipe?  Asks the process for a pipe if there is
 * none. */
bool peers_has_pipe(struct peers *l, uint16_t slot);
/* Writes d into the pipe to slot.  Returns false if the ring is full now and its peer
 * still reads: try again.  Returns true if d was written, or was dropped because the peer
 * does not read. */
bool peers_send(struct peers *l, uint16_t slot, const struct dgram *d, uint64_t now);

void peers_said(struct peers *l, struct host_said *s);
void peers_gone(struct peers *l, uint16_t slot);

#endif
