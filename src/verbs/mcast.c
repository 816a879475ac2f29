/* SPDX-License-Identifier: BSD-2-Clause */
/* mcast.c - which UD QPs are in which multicast group (IBTA vol. 1, 10.5).
 *
 * core->mcast changes under the turn and core->lock, so either is enough to
 * read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/mcast.h"
#include "verbs/qp.h"

struct group {
	struct list node; /* in core->mcast */
	uint8_t gid[16];
	struct list members;
	uint32_t count;
};

struct member {
	struct list node;
	struct qp *qp;
};

static struct group *find_group(struct core *core, const uint8_t gid[16])
{
	list_for(n, &core->mcast)
	{
		struct group *g = container_of(n, struct group, node);

		if (memcmp(g->gid, gid, sizeof(g->gid)) == 0)
			return g;
	}
	return NULL;
}

static struct member *find_member(struct group *g, const struct qp *qp)
{
	list_for(n, &g->members)
	{
		struct member *m = container_of(n, struct member, node);

		if (m->qp == qp)
			return m;
	}
	return NULL;
}

static struct group *add_group(struct core *core, const uint8_t gid[16])
	REQUIRES(core->turn, core->lock)
{
	struct group *g;
	uint32_t count = 0;

	list_for(n, &core->mcast) count++;
	g = count < caps.max_mcast_grp ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return NULL;
	memcpy(g->gid, gid, sizeof(g->gid));
	list_init(&g->members);
	list_add_tail(&core->mcast, &g->node);
	return g;
}

static void drop_if_empty(struct group *g)
{
	if (g->count)
		return;
	list_del(&g->node);
	free(g);
}

/* A QP that joins a group twice is in it once, as in the kernel. */
static int attach_group(struct core *core, struct qp *qp, const uint8_t gid[16])
	REQUIRES(core->turn, core->lock)
{
	struct group *g = find_group(core, gid);
	struct member *m;

	if (like_lacks(LIKE_MCAST, "attach_mcast"))
		return -EOPNOTSUPP;
	if (!g)
		g = add_group(core, gid);
	if (!g)
		return -ENOMEM;
	if (find_member(g, qp))
		return 1;
	m = g->count < caps.max_mcast_qp_attach ? calloc(1, sizeof(*m)) : NULL;
	if (!m) {
		drop_if_empty(g);
		return -ENOMEM;
	}
	m->qp = qp;
	list_add_tail(&g->members, &m->node);
	g->count++;
	return 0;
}

static int detach(struct core *core, struct qp *qp, const uint8_t gid[16])
	REQUIRES(core->turn, core->lock)
{
	struct group *g = find_group(core, gid);
	struct member *m = g ? find_member(g, qp) : NULL;

	if (!m)
		return -EINVAL;
	list_del(&m->node);
	free(m);
	g->count--;
	drop_if_empty(g);
	return 0;
}

bool mcast_leave(struct qp *qp, union ibv_gid *gid)
{
	struct core *core = qp->core;
	bool left = false;

	turn_take(&core->turn);
	lock_take(&core->lock);
	list_for(n, &core->mcast)
	{
		struct group *g = container_of(n, struct group, node);

		if (!find_member(g, qp))
			continue;
		memcpy(gid->raw, g->gid, sizeof(gid->raw));
		left = !detach(core, qp, gid->raw);
		break;
	}
	lock_give(&core->lock);
	turn_give(&core->turn);
	return left;
}

static int change_group(struct qp *qp, const union ibv_gid *gid,
			int (*how)(struct core *, struct qp *, const uint8_t *))
{
	struct core *core = qp->core;
	int rc;

	if (qp->ctx->dead)
		return -EIO;
	if (!qp->dev->kind->datagrams)
		return -EOPNOTSUPP;
	if (qp->type != IBV_QPT_UD || !gid || !addr_is_multicast(gid->raw)) {
		log_info("QP 0x%06x: multicast needs a UD QP and a multicast GID",
			 qp->qpn);
		return -EINVAL;
	}
	turn_take(&core->turn);
	lock_take(&core->lock);
	rc = how(core, qp, gid->raw);
	lock_give(&core->lock);
	turn_give(&core->turn);
	return rc;
}

int mcast_attach(struct qp *qp, const union ibv_gid *gid)
{
	return change_group(qp, gid, attach_group);
}

int mcast_detach(struct qp *qp, const union ibv_gid *gid)
{
	return change_group(qp, gid, detach);
}

bool mcast_any(struct core *core, const struct qp *qp)
{
	list_for(n, &core->mcast) if (find_member(container_of(n, struct group, node),
						  qp)) return true;
	return false;
}

void mcast_for_each(struct core *core, const uint8_t gid[16],
		    void (*fn)(struct qp *qp, void *arg), void *arg)
{
	struct group *g = find_group(core, gid);

	if (!g)
		return;
	list_for(n, &g->members) fn(container_of(n, struct member, node)->qp, arg);
}
