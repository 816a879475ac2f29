/* SPDX-License-Identifier: BSD-2-Clause */
/* inject.c - sends packets of programs at an adapter, whose addresses it checks. */
#include <errno.h>
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

static bool has_pkey(const struct fab_port *p, uint16_t pkey)
{
	for (unsigned i = 0; i < p->pkeys; i++)
		if (p->pkey[i] == pkey)
			return pkey_valid(pkey);
	return false;
}

static bool has_gid(const struct fab_port *p, const uint8_t gid[16])
{
	uint64_t prefix = 0, guid = 0;

	for (unsigned i = 0; i < 8; i++) {
		prefix = prefix << 8 | gid[i];
		guid = guid << 8 | gid[8 + i];
	}
	for (unsigned i = 0; i < GUIDS; i++)
		if (guid && p->guids[i] == guid)
			return prefix == p->pi.gid_prefix;
	return false;
}

static struct fab_port *adapter_port(const struct fabric *f, uint32_t node, uint8_t port)
{
	if (node >= f->nodes || is_switch(&f->node[node]) || !port ||
	    port > f->node[node].ports)
		return NULL;
	return &f->node[node].port[port];
}

/* Checks that pkt's P_Key and source GID are the port's; replaces a wrong source LID. */
static bool may_say(struct fab_port *p, struct mad_pkt *pkt)
{
	if (!has_lid(p, pkt->slid))
		pkt->slid = p->pi.lid;
	if (!has_pkey(p, pkt->pkey) || (pkt->grh && !has_gid(p, pkt->sgid))) {
		p->count.xmit_constraint++;
		return false;
	}
	if (!pkt->slid || !pkt->dlid || pkt->dlid == LID_PERMISSIVE) {
		count_discard(p, XMIT_INACTIVE);
		return false;
	}
	return true;
}

int fabric_inject(struct fabric *f, uint32_t node, uint8_t port,
		  const struct mad_pkt *pkt)
{
	struct fab_port *p = adapter_port(f, node, port);
	struct mad_pkt own = *pkt;

	if (!p)
		return -EINVAL;
	own.hops = 0;
	if (may_say(p, &own))
		return own.data ? data_begin(p, &own) : fly(f, p, true, &own);
	if (own.data && f->ops->done)
		f->ops->done(f->ctx, own.data);
	return 0;
}

/* The other end finds a wrong VCRC (IBA 7.3) and counts PortRcvErrors (16.1.3.5). */
void fabric_spoilt(struct fabric *f, uint32_t node, uint8_t port,
		   const struct mad_pkt *pkt)
{
	struct fab_port *p = adapter_port(f, node, port);
	uint8_t vl;

	if (!p || !p->peer || !find_vl(p, 0, pkt, &vl) || !leaves(p, pkt))
		return;
	count_out(p, vl, pkt);
	p->peer->count.rcv_errors++;
	p->peer->detail.rcv[RCV_LOCAL_PHYSICAL]++;
}

void fabric_room(struct fabric *f, uint32_t node, uint8_t port)
{
	struct fab_port *p = adapter_port(f, node, port);

	if (p)
		data_room(p);
}
