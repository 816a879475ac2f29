/* SPDX-License-Identifier: BSD-2-Clause */
/* timeout.h - the times that verbs encode in codes. */
#ifndef VERBS_TIMEOUT_H
#define VERBS_TIMEOUT_H

#include <stdint.h>

struct qp;

/* Returns the wait in ns that an RNR NAK's timer code (modulo 32) asks for: 10 us to
 * 491.52 ms; code 0 is 655.36 ms (IBTA vol. 1, 9.7.5.2.8). */
uint64_t rnr_timer_ns(unsigned code);

/* Returns a QP's local ACK timeout in ns, at least 4 ms; 0: no timeout (9.7.6.1.3). */
uint64_t ack_timeout_ns(const struct qp *qp);

#endif
