/* SPDX-License-Identifier: BSD-2-Clause */
/* sa_group.c - multicast groups of InfiniBand. The subnet's administrator (SA) makes
 * them, and has the switches bring their packets to the member ports.
 *
 * Each member in this process sends its own join, as the answer describes its group. The
 * last member of a group in this process makes the port leave; among several processes of
 * one port the fabric counts (fabric/port/group.c). */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm_int.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"

enum member_state {
	MEMBER_ASKS,   /* no result reported yet */
	MEMBER_IN,     /* joined; want.mlid is the group's LID */
	MEMBER_OUT,    /* not in the group, which the owner knows */
	MEMBER_LEAVES, /* no owner; a Delete waits for its answer */
};

struct cm_member {
	struct list node; /* in cm->members */
	struct sa_ask ask;
	struct cm_owner *owner;
	struct sa_group want;
	uint16_t pkey_index;
	uint64_t patience_ns;
	enum member_state state;
	bool refused; /* the SA refused the join, and knows nothing of the member */
};

static void send_member(struct cm *cm, const struct cm_member *m, uint64_t tid,
			enum mad_method method)
{
	const struct cm_route route = { .pkey_index = m->pkey_index };
	uint8_t mad[MAD_LEN];

	sa_group_ask(mad, tid, method, &m->want);
	sa_send(cm, &route, mad);
}

static void ask_group(struct cm *cm, const struct sa_ask *a)
{
	const struct cm_member *m = container_of(a, const struct cm_member, ask);

	send_member(cm, m, a->tid,
		    m->state == MEMBER_LEAVES ? METHOD_DELETE : METHOD_SET);
}

static void end_member(struct cm *cm, struct cm_member *m)
{
	sa_ask_end(cm, &m->ask);
	list_del(&m->node);
	turn_free(m);
}

/* Reports the result of a join to m's owner. When a member joins again, another LID
 * counts as a failure: the program has attached QPs to the old LID and sends there. If
 * the owner has no memory for the event, the next answer is reported. */
static void report_join(struct cm *cm, struct cm_member *m, int status,
			const struct sa_group *g)
{
	const bool again = m->state == MEMBER_IN;
	struct cm_event ev = { .type = CM_EV_GROUP, .status = status, .group = g };

	if (again && g && g->mlid == m->want.mlid) {
		sa_answered(cm, &m->ask);
		return;
	}
	if (again) {
		log_warn("the subnet's SA does not give the multicast group of LID "
			 "0x%x the same LID again: the program has to leave the "
			 "group and join it anew",
			 m->want.mlid);
		ev.status = -ENETRESET;
		ev.group = NULL;
	}
	if (!m->owner->event(m->owner, &ev) && status != -ETIMEDOUT)
		return;
	m->refused = status == -EINVAL;
	m->state = ev.status ? MEMBER_OUT : MEMBER_IN;
	if (ev.group) {
		memcpy(m->want.mgid, ev.group->mgid, sizeof(m->want.mgid));
		m->want.mlid = ev.group->mlid;
	}
	sa_answered(cm, &m->ask);
}

/* A subnet manager answers no question before its first sweep has ended, and it asks for
 * memberships early in that sweep: who was in the group goes on asking. */
static bool member_timeout(struct cm *cm, struct sa_ask *a)
{
	struct cm_member *m = container_of(a, struct cm_member, ask);

	switch (m->state) {
	case MEMBER_IN:
		return true;
	case MEMBER_LEAVES:
		end_member(cm, m);
		break;
	case MEMBER_ASKS:
	case MEMBER_OUT:
		report_join(cm, m, -ETIMEDOUT, NULL);
		break;
	}
	return false;
}

static const struct sa_ask_ops ops = { ask_group, member_timeout };

static uint16_t index_of(struct cm *cm, uint16_t pkey)
{
	const struct port port = device_port(cm->ib->gsi.dev);

	for (unsigned i = 0; i < port.pkeys; i++)
		if (port.pkey[i] == pkey)
			return (uint16_t)i;
	return 0;
}

