/* SPDX-License-Identifier: BSD-2-Clause */
/* forward.c - a packet arrives at a port: the node handles it or forwards it. */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

static bool by_vl15(const struct mad_pkt *pkt)
{
	return !pkt->data && pkt->dqpn == QP_SMI;
}

static void count_up(uint64_t *c)
{
	if (*c < UINT64_MAX)
		++*c;
}

/* Counts a packet that the switch does not relay. */
void no_way(struct fab_port *in, enum rcv_detail why)
{
	count_up(&in->count.rcv_relay);
	count_up(&in->detail.rcv[why]);
}

void count_discard(struct fab_port *by, enum xmit_detail why)
{
	count_up(&by->count.xmit_discards);
	count_up(&by->detail.xmit[why]);
}

/* Does the link carry pkt?  It carries VL15 as soon as it is up, other VLs when it is
 * active, and no more than its MTU (IBA 7.7.8: headers, ICRC and VCRC are at most 126
 * bytes). */
bool leaves(struct fab_port *by, const struct mad_pkt *pkt)
{
	bool up = by->peer && by->pi.phys_state == PHYS_LINK_UP;
	bool fits = pkt_words(pkt) <= ((128u << by->pi.mtu) + 124) / 4;

	if (up && fits && (by_vl15(pkt) || by->pi.state == PORT_ACTIVE))
		return true;
	count_discard(by, up && !fits ? XMIT_MTU : XMIT_INACTIVE);
	return false;
}

void count_out(struct fab_port *by, uint8_t vl, const struct mad_pkt *pkt)
{
	struct fabric *f = by->node->f;
	bool group = pkt->dlid > LID_UNICAST_LAST && pkt->dlid != LID_PERMISSIVE;
	uint32_t words = pkt_words(pkt);

	if (!by_vl15(pkt)) {
		count_up(&by->count.xmit_pkts);
		count_up(group ? &by->count.xmit_multicast : &by->count.xmit_unicast);
		by->count.xmit_data += words;
		by->detail.xmit_sl[pkt->sl & 15] += words;
	}
	if (f->ops->crosses)
		f->ops->crosses(f->ctx, by->node->index, by->num, vl, pkt);
}

void send_out(struct fab_port *by, uint8_t vl, const struct mad_pkt *pkt)
{
	struct mad_pkt next = *pkt;

	if (!leaves(by, pkt))
		return;
	if (++next.hops >= FABRIC_NEVER_HOPS) {
		no_way(by, RCV_LOOPING);
		return;
	}
	count_out(by, vl, pkt);
	fly(by->node->f, by->peer, false, &next);
}

/* Finds the VL on `out` of a packet from port `in`; false: the packet is dropped. */
bool find_vl(const struct fab_port *out, uint8_t in, const struct mad_pkt *pkt,
	     uint8_t *vl)
{
	static const uint8_t vls[] = { 0, 1, 2, 4, 8, 15 };
	const uint8_t *row = out->sl2vl[is_switch(out->node) ? in : 0];
	uint8_t sl = pkt->sl & 15;

	*vl = VL_SMI;
	if (by_vl15(pkt))
		return true;
	*vl = sl & 1 ? row[sl / 2] & 15 : row[sl / 2] >> 4;
	return out->pi.oper_vls < sizeof(vls) && *vl < vls[out->pi.oper_vls];
}

static bool pkey_fits(const struct fab_port *p, uint16_t pkey)
{
	return pkey_find(p->pkey, p->pkeys, pkey) < p->pkeys;
}

/* False if a switch's port enforces partitions and the packet's P_Key is not in its
 * table. */
bool may_leave(struct fab_port *out, const struct mad_pkt *pkt)
{
	if (by_vl15(pkt) || !is_switch(out->node) || !out->pi.enforce_out ||
	    pkey_fits(out, pkt->pkey))
		return true;
	count_up(&out->count.xmit_constraint);
	trap_switch_pkey(out, pkt);
	return false;
}

