/* SPDX-License-Identifier: BSD-2-Clause */
/* shm.h - a transport for RC SENDs between processes of one host, over the rings of
 * local/ (docs/dev/shm.md).  A trial: URNIC_SHM.  For driver/. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/transport.h"

struct peer;

extern const struct transport shm_transport;

/* Members of struct local_ops (local/local.h), called with the turn held. */
int shm_segments(struct peer *p, unsigned most, uint64_t now);
void shm_words(struct peer *p, uint32_t count, uint64_t now);
void shm_news(struct peer *p, uint64_t now);

#endif
