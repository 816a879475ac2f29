/* SPDX-License-Identifier: BSD-2-Clause */
/* describe.c - writes connections and listeners as text with marked values, for a dump.
 */
#include <stdio.h>

#include "cm/cm_int.h"
#include "cm/iw_int.h"
#include "sys/addr.h"

static const char *const state[CONN_STATES] = {
	[ST_FREE] = "free",
	[ST_IDLE] = "idle",
	[ST_REQ_SENT] = "REQ sent",
	[ST_REP_RCVD] = "REP received",
	[ST_REQ_RCVD] = "REQ received",
	[ST_REP_SENT] = "REP sent",
	[ST_ESTABLISHED] = "established",
	[ST_DREQ_SENT] = "DREQ sent",
	[ST_DREQ_RCVD] = "DREQ received",
	[ST_TIMEWAIT] = "timewait",
	[ST_SIDR_SENT] = "SIDR request sent",
	[ST_SIDR_RCVD] = "SIDR request received",
	[ST_ANSWERED] = "answered",
};

static const char *const iw_state[] = {
	[IWC_CONNECTING] = "TCP's handshake",
	[IWC_REFUSED] = "refused by TCP, tried again",
	[IWC_ASKING] = "MPA request sent",
	[IWC_ANSWERED] = "MPA reply received",
	[IWC_AWAITING] = "MPA request awaited",
	[IWC_PARKED] = "MPA request received, listener full",
	[IWC_ASKED] = "MPA request received",
	[IWC_ACCEPTED] = "MPA reply sent",
	[IWC_ATTACHED] = "RTR frame awaited",
	[IWC_CONNECTED] = "established",
	[IWC_OVER] = "over",
};

enum { AT_ONCE = 64 };

/* Each stage writes its entries from number `from` on; returns true if there are more. */

static bool listeners(struct cm *cm, unsigned from, FILE *out)
{
	char ip[INET6_ADDRSTRLEN];
	unsigned i = 0;

	list_for(n, &cm->listeners)
	{
		const struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (i++ < from)
			continue;
		if (i > from + AT_ONCE)
			return true;
		fprintf(out,
			"listener port {port=%u} on {address=%s}%s: {state=%s}, "
			"requests that wait {requests=%u} of {backlog=%u}\n",
			l->service.port,
			l->service.any ? "any address" : addr_text(l->service.ip, ip),
			l->service.iwarp ? " ({transport=iWARP})" : "",
			l->owner ? "listening" : "bound", l->pending + l->asked,
			l->backlog);
	}
	return false;
}

static bool roce(struct cm *cm, unsigned from, FILE *out)
{
	char peer[INET6_ADDRSTRLEN];

	for (unsigned i = from; i < cm->used; i++) {
		const struct conn *c = conn_at(cm, i);

		if (i == from + AT_ONCE)
			return true;
		if (c->state == ST_FREE)
			continue;
		fprintf(out,
			"connection {id=0x%08x} to {peer_id=0x%08x} at {peer=%s}: {state=%s}, "
			"{side=%s}; QP {qp=0x%06x} to QP {peer_qp=0x%06x}; "
			"retries left {retries=%u}\n",
			c->local_id, c->remote_id, addr_text(c->route.dst, peer),
			state[c->state], c->passive ? "passive" : "active", c->local_qpn,
			c->remote_qpn, c->retries);
	}
	return false;
}

static bool iwarp(struct cm *cm, unsigned from, FILE *out)
{
	char peer[INET6_ADDRSTRLEN];
	unsigned i = 0;

	if (!cm->iw)
		return false;
	list_for(n, &cm->iw->all)
	{
		const struct iwc *c = container_of(n, struct iwc, node);

		if (i++ < from)
			continue;
		if (i > from + AT_ONCE)
			return true;
		fprintf(out,
			"connection ({transport=iWARP}) to {peer=%s}, port {port=%u}: {state=%s}, "
			"{side=%s}; QP {qp=0x%06x}\n",
			addr_text(c->to.route.dst, peer), c->to.dst_port,
			iw_state[c->state], c->passive ? "passive" : "active", c->qpn);
	}
	return false;
}

bool cm_describe(struct cm *cm, struct cm_place *at, FILE *out)
{
	static bool (*const stage[])(struct cm * cm, unsigned from,
				     FILE *out) = { listeners, roce, iwarp };

	if (stage[at->stage](cm, at->from, out))
		at->from += AT_ONCE;
	else
		*at = (struct cm_place){ .stage = at->stage + 1 };
	return at->stage < sizeof(stage) / sizeof(stage[0]);
}