bool find_out(struct fab_node *n, struct fab_port *in, const struct mad_pkt *pkt,
	      uint8_t *out, uint8_t *vl)
{
	*out = pkt->dlid <= n->si.lft_top ? n->lft[pkt->dlid] : LFT_DROP;
	if (pkt->dlid > LID_UNICAST_LAST || *out == 0 || *out > n->ports)
		no_way(in, RCV_DLID_MAPPING);
	else if (*out == in->num && in->num)
		no_way(in, RCV_LOOPING);
	else if (!find_vl(&n->port[*out], in->num, pkt, vl))
		no_way(in, RCV_VL_MAPPING);
	else
		return may_leave(&n->port[*out], pkt);
	return false;
}

static void by_table(struct fab_node *n, struct fab_port *in, const struct mad_pkt *pkt)
{
	uint8_t out, vl;

	if (find_out(n, in, pkt, &out, &vl))
		send_out(&n->port[out], vl, pkt);
}

void send_routed(struct fab_port *from, const struct mad_pkt *pkt)
{
	uint8_t vl;

	if (has_lid(from, pkt->dlid))
		fly(from->node->f, from, false, pkt);
	else if (!by_vl15(pkt))
		(void)data_begin(from, pkt); /* without memory it is lost */
	else if (is_switch(from->node))
		by_table(from->node, from, pkt);
	else if (find_vl(from, 0, pkt, &vl))
		send_out(from, vl, pkt);
	else
		count_up(&from->count.xmit_discards);
}

static void here(struct fab_port *in, struct mad_pkt *pkt, bool local, bool lid_routed);

/* Takes a directed-route SMP one step further at this node. */
static void directed(struct fab_port *in, struct mad_pkt *pkt, bool local,
		     bool lid_routed)
{
	struct fab_node *n = in->node;
	struct smp *smp = (struct smp *)pkt->mad;
	struct dr_step s =
		dr_step(smp, is_switch(n), n->ports, local ? 0 : in->num, lid_routed);

	switch (s.to) {
	case DR_DROP:
		break;
	case DR_HERE:
		here(in, pkt, local, lid_routed);
		break;
	case DR_OUT:
		if (!is_switch(n) && s.port != in->num)
			break;
		pkt->slid = pkt->dlid = LID_PERMISSIVE;
		send_out(&n->port[s.port], VL_SMI, pkt);
		break;
	case DR_ROUTE:
		pkt->slid = lid_port(in)->pi.lid;
		pkt->dlid = s.dlid;
		send_routed(lid_port(in), pkt);
		break;
	}
}

void answer_head(const struct fab_port *own, struct mad_pkt *pkt)
{
	const struct mad_pkt asked = *pkt;

	pkt->hops = 0;
	if (!by_vl15(pkt))
		pkt->pkey = pkey_of_answer(own->pkey, own->pkeys, asked.pkey);
	pkt->slid = asked.dlid;
	pkt->dlid = asked.slid;
	pkt->sqpn = asked.dqpn;
	pkt->dqpn = asked.sqpn;
	memcpy(pkt->sgid, asked.dgid, sizeof(pkt->sgid));
	memcpy(pkt->dgid, asked.sgid, sizeof(pkt->dgid));
}

/* Sends the node's own answer, which has replaced the request's MAD in pkt. */
static void send_answer(struct fab_port *in, struct mad_pkt *pkt, bool local,
			bool lid_routed)
{
	const struct fab_port *own = lid_port(in);
	struct smp *smp = (struct smp *)pkt->mad;

	answer_head(own, pkt);
	if (!has_lid(own, pkt->slid))
		pkt->slid = own->pi.lid;
	if (smp->h.class == MAD_SM_DR) {
		smp->h.status = be16(get_be16(smp->h.status) | SMP_RETURN);
		if (!lid_routed || get_be16(smp->dr_dlid) == LID_PERMISSIVE) {
			pkt->slid = pkt->dlid = LID_PERMISSIVE;
			directed(in, pkt, true, false);
			return;
		}
	}
	if (local)
		fly(in->node->f, in, false, pkt);
	else if (pkt->dlid == LID_PERMISSIVE)
		send_out(in, by_vl15(pkt) ? VL_SMI : 0, pkt);
	else
		send_routed(lid_port(in), pkt);
}

