/* SPDX-License-Identifier: BSD-2-Clause */
/* timeout.h - the times that verbs give as codes, and when they are over. */
#ifndef CORE_TIMEOUT_H
#define CORE_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct qp;

/* How long an RNR NAK's timer code (modulo 32) asks to wait, nanoseconds:
 * 10 us to 491.52 ms; 0 is 655.36 ms (IBTA vol. 1, 9.7.5.2.8). */
uint64_t rnr_timer_ns(unsigned code);

/* A QP's local ACK timeout, nanoseconds, 4 ms at least; 0: for ever
 * (9.7.6.1.3). */
uint64_t ack_timeout_ns(const struct qp *qp);

/* Has nothing come by the time `at`?  What had come in by then may still lie in a
 * socket or a ring, if this process was stopped meanwhile: then the answer is
 * no, and the coming turns take in all of it before anything else, so that the
 * timer need only be asked again.  Turn held. */
bool silent_until(struct core *core, uint64_t at, uint64_t now);

/* Of a turn that began at now, and has just put something out: the time.  This
 * process may have been stopped in between, and timers run from when the packets
 * went out. */
uint64_t went_out(const struct core *core, uint64_t now);

#endif
