/* SPDX-License-Identifier: BSD-2-Clause */
/* forward.c - MADs that go from process to process of this host by way of host/: those
 * that came to the wrong process, and ours whose peer is a process of this host. With
 * UDP that makes two ways, and what comes by both is put in order here. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "host/host.h"
#include "host/service.h"
#include "net/ip_addr.h"
#include "verbs/core.h"
#include "verbs/round.h"

/* Makes a datagram of a MAD that came in by this route, at this UDP port; 0: it is
 * ours. */
static void wrap_mad(struct dgram *d, const struct cm_route *route, uint16_t port,
		     const uint8_t *mad)
{
	*d = (struct dgram){ .mad = true, .len = MAD_LEN, .iovcnt = 1 };
	d->one = (struct iovec){ (void *)(uintptr_t)mad, MAD_LEN };
	d->iov = &d->one;
	ip_of(d)->ifindex = route->ifindex;
	ip_of(d)->to.port = port;
	memcpy(ip_of(d)->from.ip, route->dst, 16);
	memcpy(ip_of(d)->to.ip, route->src, 16);
}

int forward_to_slot(struct cm *cm, uint16_t slot, const struct cm_route *route,
		    const uint8_t *mad)
{
	struct dgram d;

	wrap_mad(&d, route, cm->udp_port, mad);
	return host_forward(cm->host, slot, &d);
}

int forward_to_name(struct cm *cm, const char *name, const struct cm_route *route,
		    const uint8_t *mad)
{
	struct dgram d;

	if (!cm->host)
		return -ESRCH;
	wrap_mad(&d, route, cm->udp_port, mad);
	return service_send(cm->host, name, &d);
}

/* A MAD that is forwarded certainly reaches the peer, even if this process ends at once
 * or the kernel gives the UDP port's datagrams to a third process. A process of another
 * user is left out: it takes forwarded MADs only from the holder of the port. */
bool forward_to_peer(struct cm *cm, uint16_t slot, const struct cm_route *route,
		     const uint8_t *mad)
{
	struct cm_route back = { .ifindex = route->ifindex };
	struct dgram d;

	if (route->dlid || !cm->host || !cm->site->by_host || slot == cm->core->slot ||
	    !route_is_local(cm, route) || !host_is_ours(cm->host, slot))
		return false;
	memcpy(back.src, route->dst, 16);
	memcpy(back.dst, route->src, 16);
	wrap_mad(&d, &back, 0, mad);
	return host_forward(cm->host, slot, &d) == 0;
}

/* --- MADs that wait ------------------------------------------------------ */

/* Anybody may send MADs by UDP from this host's addresses. They wait in half of the box,
 * so that there is room for others. */
static bool may_wait(const struct cm *cm)
{
	return cm->boxed < BOX_MAX / 2;
}

/* Has the box room for one more? The last quarter is for those that this user's processes
 * have sent over host/: what they forward of UDP may be a flood of strangers. */
static bool has_room(const struct cm *cm, bool by_udp)
{
	return cm->boxed < (by_udp ? BOX_MAX / 4 * 3 : BOX_MAX);
}

static void box_mad(struct cm *cm, const struct cm_route *route, const uint8_t *mad,
		    bool forwarded, uint64_t follows)
{
	struct boxed_mad *b = &cm->box[cm->boxed++];

	source_sooner(&cm->source, 0);
	*b = (struct boxed_mad){ *route, forwarded, follows, { 0 } };
	memcpy(b->mad, mad, MAD_LEN);
}

/* The MAD waits for forward_run(): host/ may be walking a list that handling the MAD
 * would change. */
void cm_forwarded(struct cm *cm, const struct dgram *d)
{
	struct cm_route route = { .ifindex = ip_of(d)->ifindex };
	const uint8_t *mad = d->iov[0].iov_base;
	const bool by_udp = ip_of(d)->to.port != 0;

	if (d->len != MAD_LEN || !has_room(cm, by_udp)) {
		cm->counter[CM_RX_MALFORMED] += d->len != MAD_LEN;
		cm->counter[CM_RX_FULL] += d->len == MAD_LEN;
		return;
	}
	memcpy(route.src, ip_of(d)->to.ip, sizeof(route.src));
	memcpy(route.dst, ip_of(d)->from.ip, sizeof(route.dst));
	/* A process of this host has sent it by UDP, and another one has forwarded it:
	 * its sender did not know whom it is for, or found no room over host/. */
	box_mad(cm, &route, mad, true,
		by_udp && route_is_local(cm, &route) && may_wait(cm) ? NEVER : 0);
}

/* It may be to anybody, or host/ had no room for it, or it was sent again. */
bool forward_wait(struct cm *cm, const struct cm_route *route, const uint8_t *mad,
		  size_t len, uint64_t now)
{
	if (!cm->host || len != MAD_LEN || route->dlid || !route_is_local(cm, route) ||
	    !may_wait(cm))
		return false;
	box_mad(cm, route, mad, false, now);
	return true;
}

static void open_box(struct cm *cm, const struct boxed_mad *b, uint64_t now)
{
	gsi_take(cm, &b->route, b->mad, MAD_LEN, b->forwarded, now);
}

/* Called by the engine, so no function of host/ is on the stack. MADs that
 * follow others come last, in the order in which they came. */
void forward_run(struct cm *cm, uint64_t now)
{
	unsigned n = 0, done = 0;

	for (unsigned i = 0; i < cm->boxed; i++) {
		struct boxed_mad *b = &cm->box[i];

		if (!b->follows) {
			open_box(cm, b, now);
			continue;
		}
		if (b->follows == NEVER)
			b->follows = now;
		cm->box[n++] = *b;
	}
	while (done < n && silent_until(&cm->core->round, cm->box[done].follows, now))
		open_box(cm, &cm->box[done++], now);
	cm->boxed = n - done;
	memmove(cm->box, cm->box + done, cm->boxed * sizeof(*cm->box));
}
