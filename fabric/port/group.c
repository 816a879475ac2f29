/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c - multicast groups of programs at an adapter.
 *
 * The subnet administrator (SA) knows only whether a port is in a group, but several
 * programs at the port may be members.  On real hosts the kernel counts them.  Here the
 * fabric counts, by reading the programs' requests to the SA and its answers.  The port
 * leaves a group when its last member leaves.  When a program ends, the fabric leaves the
 * program's groups for it.  A program repeats its own requests until the SA answers; the
 * fabric repeats those that it sends for programs that have ended (server.leaving).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/port/server_own.h"
#include "sys/clock.h"
#include "wire/sa.h"

/* The upper half of the transaction IDs of the fabric's own requests: the slot of no
 * program and the agent of no umad file. */
#define NOBODYS_TID (UINT64_C(0xffffffff) << 32)

enum {
	GROUPS_MAX = 1024, /* memberships of a program; further ones are not counted */
	LEAVING_MAX = 1 << 14, /* length of server.leaving; further Deletes go out once */
};

/* A Delete is sent again after FIRST_NS, then after twice as long each time, and given up
 * after PATIENCE_NS. */
static const uint64_t FIRST_NS = 100000000, PATIENCE_NS = 6000000000;

struct membership {
	struct list node; /* in conn.groups or server.leaving */
	uint8_t mgid[16];
	uint8_t state;
	bool granted; /* the SA has granted the join; otherwise it was asked to */
	bool leaves;  /* the SA has yet to answer the Delete with transaction ID tid */
	bool heir;    /* another program left while this one was a member: no Delete was
		       * sent, so the SA counts the port as a member in any case */
	uint64_t tid;
	/* Only in server.leaving; at: next Delete, until: the last; ns */
	uint32_t ca;
	uint8_t port;
	uint64_t at, wait_ns, until;
};

static bool is_of(const struct membership *m, const struct sa_group *g)
{
	return m->state == g->join_state && memcmp(m->mgid, g->mgid, 16) == 0;
}

static struct membership *find_membership(const struct plug_conn *c,
					  const struct sa_group *g)
{
	list_for(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (is_of(m, g))
			return m;
	}
	return NULL;
}

static void drop_membership(struct plug_conn *c, struct membership *m)
{
	c->ngroups--;
	list_del(&m->node);
	free(m);
}

static struct membership *keep_membership(struct plug_conn *c, const struct sa_group *g)
{
	struct membership *m = find_membership(c, g);

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

/* The membership of another program at c's port that is in the group, or has asked to
 * join; NULL: there is none. */
static struct membership *other_member(const struct plug_server *s,
				       const struct plug_conn *c,
				       const struct sa_group *g)
{
	list_for(node, &s->attaches)
	{
		const struct plug_conn *o = container_of(node, struct plug_conn, node);
		struct membership *m;

		if (o == c || o->ca != c->ca || o->port != c->port)
			continue;
		m = find_membership(o, g);
		if (m && !m->leaves)
			return m;
	}
	return NULL;
}

/* --- Deletes that the fabric sends for programs that have ended ------------------ */

/* Removes m from server.leaving: the SA has answered, or nobody needs the Delete. */
static void end_leaving(struct plug_server *s, struct membership *m)
{
	s->nleaving--;
	list_del(&m->node);
	free(m);
}

/* Sends m's Delete to the SA.  Returns false if the subnet has no manager, and so no SA
 * that knows of the membership. */
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

/* Moves m to server.leaving and sends a Delete for it.  If the program itself has already
 * sent a Delete, the fabric only waits for the answer, and sends again after FIRST_NS. */
static void leave_group(struct plug_server *s, struct plug_conn *c, struct membership *m)
{
	bool said = true; /* by the program itself, if the Delete has gone out already */

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
		said = say_leave(s, m);
	}
	if (!said || s->nleaving > LEAVING_MAX) {
		end_leaving(s, m);
		return;
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
				end_leaving(s, m);
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
		end_leaving(s, container_of(node, struct membership, node));
}

/* c's program is about to join: the fabric stops repeating a Delete for the same group,
 * which could otherwise reach the SA after the join. */
static void leave_no_more(struct plug_server *s, const struct plug_conn *c,
			  const struct sa_group *g)
{
	list_for_safe(node, &s->leaving)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (m->ca == c->ca && m->port == c->port && is_of(m, g))
			end_leaving(s, m);
	}
}

/* --- programs' requests, and the SA's answers ------------------------------------ */

/* Answers a program's Delete with success in the SA's place. */
static void answer_leave(struct plug_server *s, const struct plug_conn *c,
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

static void asked_to_join(struct plug_server *s, struct plug_conn *c,
			  const struct sa_group *g)
{
	struct membership *m;

	if (!g->mgid[0])
		return; /* the SA chooses the MGID; its answer names it */
	leave_no_more(s, c, g);
	m = keep_membership(c, g);
	if (m)
		m->leaves = false;
}

bool group_asked(struct plug_server *s, struct plug_conn *c, const struct mad_pkt *pkt)
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
	m = find_membership(c, &g);
	o = other_member(s, c, &g);
	if (m && o) {
		drop_membership(c, m);
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

/* The SA has refused m's join.  If m is an heir, the port may still be in the group on
 * behalf of a program that has left: another membership becomes the heir, or, if there is
 * none, the fabric sends the Delete that it withheld then. */
static void join_refused(struct plug_server *s, struct plug_conn *c, struct membership *m,
			 const struct sa_group *g)
{
	struct membership *o;

	if (m->granted)
		return;
	o = m->heir ? other_member(s, c, g) : NULL;
	if (o)
		o->heir = true;
	if (m->heir && !o)
		leave_group(s, c, m);
	else
		drop_membership(c, m);
}

static void answered_join(struct plug_server *s, struct plug_conn *c,
			  const struct sa_group *g, bool no)
{
	struct membership *m = no ? find_membership(c, g) : keep_membership(c, g);

	if (m && no)
		join_refused(s, c, m, g);
	else if (m)
		m->granted = true;
}

static void answered_leave(struct plug_server *s, struct plug_conn *c, uint64_t tid)
{
	list_for_safe(node, c ? &c->groups : &s->leaving)
	{
		struct membership *m = container_of(node, struct membership, node);

		if (!m->leaves || m->tid != tid)
			continue;
		if (c)
			drop_membership(c, m);
		else
			end_leaving(s, m);
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
		return; /* not from the subnet manager's LID */
	if (method == METHOD_DELETE_RESP)
		answered_leave(s, NULL, tid_of(pkt));
	list_for(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (c->ca != ca || c->port != port || c->slot != slot)
			continue;
		if (method == METHOD_GET_RESP)
			answered_join(s, c, &g, rc);
		else if (method == METHOD_DELETE_RESP)
			answered_leave(s, c, tid_of(pkt));
	}
}

void group_end(struct plug_server *s, struct plug_conn *c)
{
	if (!c->ngroups)
		return;
	list_for_safe(node, &c->groups)
	{
		struct membership *m = container_of(node, struct membership, node);
		struct sa_group g = { .join_state = m->state };
		struct membership *o;

		memcpy(g.mgid, m->mgid, sizeof(g.mgid));
		o = other_member(s, c, &g);
		if (o) {
			o->heir = true;
			drop_membership(c, m);
		} else {
			leave_group(s, c, m);
		}
	}
}
