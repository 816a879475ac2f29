/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c - multicast groups of programs at an adapter.
 *
 * To the subnet administrator a port either is in a group or is not, while several
 * programs at the port may be in it. On real hosts the kernel counts them; here the
 * fabric does, from their requests and the answers. If the last program of a group
 * leaves, the port leaves it; when a program ends, it leaves all its groups. A program
 * repeats a request until it is answered; the fabric repeats requests for programs that
 * have ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plug/server_own.h"
#include "sys/clock.h"
#include "wire/sa.h"

/* Transaction IDs of no program's slot and no file's agent. */
#define NOBODYS_TID (UINT64_C(0xffffffff) << 32)

enum {
	GROUPS_MAX = 1024,     /* groups of one program; more are not counted */
	LEAVING_MAX = 1 << 14, /* requests to leave; more are not repeated */
};

static const uint64_t FIRST_NS = 100000000, PATIENCE_NS = 6000000000;

struct membership {
	struct list node; /* in conn.groups or server.leaving */
	uint8_t mgid[16];
	uint8_t state;
	bool granted; /* the join was granted; else it has been requested */
	/* left by the Delete with this transaction ID, which is not answered yet */
	bool leaves;
	/* another program's Delete was not sent because of this membership */
	bool heir;
	uint64_t tid;
	/* Used in server.leaving: */
	uint32_t ca;
	uint8_t port;
	uint64_t at, wait_ns, until;
};

static bool is_of(const struct membership *m, const struct sa_group *g)
{
	return m->state == g->join_state && memcmp(m->mgid, g->mgid, 16) == 0;
}

static struct membership *find(const struct conn *c, const struct sa_group *g)
{
	list_for(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (is_of(m, g))
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

/* Finds another program of c's port that is in the group, or asks to join it. */
static struct membership *other(const struct plug_server *s, const struct conn *c,
				const struct sa_group *g)
{
	list_for(node, &s->attaches)
	{
		const struct conn *o = container_of(node, struct conn, node);
		struct membership *m;

		if (o == c || o->ca != c->ca || o->port != c->port)
			continue;
		m = find(o, g);
		if (m && !m->leaves)
			return m;
	}
	return NULL;
}

/* --- what no program asks for any more ----------------------------------------- */

static void left(struct plug_server *s, struct membership *m)
{
	s->nleaving--;
	list_del(&m->node);
	free(m);
}

/* Asks the SA to take the port out of the group. Returns false if there is no subnet
 * manager, which then knows of no group. */
static bool say_leave(struct plug_server *s, const struct membership *m)
{
	struct mad_pkt pkt = { .sqpn = QP_GSI, .dqpn = QP_GSI, .qkey = QKEY_GSI };
	struct sa_group g = { .join_state = m->state };
	struct fabric_port_view v;

	if (!fabric_port(s->fabric, m->ca, m->port, &v) || !v.info->sm_lid)
		return false;
	memcpy(g.mgid, m->mgid, sizeof(g.mgid));
	service_own_gid(s, m->ca, m->port, g.port_gid);
	pkt.pkey = v.pkey[0];
	pkt.dlid = v.info->sm_lid;
	pkt.sl = v.info->sm_sl;
	sa_group_ask(pkt.mad, m->tid, METHOD_DELETE, &g);
	(void)fabric_send(s->fabric, m->ca, m->port, &pkt);
	return true;
}

/* A membership whose Delete has been sent waits for its answer first. */
static void leave(struct plug_server *s, struct conn *c, struct membership *m)
{
	c->ngroups--;
	list_del(&m->node);
	list_add_tail(&s->leaving, &m->node);
	s->nleaving++;
	m->ca = c->ca;
	m->port = c->port;
	m->wait_ns = FIRST_NS;
	m->at = s->now + FIRST_NS;
	m->until = s->now + PATIENCE_NS;
	if (!m->leaves) {
		m->leaves = true;
		m->tid = NOBODYS_TID | ++s->tid;
		if (!say_leave(s, m) || s->nleaving > LEAVING_MAX) {
			left(s, m);
			return;
		}
	}
	if (m->at < s->leaving_next || s->nleaving == 1)
		s->leaving_next = m->at;
}

uint64_t group_next(const struct plug_server *s)
{
	return list_empty(&s->leaving) ? NEVER : s->leaving_next;
}

void group_run(struct plug_server *s)
{
	if (s->now < group_next(s))
		return;
	s->leaving_next = NEVER;
	list_for_safe(node, &s->leaving)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (m->at <= s->now) {
			if (m->until <= s->now || !say_leave(s, m)) {
				left(s, m);
				continue;
			}
			m->wait_ns *= 2;
			m->at = s->now + m->wait_ns;
		}
		if (m->at < s->leaving_next)
			s->leaving_next = m->at;
	}
}

void group_free(struct plug_server *s)
{
	list_for_safe(node, &s->leaving)
		left(s, container_of(node, struct membership, node));
}

/* Stops repeating a Delete, which would otherwise follow the new join. */
static void leave_no_more(struct plug_server *s, const struct conn *c,
			  const struct sa_group *g)
{
	list_for_safe(node, &s->leaving)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (m->ca == c->ca && m->port == c->port && is_of(m, g))
			left(s, m);
	}
}

