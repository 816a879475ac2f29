/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c - see group.h. */
#include "rdmacm/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/bind.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/id.h"
#include "rdmacm/resolve.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

enum { QPN_MULTICAST = 0xffffff };
static const uint64_t PATIENCE_NS = UINT64_C(6000000000);

struct cma_group {
	struct list node;
	struct cma_id *id;
	/* At an adapter: the group's properties, as the SA reports them. */
	struct cm_owner owner;
	struct cm_member *member;
	struct sa_group as;
	union ibv_gid gid;
	struct sockaddr_storage addr;
	void *context;
	bool attached, send_only;
};

/* Called by the engine, under its turn. */
static bool join_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct cma_group *g = container_of(owner, struct cma_group, owner);

	if (ev->group)
		g->as = *ev->group;
	return cma_post(g->id,
			ev->status ? RDMA_CM_EVENT_MULTICAST_ERROR
				   : RDMA_CM_EVENT_MULTICAST_JOIN,
			ev->status, g) == 0;
}

/* An InfiniBand group has a LID, and its packets have a GRH. */
static void fill_ib(struct cma_group *g, struct rdma_ud_param *ud)
{
	const struct sa_group *as = &g->as;

	memcpy(g->gid.raw, as->mgid, sizeof(g->gid.raw)); /* the SA may have chosen it */
	ud->qkey = as->qkey;
	ud->ah_attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = g->id->id.port_num,
		.dlid = as->mlid,
		.sl = as->sl,
		.static_rate = as->rate,
		.grh = { .dgid = g->gid,
			 .sgid_index = (uint8_t)g->id->sgid_index,
			 .flow_label = as->flow_label,
			 .hop_limit = as->hop_limit,
			 .traffic_class = as->tclass },
	};
}

void cma_group_joined(struct cma_event *e)
{
	struct cma_group *g = e->group;
	struct cma_id *id = g->id;
	struct rdma_ud_param *ud = &e->ev.param.ud;

	memset(&e->ev.param, 0, sizeof(e->ev.param));
	ud->private_data = g->context;
	if (e->ev.event != RDMA_CM_EVENT_MULTICAST_JOIN)
		return;
	ud->qp_num = QPN_MULTICAST;
	ud->qkey = id->qkey;
	cma_fill_ah(id, g->gid.raw, &ud->ah_attr);
	if (g->member)
		fill_ib(g, ud);
	if (!id->id.qp || g->send_only)
		return;
	if (ibv_attach_mcast(id->id.qp, &g->gid, g->as.mlid)) {
		e->ev.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->ev.status = -errno;
		return;
	}
	g->attached = true;
}

/* At an adapter the wildcard is allowed: the SA then chooses the group's GID. */
static bool may_join(const struct cma_id *id, const struct sockaddr *a)
{
	uint8_t ip[16];

	sockaddr_ip(a, ip);
	return addr_is_multicast(ip) || (id->dev->ib && cma_is_any(a));
}

static int join_ib(struct cma_group *g, const struct sockaddr *addr)
{
	struct cma_id *id = g->id;
	struct sa_group want = {
		.qkey = id->qkey,
		.pkey = cma_pkey(id),
		.join_state = g->send_only ? SA_SEND_ONLY_FULL_MEMBER : SA_FULL_MEMBER,
	};

	memcpy(want.port_gid, id->to.route.src, sizeof(want.port_gid));
	if (!cma_is_any(addr))
		cma_mgid(id->id.ps, want.pkey, addr, want.mgid);
	g->owner.event = join_event;
	return cm_gate_join(id->ctx, &want, PATIENCE_NS, &g->owner, &g->member);
}

int cma_join(struct cma_id *id, const struct sockaddr *addr, bool send_only,
	     void *context)
{
	struct cma_group *g;
	int rc;

	if (!id->dev)
		return cma_not_now(id);
	if (!addr || !sockaddr_len(addr))
		return -EAFNOSUPPORT;
	if (!may_join(id, addr))
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->id = id;
	sockaddr_ip(addr, g->gid.raw);
	memcpy(&g->addr, addr, sockaddr_len(addr));
	g->context = context;
	g->send_only = send_only;
	list_add_tail(&id->groups, &g->node);
	rc = id->dev->ib ? join_ib(g, addr)
			 : cma_post(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, g);
	if (rc) {
		list_del(&g->node);
		free(g);
	}
	return rc;
}

int cma_join_ex(struct cma_id *id, const struct rdma_cm_join_mc_attr_ex *attr,
		void *context)
{
	if (!attr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) ||
	    !(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return cma_join(id, attr->addr,
			attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
			context);
}

static void leave_group(struct cma_group *g)
{
	struct cma_id *id = g->id;
	struct list unread;

	if (g->member)
		cm_gate_part(id->ctx, g->member);
	list_init(&unread);
	cma_take_back(&id->source, g, &unread);
	list_for_safe(n, &unread) free(container_of(n, struct cma_event, node));
	if (g->attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &g->gid, g->as.mlid);
	list_del(&g->node);
	free(g);
}

int cma_leave(struct cma_id *id, const struct sockaddr *addr)
{
	if (!addr || !sockaddr_len(addr))
		return -EINVAL;
	list_for_safe(n, &id->groups)
	{
		struct cma_group *g = container_of(n, struct cma_group, node);

		if (memcmp(&g->addr, addr, sockaddr_len(addr)))
			continue;
		leave_group(g);
		return 0;
	}
	return -EADDRNOTAVAIL;
}

void cma_leave_all(struct cma_id *id)
{
	list_for_safe(n, &id->groups)
		leave_group(container_of(n, struct cma_group, node));
}
