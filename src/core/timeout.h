/* SPDX-License-Identifier: BSD-2-Clause */
/* timeout.h - the times that verbs give as codes. */
#ifndef CORE_TIMEOUT_H
#define CORE_TIMEOUT_H

#include <stdint.h>

struct qp;

/* How long an RNR NAK's timer code (modulo 32) asks to wait, nanoseconds:
 * 10 us to 491.52 ms; 0 is 655.36 ms (IBTA vol. 1, 9.7.5.2.8). */
uint64_t rnr_timer_ns(unsigned code);

/* A QP's local ACK timeout, nanoseconds, 4 ms at least; 0: for ever
 * (9.7.6.1.3). */
uint64_t ack_timeout_ns(const struct qp *qp);

#endif
