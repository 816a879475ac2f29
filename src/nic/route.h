/* SPDX-License-Identifier: BSD-2-Clause */
/* route.h - whether a connected QP reaches its peer by a lane or by its path.  Turn held.
 */
#ifndef NIC_ROUTE_H
#define NIC_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct nic;
struct qp;

/* Is ip this host's, as dev sees it? */
bool same_host(struct device *dev, const uint8_t ip[16]);

/* As nic_route() has it. */
int route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp);

/* qp, which waits for a peer of this host, becomes one of the wire, in the
 * state that it is in.  Where that fails it goes to ERR. */
void route_to_wire(struct nic *nic, struct qp *qp);

#endif
