/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.h - the transport of RC and UC between processes of one host, over the rings
 * of peers.h (docs/dev/shm.md).  For driver/. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/transport.h"

struct peer;
struct qp;

extern const struct transport shm_transport;

/* qp, which is locked, in INIT and of this transport, leads to p. */
void shm_connect(struct qp *qp, struct peer *p);
/* The peer that qp leads to is up.  The turn is held, and no QP is locked. */
void shm_up(struct qp *qp, uint64_t now);

#endif
