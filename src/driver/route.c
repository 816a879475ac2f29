/* SPDX-License-Identifier: BSD-2-Clause */
/* route.c - see route.h.
 *
 * The choice is made each time that a QP leaves INIT, because the peer is not known
 * before.
 */
#include "driver/route.h"

#include <string.h>

#include "driver/nic_own.h"
#include "driver/registry.h"
#include "ib/ib.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/addr.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/due.h"
#include "verbs/netport.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

/* A link-local address belongs to the host on its own interface only. */
bool same_host(struct device *dev, const uint8_t ip[16])
{
	if (addr_is_multicast(ip) || !dev->kind->shares)
		return false;
	return device_has_ip(dev, ip) || (!addr_is_link_local(ip) && registry_has_ip(ip));
}

int route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp)
{
	const struct transport *to = &ib_transport;
	struct peer *p = NULL;
	bool near;
	int rc = 0;

	if (qp->type == IBV_QPT_UD || qp->state != IBV_QPS_INIT)
		return 0;
	near = same_host(qp->dev, dgid);
	if (near && nic->host)
		host_look(nic->host, qpn_slot(dest_qp));
	if (near && !peers_uses_wire(peers_of(&nic->core), qp->qpn) &&
	    (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC))
		p = peers_peer(peers_of(&nic->core), qpn_slot(dest_qp));
	if (p && peers_avoids(p, dest_qp))
		p = NULL;
	if (p)
		to = &shm_transport;
	lock_take(&qp->lock);
	qp->same_host = near;
	if (qp->transport != to && (p || qp->transport == &shm_transport))
		rc = qp_change_transport(qp, to);
	if (!rc && p)
		shm_connect(qp, p);
	lock_give(&qp->lock);
	return rc ? rc : p != NULL;
}

void route_to_wire(struct nic *nic, struct qp *qp)
{
	uint64_t now = clock_ns();
	int was = cancel_hold();
	struct link_dest dest;
	bool known = qp->path.link; /* otherwise the QP is just entering RTR */
	int rc;

	if (known)
		qp->path.link->ops->dest(&qp->path.addr, &dest);
	rc = links_listen(&nic->links, qp->dev, known ? dest.gid : NULL);
	lock_take(&qp->lock);
	if (!rc)
		rc = qp_change_transport(qp, &ib_transport);
	if (!rc)
		rc = qp_enter_again(qp, now);
	if (rc) {
		log_error("QP 0x%06x: its peer can be reached by UDP only, and the "
			  "UDP port cannot be had: %s; the QP fails",
			  qp->qpn, strerror(-rc));
		qp_fail(qp, false, IBV_EVENT_QP_FATAL, now);
	}
	lock_give(&qp->lock);
	cancel_let(was);
}
