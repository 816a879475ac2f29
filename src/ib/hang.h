/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.h - lines of the log for what keeps a program waiting for a second, while packets
 * come all the time, or none at all.  They are looked for only where a packet is refused,
 * dropped or sent again. */
#ifndef IB_HANG_H
#define IB_HANG_H

#include <stdbool.h>
#include <stdint.h>

struct ib;
struct ib_pkt;
struct ib_qp;

/* The peer has answered the oldest request with RNR. */
void hang_rnr(struct ib_qp *q, uint64_t now);
/* Nothing has come from the peer for a while, and the oldest request is sent again. */
void hang_silent(struct ib_qp *q, uint64_t now);
/* The peer has answered. */
void hang_heard(struct ib_qp *q);
/* The peer's request was answered with RNR. */
void hang_no_recv(struct ib_qp *q, uint64_t now);
/* A request has another PSN than the one expected. */
void hang_psn(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now);
/* A request was dropped. Returns true once for its QP's number, when requests for that
 * have been dropped for a second. */
bool hang_dropped(struct ib *ib, const struct ib_pkt *pkt, uint64_t now);

#endif