/* Handles a packet for this node: an agent answers it, or an adapter's QP gets it. */
static void here(struct fab_port *in, struct mad_pkt *pkt, bool local, bool lid_routed)
{
	struct smp *smp = (struct smp *)pkt->mad;
	bool mine = false;

	if (pkt->dqpn == QP_SMI && mad_is_smp(&smp->h)) {
		enum sma_says says = sma_answer(in, smp, pkt);

		if (says == SMA_SILENT || (smp->h.method == METHOD_TRAP_REPRESS &&
					   trap_repressed(lid_port(in), smp)))
			return;
		mine = says == SMA_ANSWERS;
	} else if (pkt->dqpn == QP_GSI && !mad_is_smp(&smp->h)) {
		mine = pma_answer(in, pkt->mad);
	} else {
		return; /* IBA 13.5.1: the class does not belong to this QP */
	}
	if (mine)
		send_answer(in, pkt, local, lid_routed);
	else if (!is_switch(in->node))
		in->node->f->ops->deliver(in->node->f->ctx, in->node->index, in->num,
					  pkt);
}

/* A directed-route SMP takes its next step; any other packet is for this node. */
static void at_node(struct fab_port *in, struct mad_pkt *pkt, bool lid_routed)
{
	struct smp *smp = (struct smp *)pkt->mad;

	if (pkt->dqpn == QP_SMI && smp->h.class == MAD_SM_DR)
		directed(in, pkt, false, lid_routed);
	else
		here(in, pkt, false, lid_routed);
}

/* Is the port in that partition, as a full or limited member?  A subnet manager gives a
 * switch's port the table of the adapter there, whose limited P_Keys differ in the top
 * bit. */
static bool may_say(const struct fab_port *p, uint16_t pkey)
{
	for (unsigned i = 0; i < p->pkeys; i++) {
		if (pkey_same_partition(p->pkey[i], pkey))
			return true;
	}
	return false;
}

bool take_in(struct fab_port *in, const struct mad_pkt *pkt)
{
	uint32_t words = pkt_words(pkt);

	if (by_vl15(pkt))
		return true;
	if (in->pi.state < PORT_ARMED)
		return false;
	count_up(&in->count.rcv_pkts);
	count_up(pkt->dlid > LID_UNICAST_LAST && pkt->dlid != LID_PERMISSIVE
			 ? &in->count.rcv_multicast
			 : &in->count.rcv_unicast);
	in->count.rcv_data += words;
	in->detail.rcv_sl[pkt->sl & 15] += words;
	if (is_switch(in->node) && in->pi.enforce_in && !may_say(in, pkt->pkey)) {
		count_up(&in->count.rcv_constraint);
		trap_switch_pkey(in, pkt);
		return false;
	}
	return true;
}

bool good_pkey(struct fab_port *in, const struct mad_pkt *pkt)
{
	struct fab_port *p = lid_port(in);

	if (by_vl15(pkt) || pkey_fits(p, pkt->pkey))
		return true;
	if (p->pi.pkey_violations < UINT16_MAX)
		p->pi.pkey_violations++;
	trap_pkey(p, pkt);
	return false;
}

static void from_link(struct fab_port *in, struct mad_pkt *pkt)
{
	bool own = has_lid(lid_port(in), pkt->dlid);

	if (pkt->dlid == LID_PERMISSIVE && by_vl15(pkt))
		at_node(in, pkt, false);
	else if (own && good_pkey(in, pkt))
		at_node(in, pkt, true);
	else if (!own && is_switch(in->node))
		by_table(in->node, in, pkt);
}

void mad_here(struct fab_port *in, struct mad_pkt *pkt)
{
	from_link(in, pkt);
}

/* Sends a packet from an adapter's QP0 or QP1. */
static void from_above(struct fab_port *p, struct mad_pkt *pkt)
{
	struct smp *smp = (struct smp *)pkt->mad;
	bool back = get_be16(smp->h.status) & SMP_RETURN;

	if (!pkt->slid)
		pkt->slid = p->pi.lid;
	if (by_vl15(pkt) && smp->h.class == MAD_SM_DR &&
	    (back || get_be16(smp->dr_slid) == LID_PERMISSIVE))
		directed(p, pkt, true, false);
	else if (pkt->dlid == LID_PERMISSIVE && by_vl15(pkt))
		send_out(p, VL_SMI, pkt);
	else
		send_routed(p, pkt);
}

void arrive(struct flight *fl)
{
	if (fl->local)
		from_above(fl->to, &fl->pkt);
	else if (fl->pkt.hops == 0 || take_in(fl->to, &fl->pkt))
		from_link(fl->to, &fl->pkt);
}
