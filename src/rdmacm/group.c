/* SPDX-License-Identifier: BSD-2-Clause */
/* group.c - see group.h. */
#include "rdmacm/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/qp_state.h"
#include "sys/sockaddr.h"

enum { QPN_MULTICAST = 0xffffff };

struct cma_group {
	struct list node;
	struct cma_id *id;
	union ibv_gid gid;
	struct sockaddr_storage addr;
	void *context;
	bool attached, send_only;
};

/* The program is about to read that it has joined. */
void cma_group_joined(struct cma_event *e)
{
	struct cma_group *g = e->group;
	struct cma_id *id = g->id;
	struct rdma_ud_param *ud = &e->ev.param.ud;

	if (e->ev.event != RDMA_CM_EVENT_MULTICAST_JOIN)
		return;
	memset(&e->ev.param, 0, sizeof(e->ev.param));
	ud->private_data = g->context;
	ud->qp_num = QPN_MULTICAST;
	ud->qkey = id->qkey;
	cma_fill_ah(id, g->gid.raw, &ud->ah_attr);
	if (!id->id.qp || g->send_only)
		return;
	if (ibv_attach_mcast(id->id.qp, &g->gid, 0)) {
		e->ev.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->ev.status = -errno;
		return;
	}
	g->attached = true;
}

static bool is_multicast(const uint8_t ip[16], sa_family_t family)
{
	return family == AF_INET ? ip[12] >> 4 == 0xe : ip[0] == 0xff;
}

int cma_join(struct cma_id *id, const struct sockaddr *addr, bool send_only,
	     void *context)
{
	struct cma_group *g;
	uint8_t ip[16];
	int rc;

	if (!id->dev)
		return -EINVAL;
	if (!addr || !sockaddr_len(addr))
		return -EAFNOSUPPORT;
	sockaddr_ip(addr, ip);
	if (!is_multicast(ip, addr->sa_family))
		return -EINVAL;
	if (id->dev->ib) /* its groups are the subnet manager's */
		return -EOPNOTSUPP;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->id = id;
	memcpy(g->gid.raw, ip, 16);
	memcpy(&g->addr, addr, sockaddr_len(addr));
	g->context = context;
	g->send_only = send_only;
	list_add_tail(&id->groups, &g->node);
	rc = cma_post(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, g);
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

static void leave(struct cma_group *g)
{
	struct cma_id *id = g->id;
	struct list unread;

	list_init(&unread);
	cma_take_back(&id->source, g, &unread);
	list_for_safe(n, &unread) free(container_of(n, struct cma_event, node));
	if (g->attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &g->gid, 0);
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
		leave(g);
		return 0;
	}
	return -EADDRNOTAVAIL;
}

void cma_leave_all(struct cma_id *id)
{
	list_for_safe(n, &id->groups) leave(container_of(n, struct cma_group, node));
}
