/* SPDX-License-Identifier: BSD-2-Clause */
/* mcast.h - inside core/ only; the rest is in qp.h. */
#ifndef CORE_MCAST_H
#define CORE_MCAST_H

#include <stdbool.h>

struct qp;

/* Is qp in any group?  Turn held. */
bool mcast_any(struct qp *qp);

#endif