/* --- what programs ask, and are answered ----------------------------------------- */

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

static uint64_t tid_of(const struct mad_pkt *pkt)
{
	return get_be64(((const struct mad_hdr *)pkt->mad)->tid);
}

static void asked_to_join(struct plug_server *s, struct conn *c, const struct sa_group *g)
{
	struct membership *m;

	if (!g->mgid[0])
		return; /* the SA will choose the group */
	leave_no_more(s, c, g);
	m = keep(c, g);
	if (m)
		m->leaves = false;
}

bool group_asked(struct plug_server *s, struct conn *c, const struct mad_pkt *pkt)
{
	struct membership *m, *o;
	struct sa_group g;
	uint8_t method;

	if (sa_group_parse(&g, &method, pkt->mad))
		return false;
	if (method == METHOD_SET)
		asked_to_join(s, c, &g);
	if (method != METHOD_DELETE)
		return false;
	m = find(c, &g);
	o = other(s, c, &g);
	if (m && o) {
		drop(c, m);
	} else if (m) {
		m->leaves = true;
		m->tid = tid_of(pkt);
	}
	if (!o)
		return false;
	o->heir = true;
	answer_leave(s, c, pkt);
	return true;
}

/* The join was refused. The port may still be in the group because of a program that has
 * left meanwhile. */
static void refused(struct plug_server *s, struct conn *c, struct membership *m,
		    const struct sa_group *g)
{
	struct membership *o;

	if (m->granted)
		return;
	o = m->heir ? other(s, c, g) : NULL;
	if (o)
		o->heir = true;
	if (m->heir && !o)
		leave(s, c, m);
	else
		drop(c, m);
}

static void answered_join(struct plug_server *s, struct conn *c, const struct sa_group *g,
			  bool no)
{
	struct membership *m = no ? find(c, g) : keep(c, g);

	if (m && no)
		refused(s, c, m, g);
	else if (m)
		m->granted = true;
}

static void answered_leave(struct plug_server *s, struct conn *c, uint64_t tid)
{
	list_for_safe(node, c ? &c->groups : &s->leaving)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (!m->leaves || m->tid != tid)
			continue;
		if (c)
			drop(c, m);
		else
			left(s, m);
	}
}

void group_answered(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		    const struct mad_pkt *pkt)
{
	struct fabric_port_view v;
	struct sa_group g;
	uint8_t method;
	const int rc = sa_group_parse(&g, &method, pkt->mad);

	if (rc == -EPROTO || (method == METHOD_GET_RESP && !g.mgid[0]))
		return;
	if (!fabric_port(s->fabric, ca, port, &v) || v.info->sm_lid != pkt->slid)
		return; /* not from the SA: anybody could send this */
	if (method == METHOD_DELETE_RESP)
		answered_leave(s, NULL, tid_of(pkt));
	list_for(node, &s->attaches)
	{
		struct conn *c = container_of(node, struct conn, node);

		if (c->ca != ca || c->port != port || c->slot != slot)
			continue;
		if (method == METHOD_GET_RESP)
			answered_join(s, c, &g, rc);
		else if (method == METHOD_DELETE_RESP)
			answered_leave(s, c, tid_of(pkt));
	}
}

void group_end(struct plug_server *s, struct conn *c)
{
	if (!c->ngroups)
		return;
	list_for_safe(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);
		struct sa_group g = { .join_state = m->state };
		struct membership *o;

		memcpy(g.mgid, m->mgid, sizeof(g.mgid));
		o = other(s, c, &g);
		if (o) {
			o->heir = true;
			drop(c, m);
		} else {
			leave(s, c, m);
		}
	}
}
