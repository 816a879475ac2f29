/* SPDX-License-Identifier: BSD-2-Clause */
/* local.h - other processes of the same host, as driver/ sees them.  Read
 * docs/dev/local.md first.  All calls need the turn, unless they say otherwise. */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"
#include "verbs/room.h"

struct core;
struct host;
struct peer;
struct host_said;
struct local;
struct qp;
struct source;

struct local_ops {
	/* The peer that qp leads to refuses shared memory: qp must use its path's link.
	 * No QP is locked. */
	void (*refused)(void *arg, struct qp *qp);
	/* The peer that qp leads to is up.  No QP is locked. */
	void (*up)(struct qp *qp, uint64_t now);
	/* Takes in the segments that the ring has next, `most` at most.  Returns how
	 * many, or -EPROTO if no urnic writes such a record. */
	int (*segments)(struct peer *p, unsigned most, uint64_t now);
	/* Completes what the peer's words up to this count say; what it has executed of
	 * all QPs. */
	void (*words)(struct peer *p, uint32_t count, uint64_t now);
	void (*news)(struct peer *p, uint64_t now);
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

extern struct room_key local_key;

/* NULL: local is not open. */
static inline struct local *local_of(const struct core *core)
{
	return room_get(core, &local_key);
}

/* off_why: the reason to log if way is LOCAL_OFF.  Returns 0 or -ENOMEM. */
int local_open(struct core *core, struct host *host, enum local_way way,
	       const char *off_why, const struct local_ops *ops, void *arg);
void local_close(struct core *core);
void local_forked(struct core *core); /* in the child of a fork */

/* The process of slot, which may be this process.  Asks it for a pipe if there is none
 * yet.  NULL: it refused, or no process has the slot: use the wire. */
struct peer *local_peer(struct local *l, uint16_t slot);

/* The rings as one source of the engine; what follows are its parts.  A ring is hot while
 * its writer relies on being polled, and cold while it sends a KICK. */
struct source *local_source(struct local *l);

struct local_got {
	unsigned records;
	bool one_sided; /* the records included WRITEs, READs or atomics of peers */
};

/* Takes in what peers have written, from as many rings as one turn looks at.  For any
 * turn, also a brief one. */
struct local_got local_input(struct local *l, uint64_t now);
/* Takes in what this process has written to itself, and returns the number of records.
 * Cheap if there are none. */
unsigned local_loopback(struct local *l, uint64_t now);
/* After output: wakes the peers that were written to and sleep.  Returns true if this
 * process has written to itself. */
bool local_flush(struct local *l);
/* Logs the counters in one or two lines of level info, if any is not 0. */
void local_log_counters(struct core *core);

/* Can datagrams to slot go through a pipe?  Asks the process for a pipe if there is
 * none. */
bool local_has_pipe(struct local *l, uint16_t slot);
/* Writes d into the pipe to slot.  Returns false if the ring is full now and its peer
 * still reads: try again.  Returns true if d was written, or was dropped because the peer
 * does not read. */
bool local_send(struct local *l, uint16_t slot, const struct dgram *d, uint64_t now);

void local_said(struct local *l, struct host_said *s);
void local_gone(struct local *l, uint16_t slot);

#endif
