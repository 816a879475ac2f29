/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c - multicast groups of programs at an adapter.
 *
 * To the subnet's administrator a port is in a group or it is not, while several of its
 * programs may be.  A kernel counts them; here the fabric does, as it sees what they ask
 * and what they are answered: a program that leaves takes the port out of the group if it
 * was the last, and one that ends leaves what it was in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plug/server_own.h"
#include "wire/sa.h"

/* No program has that slot, no file that agent. */
#define NOBODYS_TID (UINT64_C(0xffffffff) << 32)

enum { GROUPS_MAX = 1024 }; /* of a program: more are not counted */

struct membership {
	struct list node; /* conn.groups */
	uint8_t mgid[16];
	uint8_t state;
	bool granted; /* else it has been asked for */
};

static struct membership *find(const struct conn *c, const struct sa_group *g)
{
	list_for(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (m->state == g->join_state &&
		    memcmp(m->mgid, g->mgid, sizeof(m->mgid)) == 0)
			return m;
	}
	return NULL;
}

static void drop(struct conn *c, struct membership *m)
{
	c->ngroups--;
	list_del(&m->node);
	free(m);
}

static struct membership *keep(struct conn *c, const struct sa_group *g)
{
	struct membership *m = find(c, g);

	if (m || c->ngroups == GROUPS_MAX)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	memcpy(m->mgid, g->mgid, sizeof(m->mgid));
	m->state = g->join_state;
	list_add_tail(&c->groups, &m->node);
	c->ngroups++;
	return m;
}

/* Is another program of c's port in that group? */
static bool has_other(const struct plug_server *s, const struct conn *c,
		      const struct sa_group *g)
{
	list_for(node, &s->attaches)
	{
		const struct conn *o = container_of(node, struct conn, node);

		if (o != c && o->ca == c->ca && o->port == c->port && find(o, g))
			return true;
	}
	return false;
}

static void answer_leave(struct plug_server *s, const struct conn *c,
			 const struct mad_pkt *pkt)
{
	struct mad_pkt back = *pkt;

	((struct mad_hdr *)back.mad)->method |= METHOD_RESP;
	back.slid = pkt->dlid;
	back.dlid = pkt->slid;
	back.sqpn = back.dqpn = QP_GSI;
	back.grh = false;
	(void)attach_mad(s, c->ca, c->port, c->slot, &back);
}

bool group_asked(struct plug_server *s, struct conn *c, const struct mad_pkt *pkt)
{
	struct membership *m;
	struct sa_group g;
	uint8_t method;

	if (sa_group_parse(&g, &method, pkt->mad))
		return false;
	if (method == METHOD_SET && g.mgid[0]) /* else the SA chooses one */
		(void)keep(c, &g);
	if (method != METHOD_DELETE)
		return false;
	m = find(c, &g);
	if (m)
		drop(c, m);
	if (!has_other(s, c, &g))
		return false;
	answer_leave(s, c, pkt);
	return true;
}

void group_answered(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		    const struct mad_pkt *pkt)
{
	struct fabric_port_view v;
	struct sa_group g;
	uint8_t method;
	const int rc = sa_group_parse(&g, &method, pkt->mad);

	if (rc == -EPROTO || method != METHOD_GET_RESP || !g.mgid[0])
		return;
	if (!fabric_port(s->fabric, ca, port, &v) || v.info->sm_lid != pkt->slid)
		return; /* anybody could say so */
	list_for(node, &s->attaches)
	{
		struct conn *c = container_of(node, struct conn, node);
		struct membership *m;

		if (c->ca != ca || c->port != port || c->slot != slot)
			continue;
		m = rc ? find(c, &g) : keep(c, &g);
		if (m && rc && !m->granted)
			drop(c, m);
		else if (m)
			m->granted = true;
	}
}

/* Nobody waits for the answer. */
static void leave(struct plug_server *s, const struct conn *c, const struct sa_group *g)
{
	struct fabric_port_view v;
	struct mad_pkt pkt = { .sqpn = QP_GSI, .dqpn = QP_GSI, .qkey = QKEY_GSI };

	if (!fabric_port(s->fabric, c->ca, c->port, &v) || !v.info->sm_lid)
		return;
	pkt.pkey = v.pkey[0];
	pkt.dlid = v.info->sm_lid;
	pkt.sl = v.info->sm_sl;
	sa_group_ask(pkt.mad, NOBODYS_TID | ++s->tid, METHOD_DELETE, g);
	(void)fabric_send(s->fabric, c->ca, c->port, &pkt);
}

void group_end(struct plug_server *s, struct conn *c)
{
	struct sa_group g = { 0 };

	if (!c->ngroups)
		return;
	list_for_safe(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);

		memcpy(g.mgid, m->mgid, sizeof(g.mgid));
		g.join_state = m->state;
		drop(c, m);
		service_own_gid(s, c->ca, c->port, g.port_gid);
		if (!has_other(s, c, &g))
			leave(s, c, &g);
	}
}
