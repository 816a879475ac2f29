/* SPDX-License-Identifier: BSD-2-Clause */
/* input.c - finds the agent for a MAD that comes to QP0 or QP1 of an adapter's port. */
#include <string.h>

#include "fabric/umad/rmpp.h"

enum {
	VENDOR_OUI = 37
}; /* offset of the OUI in vendor classes 0x30 to 0x4f (IBA 13.6.2): after RMPP's header
    * and a reserved byte */

static void give_to_agent(struct agent *a, const struct mad_pkt *pkt, const uint8_t *msg,
			  size_t len)
{
	const struct uport *port = a->file->port;
	struct umad_hdr hdr = {
		.agent = a->id,
		.qpn = be32(pkt->sqpn),
		.lid = be16(pkt->slid),
		.sl = pkt->sl,
		.grh = pkt->grh,
	};
	struct fabric_port_view v;

	if (!fabric_port(port->u->f, port->node, port->num, &v))
		return;
	hdr.path_bits = (uint8_t)(pkt->dlid & ((1u << v.info->lmc) - 1));
	if (a->qpn ==
	    QP_GSI) /* the port has accepted pkt, so a P_Key of its table matches */
		hdr.pkey_index = (uint16_t)pkey_find(v.pkey, v.pkeys, pkt->pkey);
	if (pkt->grh) {
		hdr.hop_limit = pkt->hop_limit;
		hdr.tclass = pkt->tclass;
		hdr.flow_label = be32(pkt->flow_label);
		memcpy(hdr.gid, pkt->sgid, 16);
	}
	queue_message(a->file, &hdr, msg, len);
}

static struct agent *by_tid(const struct uport *p, const struct mad_hdr *h)
{
	uint32_t hi = (uint32_t)(get_be64(h->tid) >> 32);

	list_for(node, &p->agents)
	{
		struct agent *a = container_of(node, struct agent, node);

		if (a->hi_tid == hi)
			return a;
	}
	return NULL;
}

static bool wants(const struct umad_reg *r, const struct mad_hdr *h)
{
	const uint8_t *oui = (const uint8_t *)h + VENDOR_OUI;
	uint8_t method = h->method & 0x7f;

	if (r->class != h->class || r->version != h->class_version ||
	    !(r->methods[method / 64] >> method % 64 & 1))
		return false;
	return h->class < MAD_VENDOR2 || h->class > MAD_VENDOR2_LAST ||
	       r->oui == ((uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2]);
}

static struct agent *by_method(const struct uport *p, const struct mad_hdr *h)
{
	list_for(node, &p->agents)
	{
		struct agent *a = container_of(node, struct agent, node);

		if (wants(&a->reg, h))
			return a;
	}
	return NULL;
}

/* No agent wants pkt.  As in Linux, only a Get or a Set is answered with an error. */
static void unsupported(const struct uport *p, const struct mad_pkt *pkt)
{
	struct mad_pkt back = *pkt;
	struct mad_hdr *h = (struct mad_hdr *)back.mad;

	if (h->method != METHOD_GET && h->method != METHOD_SET)
		return;
	h->method = METHOD_GET_RESP;
	h->status =
		be16(h->class == MAD_SM_DR ? MAD_BAD_ATTR | SMP_RETURN : MAD_BAD_ATTR);
	send_back(p, &back);
}

/* An answer without an outstanding request is dropped.  The exception is a program that
 * does RMPP itself: it gets all segments of an answer, although the first one ends the
 * request. */
void give_message(struct agent *a, const struct mad_pkt *pkt, const uint8_t *msg,
		  size_t len)
{
	const struct mad_hdr *h = (const struct mad_hdr *)pkt->mad;

	if (mad_is_response(h)) {
		struct req *r = request_find(a, h, false, pkt->slid);

		if (!r && (rmpp_serves(a) || !rmpp_is_active(pkt->mad)))
			return;
		if (r)
			request_free(r);
	}
	give_to_agent(a, pkt, msg, len);
}

void umad_input(struct umad *u, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	const struct mad_hdr *h = (const struct mad_hdr *)pkt->mad;
	struct uport nobody = { .u = u, .node = node, .num = port }, *p = &nobody;
	struct agent *a = NULL;

	if (h->base_version != MAD_BASE_VERSION)
		return;
	list_init(&nobody.agents);
	if (node < u->nodes && u->port[node])
		p = &u->port[node][port - 1];
	a = mad_is_response(h) ? by_tid(p, h) : by_method(p, h);
	if (a && a->qpn != pkt->dqpn)
		a = NULL;
	if (!a)
		unsupported(p, pkt);
	else if (!rmpp_input(a, pkt))
		give_message(a, pkt, pkt->mad, MAD_SIZE);
}
