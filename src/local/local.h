/* SPDX-License-Identifier: BSD-2-Clause */
/* local.h - other processes of the same host, as nic/ sees them.  docs/local.md is
 * the page to read first.  All calls are made by the holder of the turn. */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/room.h"
#include "link/dgram.h"

struct core;
struct ib_pkt;
struct lane;
struct lane_from;
struct lane_short;
struct host;
struct host_said;
struct local;
struct qp;

struct local_ops {
	/* The peer does not want the lane that qp has: it is to leave it and take its
	 * path's link.  No QP is locked. */
	void (*refused)(void *arg, struct qp *qp);
	/* A packet came in on a lane, of QP src by a route.  Valid for this call. */
	void (*packet)(struct core *core, const struct lane *l, const struct ib_pkt *pkt,
		       uint32_t src, uint32_t route, uint64_t now);
	/* ... which is a SEND in one packet without headers of its own.  False: nothing
	 * has been done, and it is to come as any packet. */
	bool (*message)(struct core *core, const struct lane *l,
			const struct lane_from *from, const struct lane_short *s,
			const uint8_t *payload, uint32_t len, uint64_t now);
	/* The other has executed more, perhaps of what this QP has sent. */
	void (*news)(struct qp *qp, uint64_t now);
	/* ... of what the QP has sent that this word names. */
	void (*told)(struct core *core, const struct lane *l, uint64_t word,
		     uint64_t now);
	/* A datagram came in by a pipe.  It may be kept for this call. */
	void (*datagram)(void *arg, const struct dgram *d, uint64_t now);
	/* local_deadline() has become earlier, by a control call; or NULL. */
	void (*sooner)(void *arg);
};

/* The best way that is to be used; what is not possible falls back to the one
 * before.  OFF: every pipe is refused.  PIPE: all goes through the pipe, here and
 * at the peer.  VM: process_vm_readv() and process_vm_writev(), for which Yama is
 * opened; AUTO: the same where that is not needed. */
enum local_way { LOCAL_OFF, LOCAL_PIPE, LOCAL_VM, LOCAL_AUTO };

extern struct room_key local_key;

/* NULL: it is not open. */
static inline struct local *local_of(const struct core *core)
{
	return room_get(core, &local_key);
}

/* off_why: to be told where way is LOCAL_OFF.  0 or -ENOMEM. */
int local_open(struct core *core, struct host *host, enum local_way way,
	       const char *off_why, const struct local_ops *ops, void *arg);
void local_close(struct core *core);
void local_forked(struct core *core); /* in the child of a fork */

/* The lane to the process of slot, this one included; asks for one if there is none
 * yet.  NULL: it is refused, or nobody is there: use the wire. */
struct lane *local_lane(struct local *l, uint16_t slot);
/* qp, which is locked, is to take it. */
void local_connect(struct qp *qp, struct lane *lane);

struct local_got {
	unsigned records;
	bool one_sided; /* WRITEs, READs or atomics of peers among them */
};

/* Take in what peers have written, from so many rings as a turn looks at. */
struct local_got local_input(struct local *l, uint64_t now);
/* Someone waits for what may be in rings that are not polled: they are. */
void local_hear(struct local *l);
/* ... and what this process has written to itself.  Cheap if nothing. */
unsigned local_loopback(struct local *l, uint64_t now);
/* After output: wake whom it is for. */
void local_flush(struct local *l);
/* When there is something to do without input. */
uint64_t local_deadline(struct local *l, uint64_t now);
/* From now on somebody looks at every ring at least once in a while: its writers
 * need not kick. */
void local_leave(struct local *l);
/* The thread is about to sleep until it is kicked: every ring that is empty cools. */
void local_rest(struct local *l);
/* Are there rings whose writers rely on their being polled?  Needs no turn. */
bool local_is_hot(struct local *l);
/* One line at info, if there was anything. */
void local_log_counters(struct core *core);

/* Datagrams to slot go by its pipe, which is asked for if there is none. */
bool local_has_pipe(struct local *l, uint16_t slot);
/* Put d into it.  False: it is full now; what a peer that does not read would
 * keep waiting is lost. */
bool local_send(struct local *l, uint16_t slot, const struct dgram *d, uint64_t now);

void local_said(struct local *l, struct host_said *s);
void local_gone(struct local *l, uint16_t slot);

#endif
