/* SPDX-License-Identifier: BSD-2-Clause */
/* ib.h - the IB transport as its driver, nic/ or a unit test, sees it:
 * datagrams and the time go in here; what is to be sent and when comes out of
 * ib_transport (core/transport.h). */
#ifndef IB_IB_H
#define IB_IB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/transport.h"
#include "ib/counters.h"
#include "link/dgram.h"

struct core;
struct ib;
struct ib_pkt;
struct lane;
struct lane_from;
struct lane_short;

/* seed: for what is random (nothing on the wire is).  0 or -ENOMEM. */
int ib_open(struct core *core, uint64_t seed);
void ib_close(struct core *core);

/* Take one packet from a link, BTH to pad: find its QP, do what it says,
 * make the QP due if it has something to send; or drop it and count why.
 * Turn held. */
void ib_input(struct core *core, const struct dgram *d, uint64_t now);
/* What the link gave at once. */
void ib_input_all(struct core *core, const struct dgram *v, unsigned n, uint64_t now);

/* The peer of qp, which has a lane, may have executed more of its requests.  Turn held.
 */
void ib_lane_news(struct qp *qp, uint64_t now);
/* The same of the QP that a word names (lane->executed), which was read. */
void ib_lane_told(struct core *core, const struct lane *l, uint64_t word, uint64_t now);
/* Take one packet from a lane, which QP src has sent by the route that is `in` here.
 * Turn held. */
void ib_lane_input(struct core *core, const struct lane *l, const struct ib_pkt *pkt,
		   uint32_t src, uint32_t in, uint64_t now);

/* The same of a SEND in one packet without headers of its own, if it is as most are: the
 * next of its QP, and its receive is one SGE.  False: nothing has been done. */
bool ib_lane_message(struct core *core, const struct lane *l,
		     const struct lane_from *from, const struct lane_short *s,
		     const uint8_t *payload, uint32_t len, uint64_t now);

/* XRC between processes (docs/xrc.md).  Messages go out by pass(): 0, -EAGAIN, -ESRCH
 * (no process of this user has the slot), -EFAULT; and come in, of such processes only,
 * here.  Turn held. */
void ib_xrc_open(struct core *core,
		 int (*pass)(void *arg, uint16_t slot, const struct iovec *part,
			     unsigned n),
		 void *arg);
void ib_xrc_heard(struct core *core, uint16_t slot, const void *buf, size_t len,
		  uint64_t now);
/* slot's process has ended. */
void ib_xrc_gone(struct core *core, uint16_t slot, uint64_t now);
/* When what a connection did not take is said again. */
uint64_t ib_xrc_deadline(struct core *core, uint64_t now);
void ib_xrc_run(struct core *core, uint64_t now);

/* "RC SEND_ONLY to QP 0x000a01, PSN 5, 1040 bytes". */
void ib_describe(const struct dgram *d, char *buf, size_t size);

uint64_t ib_counter(struct core *core, enum ib_counter c);
const char *ib_counter_name(enum ib_counter c);

/* Those that are not 0, as one line of level info.  Turn held, or nobody left
 * to take it. */
void ib_log_counters(struct core *core);

extern const struct transport ib_transport;

#endif
