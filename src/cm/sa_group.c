/* SPDX-License-Identifier: BSD-2-Clause */
/* sa_group.c - multicast groups of InfiniBand: the subnet's administrator makes them,
 * and has switches bring their packets to the ports that are in them.
 *
 * Each member asks for itself, as the answer says what its group is like.  Of several in
 * this process the last to part takes the port out; of several processes the fabric sees
 * to that (plug/group.c). */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "core/device.h"

struct cm_member {
	struct list node; /* cm->members */
	struct sa_ask ask;
	struct cm_owner *owner;
	struct sa_group want;
	uint16_t pkey_index;
	uint64_t patience_ns;
	bool joined; /* the owner has been told */
};

static void say(struct cm *cm, const struct cm_member *m, uint64_t tid,
		enum mad_method method)
{
	const struct cm_route route = { .pkey_index = m->pkey_index };
	uint8_t mad[MAD_LEN];

	sa_group_ask(mad, tid, method, &m->want);
	sa_send(cm, &route, mad);
}

static void ask(struct cm *cm, const struct sa_ask *a)
{
	say(cm, container_of(a, const struct cm_member, ask), a->tid, METHOD_SET);
}

/* An owner without memory for the event is told when the next answer comes. */
static void tell(struct cm *cm, struct cm_member *m, int status, const struct sa_group *g)
{
	struct cm_event ev = { .type = CM_EV_GROUP, .status = status, .group = g };

	if (!m->joined && !m->owner->event(m->owner, &ev) && status != -ETIMEDOUT)
		return;
	m->joined = true;
	sa_answered(cm, &m->ask);
}

static void silent(struct cm *cm, struct sa_ask *a)
{
	tell(cm, container_of(a, struct cm_member, ask), -ETIMEDOUT, NULL);
}

static const struct sa_ask_ops ops = { ask, silent };

static uint16_t index_of(struct cm *cm, uint16_t pkey)
{
	const struct port port = device_port(cm->ib.dev);

	for (unsigned i = 0; i < port.pkeys; i++)
		if (port.pkey[i] == pkey)
			return (uint16_t)i;
	return 0;
}

int cm_join(struct cm *cm, const struct sa_group *want, uint64_t patience_ns,
	    struct cm_owner *owner, struct cm_member **out, uint64_t now)
{
	struct cm_member *m;

	if (!cm->ib.qp1)
		return -ENODEV;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	if (sa_ask_init(cm, &m->ask, &ops)) {
		free(m);
		return -ENOMEM;
	}
	m->owner = owner;
	m->want = *want;
	m->patience_ns = patience_ns;
	m->pkey_index = index_of(cm, want->pkey);
	list_add_tail(&cm->members, &m->node);
	sa_ask_begin(cm, &m->ask, patience_ns, now);
	*out = m;
	return 0;
}

/* In the same group, in the same state? */
static bool has_other(const struct cm *cm, const struct cm_member *m)
{
	list_for(n, &cm->members)
	{
		const struct cm_member *o = container_of(n, struct cm_member, node);

		if (o != m && o->want.join_state == m->want.join_state &&
		    !memcmp(o->want.mgid, m->want.mgid, sizeof(o->want.mgid)))
			return true;
	}
	return false;
}

static void end(struct cm *cm, struct cm_member *m)
{
	sa_ask_end(cm, &m->ask);
	list_del(&m->node);
	free(m);
}

void cm_part(struct cm *cm, struct cm_member *m)
{
	if (!has_other(cm, m))
		say(cm, m, sa_tid(cm), METHOD_DELETE);
	end(cm, m);
}

static bool is_of(const struct cm_member *m, const struct sa_group *g)
{
	return !memcmp(g->mgid, m->want.mgid, sizeof(g->mgid)) &&
	       !memcmp(g->port_gid, m->want.port_gid, sizeof(g->port_gid));
}

void group_input(struct cm *cm, const uint8_t mad[MAD_LEN])
{
	const uint64_t tid = get_be64(((const struct mad_hdr *)mad)->tid);
	struct sa_group g;
	uint8_t method;
	const int rc = sa_group_parse(&g, &method, mad);

	if (rc == -EPROTO || method != METHOD_GET_RESP)
		return;
	list_for(n, &cm->members)
	{
		struct cm_member *m = container_of(n, struct cm_member, node);

		if (m->ask.tid == tid && heap_has(&m->ask.timer) &&
		    (rc || (g.mlid && is_of(m, &g)))) {
			tell(cm, m, rc, rc ? NULL : &g);
			break;
		}
	}
}

void cm_reregister(struct cm *cm, uint64_t now)
{
	list_for(n, &cm->members)
	{
		struct cm_member *m = container_of(n, struct cm_member, node);

		sa_ask_begin(cm, &m->ask, m->patience_ns, now);
	}
}

void group_close(struct cm *cm)
{
	list_for_safe(n, &cm->members) end(cm, container_of(n, struct cm_member, node));
}
