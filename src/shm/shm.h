/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.h - a transport for RC SENDs between processes of one host, over the rings of
 * local/ (docs/dev/shm.md).  A trial: URNIC_SHM.  For driver/. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/transport.h"

struct peer;
struct rec;

extern const struct transport shm_transport;

/* Members of struct local_ops (local/local.h), called with the turn held. */
bool shm_segment(struct peer *p, const struct rec *r, const uint8_t *payload,
		 uint32_t len, uint64_t now);
void shm_news(struct qp *qp, uint64_t now);
void shm_told(struct peer *p, uint64_t word, uint64_t now);

#endif
