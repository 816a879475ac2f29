/* SPDX-License-Identifier: BSD-2-Clause */
/* service.c - connection management of programs at an adapter: which program serves which
 * service ID, which program gets a MAD to QP1, and which port has an IP address.
 *
 * A kernel has one communication manager (CM) per adapter.  Here each program has its
 * own, and the fabric decides which program a MAD is for: a REQ or SIDR_REQ by its
 * service ID, any other CM message by the receiver's communication ID, an answer of the
 * SA by its transaction ID.  The upper bits of these two IDs are the program's slot, as
 * in its QP numbers.
 */
#include <errno.h>
#include <string.h>

#include "fabric/port/server_own.h"
#include "sys/addr.h"
#include "wire/cm_mad.h"
#include "wire/mad.h"
#include "wire/qpn.h"

int service_begin(struct plug_server *s, struct plug_conn *c,
		  const struct plug_request *req)
{
	if (!req->slot || req->slot >= 1u << QPN_SLOT_BITS)
		return -EINVAL;
	list_for(node, &s->services)
	{
		const struct plug_conn *o = container_of(node, struct plug_conn, node);

		if (o->ca == c->ca && o->port == c->port && o->service == req->service &&
		    o->slot != req->slot)
			return -EADDRINUSE;
	}
	c->slot = (uint16_t)req->slot;
	c->service = req->service;
	return 0;
}

/* The slot of the program that has claimed the service at the port; 0: none has. */
static uint16_t server_of(const struct plug_server *s, uint32_t ca, uint8_t port,
			  uint64_t service)
{
	list_for(node, &s->services)
	{
		const struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (c->ca == ca && c->port == port && c->service == service)
			return c->slot;
	}
	return 0;
}

/* No program is attached at the port.  A real host's kernel would refuse the message, so
 * the fabric does. */
static void refuse_service(struct plug_server *s, uint32_t ca, uint8_t port,
			   const struct mad_pkt *pkt, const struct cm_msg *m)
{
	struct mad_pkt back = *pkt;
	struct cm_msg answer;

	if (!cm_mad_refusal(m, &answer))
		return;
	cm_mad_build(back.mad, &answer);
	(void)fabric_answer(s->fabric, ca, port, &back);
}

/* Gives a CM message to its program.  A request for a service that no program has claimed
 * goes to any program at the port, whose CM refuses it. */
static void deliver_cm(struct plug_server *s, uint32_t ca, uint8_t port,
		       const struct mad_pkt *pkt)
{
	struct cm_msg m;
	uint16_t slot;

	if (cm_mad_parse(&m, pkt->mad, sizeof(pkt->mad)))
		return;
	if (m.type == CM_REQ || m.type == CM_SIDR_REQ)
		slot = server_of(s, ca, port, m.service_id);
	else
		slot = id_slot(m.remote_id);
	if (!attach_mad(s, ca, port, slot, pkt) &&
	    (!slot || !attach_mad(s, ca, port, 0, pkt)))
		refuse_service(s, ca, port, pkt, &m);
}

bool service_deliver(struct plug_server *s, uint32_t ca, uint8_t port,
		     const struct mad_pkt *pkt)
{
	const struct mad_hdr *h = (const struct mad_hdr *)pkt->mad;
	uint16_t slot;

	if (pkt->dqpn != QP_GSI || h->base_version != MAD_BASE_VERSION)
		return false;
	if (h->class == MAD_CM) {
		deliver_cm(s, ca, port, pkt);
		return true;
	}
	if (h->class != MAD_SA || !mad_is_response(h))
		return false;
	slot = tid_slot(get_be64(h->tid));
	group_answered(s, ca, port, slot, pkt);
	return slot && attach_mad(s, ca, port, slot, pkt);
}

/* --- addresses ---------------------------------------------------------------------- */

static void put_gid(uint8_t gid[16], uint64_t prefix, uint64_t guid)
{
	const be64_t half[2] = { be64(prefix), be64(guid) };

	memcpy(gid, half, sizeof(half));
}

void service_own_gid(const struct plug_server *s, uint32_t ca, uint8_t port,
		     uint8_t gid[16])
{
	struct fabric_port_view v;

	if (fabric_port(s->fabric, ca, port, &v))
		put_gid(gid, v.info->gid_prefix, v.guids[0]);
}

static bool has_gid(const struct fabric_port_view *v, const uint8_t gid[16])
{
	uint8_t own[16];

	for (unsigned i = 0; i < PLUG_GUIDS; i++) {
		put_gid(own, v->info->gid_prefix, v->guids[i]);
		if (v->guids[i] && memcmp(own, gid, sizeof(own)) == 0)
			return true;
	}
	return false;
}

static bool has_address(const struct plug_server *s, uint32_t ca, unsigned port,
			const uint8_t ip[16])
{
	uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };
	const be32_t address = be32(s->topo->node[ca].port[port].address);

	memcpy(mapped + 12, &address, sizeof(address));
	return get_be32(address) && memcmp(mapped, ip, sizeof(mapped)) == 0;
}

bool service_find(struct plug_server *s, const uint8_t ip[16], uint8_t gid[16])
{
	for (uint32_t i = 0; i < s->topo->nodes; i++) {
		const struct topo_node *n = &s->topo->node[i];

		for (unsigned p = 1; n->type == TOPO_CA && p <= n->ports; p++) {
			struct fabric_port_view v;

			if (!fabric_port(s->fabric, i, (uint8_t)p, &v))
				continue;
			if (has_gid(&v, ip))
				memcpy(gid, ip, 16);
			else if (has_address(s, i, p, ip))
				put_gid(gid, v.info->gid_prefix, v.guids[0]);
			else
				continue;
			return true;
		}
	}
	return false;
}
