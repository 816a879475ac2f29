/* SPDX-License-Identifier: BSD-2-Clause */
/* timeout.h - the times that verbs encode in codes, and how to tell that one has
 * passed. */
#ifndef CORE_TIMEOUT_H
#define CORE_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct qp;

/* Returns the wait in ns that an RNR NAK's timer code (modulo 32) asks for: 10 us to
 * 491.52 ms; code 0 is 655.36 ms (IBTA vol. 1, 9.7.5.2.8). */
uint64_t rnr_timer_ns(unsigned code);

/* Returns a QP's local ACK timeout in ns, at least 4 ms; 0: no timeout (9.7.6.1.3). */
uint64_t ack_timeout_ns(const struct qp *qp);

/* Has time `at` passed, with all packets that arrived by then taken in? If this
 * process was stopped meanwhile, packets may still lie in a socket or a ring. Then
 * this returns false, and the next turns take in all of them first; the timer need
 * only ask again. Turn held. */
bool silent_until(struct core *core, uint64_t at, uint64_t now);

/* Returns the current time after the turn that began at now has sent something. The
 * process may have been stopped in between, and timers run from when the packets were
 * sent. */
uint64_t went_out(const struct core *core, uint64_t now);

#endif
