/* SPDX-License-Identifier: BSD-2-Clause */
/* route.h - decides whether a connected QP reaches its peer by shared memory or by its
 * path.
 * The turn must be held. */
#ifndef DRIVER_ROUTE_H
#define DRIVER_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct nic;
struct qp;

/* Is ip an address of this host, as dev sees it? */
bool same_host(struct device *dev, const uint8_t ip[16]);

/* See nic_route(). */
int route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp);

/* Moves qp, which waits for a peer of this host, to the wire, keeping its state. If that
 * fails, the QP goes to ERR. */
void route_to_wire(struct nic *nic, struct qp *qp);

#endif
