/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.c - the MADs that come in by QP1 and which process each is for (docs/dev/cm.md),
 * and the way out. A host has one QP1 on Ethernet, and any of its processes may be given
 * a MAD for another. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "host/host.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "wire/cm_ip.h"
#include "wire/grh.h"

static const uint64_t HOLD_NS = 50000000;

/* --- MADs that come in --------------------------------------------------- */

bool gsi_is_request(const struct cm_msg *m)
{
	return m->type == CM_REQ || m->type == CM_SIDR_REQ;
}

/* Do the IP addresses in a request agree with the route by which the request came?
 * Otherwise it could not be answered. On a route from an address to itself, loopback
 * addresses agree, too. (Not asked for InfiniBand: LIDs route there, and IP addresses are
 * only what the request says.) */
static bool fits_route(const struct cm_ip *ip, const struct cm_route *route)
{
	const bool near = !memcmp(route->src, route->dst, 16);

	return (!memcmp(ip->src, route->dst, 16) ||
		(near && addr_is_loopback(ip->src))) &&
	       (!memcmp(ip->dst, route->src, 16) || (near && addr_is_loopback(ip->dst)));
}

/* Returns the peer that sent the request and the service that it asks for. A request
 * without IP addresses can only be for a service of GIDs (AF_IB). */
static struct cm_target target_of(const struct cm_msg *m, const struct cm_route *route)
{
	struct cm_ip ip;
	struct cm_target to = {
		.route = *route,
		.space = cm_service_space(m->service_id),
		.src_port = cm_service_port(m->service_id),
		.mtu = m->mtu,
		.rate = m->path.rate,
		.datagram = m->type == CM_SIDR_REQ,
	};

	to.native = cm_ip_parse(&ip, m->private, cm_private_len(m->type)) ||
		    (!route->dlid && !fits_route(&ip, route));
	to.route.tclass = m->path.tclass;
	memcpy(to.src_ip, to.native ? route->src : ip.dst, 16);
	memcpy(to.dst_ip, to.native ? route->dst : ip.src, 16);
	to.dst_port = to.native ? 0 : ip.src_port;
	return to;
}

/* To a service of GIDs the IP addresses of a request are part of the private data, so the
 * target has none. */
static void as_served(struct cm_target *to, const struct cm_listener *l)
{
	if (!l->service.native)
		return;
	to->native = true;
	to->dst_port = 0;
	memcpy(to->src_ip, to->route.src, 16);
	memcpy(to->dst_ip, to->route.dst, 16);
}

/* Forwards a request to the process that has bound the service's name. Returns -ESRCH if
 * there is none. */
static int forward_to_service(struct cm *cm, const struct cm_target *to,
			      const struct cm_route *route, const uint8_t *mad)
{
	char name[NAMES_MAX][NAME_LEN];
	unsigned n = service_names(to, name);

	for (unsigned i = 0; i < n; i++) {
		int rc = forward_to_name(cm, name[i], route, mad);

		if (rc != -ESRCH)
			return rc;
	}
	return -ESRCH;
}

/* Keeps a request whose service no process has, to look for the service once more later.
 * A server may be about to listen again: perftest's client asks a second time while its
 * server is between two listeners. Returns false if there is no room. */
static bool hold_request(struct cm *cm, const struct cm_route *route, const uint8_t *mad,
			 bool forwarded, uint64_t now)
{
	for (int i = 0; i < HELD_MAX; i++) {
		struct held_mad *h = &cm->held[i];

		if (h->at)
			continue;
		*h = (struct held_mad){ now + HOLD_NS, *route, forwarded, { 0 } };
		memcpy(h->mad, mad, MAD_LEN);
		if (h->at < cm->held_at)
			cm->held_at = h->at;
		return true;
	}
	return false;
}

/* Finds the connection, the listener or the process that a request is for. Returns false
 * if there is none. */
static bool find_target(struct cm *cm, const struct cm_route *route,
			const struct cm_msg *m, const uint8_t *mad, bool forwarded,
			uint64_t now)
{
	struct cm_listener *l;
	struct cm_target to;

	if (ibcm_known_request(cm, route, m, now))
		return true;
	to = target_of(m, route);
	l = find_listener(cm, &to, m->type == CM_SIDR_REQ);
	if (l) {
		as_served(&to, l);
		ibcm_request(l, &to, m, now);
	} else if (!forwarded && !route->dlid &&
		   forward_to_service(cm, &to, route, mad) != -ESRCH) {
		cm->counter[CM_RX_FORWARDED]++;
	} else {
		return false;
	}
	return true;
}

static void reject_request(struct cm *cm, const struct cm_route *route,
			   const struct cm_msg *m)
{
	char from[INET6_ADDRSTRLEN];
	struct cm_msg answer;

	cm->counter[CM_RX_NO_SERVICE]++;
	if (cm_may_tell(cm, CM_RX_NO_SERVICE))
		log_info(
			"%s from %s for service 0x%llx (port %u) refused: nobody listens",
			cm_type_name(m->type), addr_text(route->dst, from),
			(unsigned long long)m->service_id,
			(unsigned)m->service_id & 0xffff);
	if (cm_mad_refusal(m, &answer))
		send_mad(cm, route, &answer);
}

