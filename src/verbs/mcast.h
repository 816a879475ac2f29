/* SPDX-License-Identifier: BSD-2-Clause */
/* mcast.h - multicast groups, inside verbs/ only; the public calls are in qp.h. */
#ifndef VERBS_MCAST_H
#define VERBS_MCAST_H

#include <stdbool.h>

#include "verbs/core.h"

struct qp;

/* Is qp in any group? */
bool mcast_any(struct core *core, const struct qp *qp) REQUIRES(core->turn);

#endif
