/* SPDX-License-Identifier: BSD-2-Clause */
/* forward.c - MADs that go from process to process of this host by way of host/: those
 * that came to the wrong process, and ours whose peer is a process of this host. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "host/host.h"
#include "host/service.h"
#include "link/ip_addr.h"

/* Makes a datagram of a MAD that came in by this route. */
static void wrap(struct dgram *d, const struct cm_route *route, const uint8_t *mad)
{
	*d = (struct dgram){ .mad = true, .len = MAD_LEN, .iovcnt = 1 };
	d->one = (struct iovec){ (void *)(uintptr_t)mad, MAD_LEN };
	d->iov = &d->one;
	ip_of(d)->ifindex = route->ifindex;
	memcpy(ip_of(d)->from.ip, route->dst, 16);
	memcpy(ip_of(d)->to.ip, route->src, 16);
}

int forward_to_slot(struct cm *cm, uint16_t slot, const struct cm_route *route,
		    const uint8_t *mad)
{
	struct dgram d;

	wrap(&d, route, mad);
	return host_forward(cm->host, slot, &d);
}

int forward_to_name(struct cm *cm, const char *name, const struct cm_route *route,
		    const uint8_t *mad)
{
	struct dgram d;

	if (!cm->host)
		return -ESRCH;
	wrap(&d, route, mad);
	return service_send(cm->host, name, &d);
}

/* A MAD that is forwarded certainly reaches the peer, even if this process ends at once
 * or the kernel gives the UDP port's datagrams to a third process. A process of another
 * user is left out: it takes forwarded MADs only from the holder of the port. */
bool forward_to_peer(struct cm *cm, uint16_t slot, const struct cm_route *route,
		     const uint8_t *mad)
{
	struct cm_route back = { .ifindex = route->ifindex };

	if (!slot || route->dlid || !cm->host || !cm->site->by_host ||
	    slot == cm->core->slot || !route_is_local(cm, route) ||
	    !host_is_ours(cm->host, slot))
		return false;
	memcpy(back.src, route->dst, 16);
	memcpy(back.dst, route->src, 16);
	return forward_to_slot(cm, slot, &back, mad) == 0;
}

/* The MAD waits for forward_run(): host/ may be walking a list that handling the MAD
 * would change. */
void cm_forwarded(struct cm *cm, const struct dgram *d)
{
	struct boxed_mad *b;

	if (d->len != MAD_LEN || cm->boxed == BOX_MAX) {
		cm->counter[CM_RX_MALFORMED] += d->len != MAD_LEN;
		cm->counter[CM_RX_FULL] += d->len == MAD_LEN;
		return;
	}
	b = &cm->box[cm->boxed++];
	b->route = (struct cm_route){ .ifindex = ip_of(d)->ifindex };
	memcpy(b->route.src, ip_of(d)->to.ip, sizeof(b->route.src));
	memcpy(b->route.dst, ip_of(d)->from.ip, sizeof(b->route.dst));
	memcpy(b->mad, d->iov[0].iov_base, MAD_LEN);
}

/* Called by the engine, so no function of host/ is on the stack. */
void forward_run(struct cm *cm, uint64_t now)
{
	for (unsigned i = 0; i < cm->boxed; i++)
		gsi_take(cm, &cm->box[i].route, cm->box[i].mad, MAD_LEN, true, now);
	cm->boxed = 0;
}