static void take_request(struct cm *cm, const struct cm_route *route,
			 const struct cm_msg *m, const uint8_t *mad, bool forwarded,
			 uint64_t now)
{
	if (!find_target(cm, route, m, mad, forwarded, now) &&
	    !hold_request(cm, route, mad, forwarded, now))
		reject_request(cm, route, m);
}

static void place_held(struct cm *cm, struct held_mad *h, uint64_t now)
{
	struct cm_msg m;

	h->at = 0;
	if (cm_mad_parse(&m, h->mad, MAD_LEN))
		return; /* cannot happen: it was parsed before */
	if (!find_target(cm, &h->route, &m, h->mad, h->forwarded, now))
		reject_request(cm, &h->route, &m);
}

void gsi_run(struct cm *cm, uint64_t now)
{
	if (now < cm->held_at)
		return;
	cm->held_at = NEVER;
	for (int i = 0; i < HELD_MAX; i++) {
		struct held_mad *h = &cm->held[i];

		if (h->at && h->at <= now)
			place_held(cm, h, now);
		else if (h->at && h->at < cm->held_at)
			cm->held_at = h->at;
	}
}

static void take_other(struct cm *cm, const struct cm_route *route,
		       const struct cm_msg *m, const uint8_t *mad, bool forwarded,
		       uint64_t now)
{
	uint16_t slot = id_slot(m->remote_id);
	struct cm_msg answer;
	bool answers;

	if (ibcm_message(cm, route, m, now))
		return;
	answers = cm_mad_refusal(m, &answer);
	if (!forwarded && !route->dlid && cm->host && slot >= SLOT_FIRST &&
	    slot <= SLOT_LAST && slot != cm->core->slot) {
		int rc = forward_to_slot(cm, slot, route, mad);

		if (rc != -ESRCH)
			cm->counter[CM_RX_FORWARDED]++;
		if (rc != -ESRCH || !answers || !host_is_free(cm->host, slot))
			return; /* the peer sends a lost message again */
	}
	cm->counter[CM_RX_NO_ID]++;
	if (answers)
		send_mad(cm, route, &answer);
}

void gsi_take(struct cm *cm, const struct cm_route *route, const uint8_t *mad, size_t len,
	      bool forwarded, uint64_t now)
{
	struct cm_msg m;

	cm->counter[CM_RX]++;
	if (cm_mad_parse(&m, mad, len)) {
		cm->counter[CM_RX_MALFORMED]++;
		return;
	}
	peer_heard(cm, route);
	log_debug("received %s, its ID 0x%08x, our ID 0x%08x%s", cm_type_name(m.type),
		  m.local_id, m.remote_id, forwarded ? ", forwarded" : "");
	if (gsi_is_request(&m))
		take_request(cm, route, &m, mad, forwarded, now);
	else
		take_other(cm, route, &m, mad, forwarded, now);
}

void gsi_input(struct gsi *g, const struct gsi_mad *in, uint64_t now)
{
	const struct qp1 *q = container_of(g, struct qp1, gsi);
	struct cm *cm = cm_of_core(q->core);
	struct cm_route route = { .ifindex = in->port,
				  .dlid = in->slid,
				  .pkey_index = in->pkey_index,
				  .sl = in->sl };

	source_sooner(&cm->source, 0);
	if (q == cm->ib && sa_input(cm, in->slid, in->bytes, in->len))
		return;
	grh_ends(in->head, route.dst, route.src);
	if (!forward_wait(cm, &route, in->bytes, in->len, now))
		gsi_take(cm, &route, in->bytes, in->len, false, now);
}

/* --- MADs that go out ---------------------------------------------------- */

uint16_t gsi_pkey(struct cm *cm, const struct cm_route *route)
{
	const struct qp1 *q = gsi_port(cm, route);

	return q ? qp1_pkey(q, route->pkey_index) : PKEY_DEFAULT;
}

static int post_mad(struct cm *cm, const struct cm_route *route, bool grh,
		    const uint8_t *mad)
{
	struct qp1 *q = gsi_port(cm, route);
	const struct link_to to = {
		.grh = grh,
		.sgid = route->src,
		.dgid = route->dst,
		.dlid = route->dlid,
		.sl = route->sl,
		.tclass = route->tclass,
		.hop_limit = 64,
		.port = route->ifindex,
		.told = true,
	};

	source_sooner(&cm->source, 0);
	return q ? qp1_send(q, &to, route->pkey_index, mad) : -ENODEV;
}

int gsi_send(struct cm *cm, const struct cm_route *route, const uint8_t *mad)
{
	int rc = post_mad(cm, route, true, mad);

	if (!rc && !route->dlid)
		cm->sent = true;
	return rc;
}

int gsi_ask(struct cm *cm, const struct cm_route *route, const uint8_t *mad)
{
	return post_mad(cm, route, false, mad);
}
