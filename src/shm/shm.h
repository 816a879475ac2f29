/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.h - the transport of RC and UC between processes of one host, over the rings of
 * local/ (docs/dev/shm.md).  For driver/. */
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

/* Members of struct local_ops (local/local.h), called with the turn held. */
void shm_up(struct qp *qp, uint64_t now);
int shm_segments(struct peer *p, unsigned most, uint64_t now);
void shm_words(struct peer *p, uint32_t count, uint64_t now);
void shm_news(struct peer *p, uint64_t now);

#endif