static bool is_same(const struct cm_member *m, const struct sa_group *g)
{
	return m->want.join_state == g->join_state &&
	       !memcmp(m->want.mgid, g->mgid, sizeof(g->mgid));
}

/* Ends the Deletes of g that wait for an answer: a Delete repeated after the new join
 * would undo it. */
static void leave_no_more(struct cm *cm, const struct sa_group *g)
{
	list_for_safe(n, &cm->members)
	{
		struct cm_member *m = container_of(n, struct cm_member, node);

		if (m->state == MEMBER_LEAVES && is_same(m, g))
			end_member(cm, m);
	}
}

int cm_join(struct cm *cm, const struct sa_group *want, uint64_t patience_ns,
	    struct cm_owner *owner, struct cm_member **out, uint64_t now)
{
	struct cm_member *m;

	if (!cm->ib)
		return -ENODEV;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	if (sa_ask_init(cm, &m->ask, &ops)) {
		free(m);
		return -ENOMEM;
	}
	leave_no_more(cm, want);
	m->owner = owner;
	m->want = *want;
	m->patience_ns = patience_ns;
	m->pkey_index = index_of(cm, want->pkey);
	list_add_tail(&cm->members, &m->node);
	sa_ask_begin(cm, &m->ask, patience_ns, now);
	*out = m;
	return 0;
}

/* Is another member of this process in m's group, with the same join state? */
static bool has_other(const struct cm *cm, const struct cm_member *m)
{
	list_for(n, &cm->members)
	{
		const struct cm_member *o = container_of(n, struct cm_member, node);

		if (o != m && o->state != MEMBER_LEAVES && !o->refused &&
		    is_same(o, &m->want))
			return true;
	}
	return false;
}

/* No Delete is sent if there is no subnet manager: one that comes later does not know of
 * the membership. */
void cm_part(struct cm *cm, struct cm_member *m, uint64_t now)
{
	if (m->refused || has_other(cm, m) || !device_port(cm->ib->gsi.dev).sm_lid) {
		end_member(cm, m);
		return;
	}
	m->state = MEMBER_LEAVES;
	m->owner = NULL;
	sa_answered(cm, &m->ask);
	sa_ask_begin(cm, &m->ask, m->patience_ns, now);
}

/* Is g the group that m wants? The SA may have chosen the GID. */
static bool is_of(const struct cm_member *m, const struct sa_group *g)
{
	return (!m->want.mgid[0] || !memcmp(g->mgid, m->want.mgid, sizeof(g->mgid))) &&
	       !memcmp(g->port_gid, m->want.port_gid, sizeof(g->port_gid));
}

void group_input(struct cm *cm, const uint8_t mad[MAD_LEN])
{
	const uint64_t tid = get_be64(((const struct mad_hdr *)mad)->tid);
	struct sa_group g;
	uint8_t method;
	const int rc = sa_group_parse(&g, &method, mad);

	if (rc == -EPROTO)
		return;
	list_for(n, &cm->members)
	{
		struct cm_member *m = container_of(n, struct cm_member, node);
		const bool leaves = m->state == MEMBER_LEAVES;

		if (m->ask.tid != tid || !heap_has(&m->ask.timer))
			continue;
		if (leaves && method == METHOD_DELETE_RESP)
			end_member(cm, m);
		else if (!leaves && method == METHOD_GET_RESP &&
			 (rc || (g.mlid && is_of(m, &g))))
			report_join(cm, m, rc, rc ? NULL : &g);
		break;
	}
}

void cm_reregister(struct cm *cm, uint64_t now)
{
	source_sooner(&cm->source, 0);
	list_for(n, &cm->members)
	{
		struct cm_member *m = container_of(n, struct cm_member, node);

		if (m->state == MEMBER_ASKS || m->state == MEMBER_IN)
			sa_ask_begin(cm, &m->ask, m->patience_ns, now);
	}
}

void group_close(struct cm *cm)
{
	list_for_safe(n, &cm->members)
		end_member(cm, container_of(n, struct cm_member, node));
}
