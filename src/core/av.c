/* SPDX-License-Identifier: BSD-2-Clause */
/* av.c - see av.h. */
#include "core/av.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/device.h"
#include "core/mr.h"
#include "sys/log.h"

enum { HOP_LIMIT = 64, SL_MAX = 15, FLOW_LABEL = 0xfffff };

struct ah *ah_of(struct ibv_ah *ibv)
{
	return container_of(ibv, struct ah, ibv);
}

static bool is_zero(const uint8_t ip[16])
{
	static const uint8_t zero[16];

	return memcmp(ip, zero, 16) == 0;
}

/* Does an address mean something on one interface only?  Else the kernel
 * routes by the address: also to another interface's address on this host. */
static bool is_scoped(const uint8_t ip[16])
{
	return gid_is_multicast(ip) || addr_is_link_local(ip);
}

/* Why attr is no way to anywhere, or NULL. */
static const char *refuse(struct device *dev, const struct ibv_ah_attr *attr,
			  struct gid_entry *sgid)
{
	const uint8_t *dgid = attr->grh.dgid.raw;

	if (!attr->is_global)
		return "RoCE needs a GRH (is_global): tell the program which "
		       "GID to use, as with ibv_rc_pingpong -g 1";
	if (attr->port_num != 1)
		return "no such port";
	if (attr->sl > SL_MAX)
		return "the service level is above 15";
	if (is_zero(dgid))
		return "the destination GID is zero";
	if (device_query_gid(dev, 1, attr->grh.sgid_index, sgid) || !sgid->used)
		return "there is no GID at sgid_index";
	if (!gid_is_multicast(dgid) && addr_is_v4(dgid) != addr_is_v4(sgid->gid.raw))
		return "source and destination GID are of different IP versions";
	return NULL;
}

int av_resolve(struct device *dev, const struct ibv_ah_attr *attr, struct av *av)
{
	struct gid_entry sgid;
	const char *why = refuse(dev, attr, &sgid);

	if (why) {
		/* The first of these everybody meets who is new to RoCE. */
		log_line(attr->is_global ? LOG_INFO : LOG_WARN,
			 "%s: address (sgid_index %u, port %u) refused: %s",
			 dev->ibv.name, attr->grh.sgid_index, attr->port_num, why);
		return -EINVAL;
	}
	*av = (struct av){
		.ifindex = is_scoped(attr->grh.dgid.raw) ? sgid.ifindex : 0,
		.sgid_index = attr->grh.sgid_index,
		.tclass = attr->grh.traffic_class,
		.hop_limit = attr->grh.hop_limit,
		.sl = attr->sl,
		.flow_label = attr->grh.flow_label & FLOW_LABEL,
	};
	/* Programs say 0 or 1, and rely on the kernel, which takes the hop
	 * limit of RoCE v2 from the route. */
	if (av->hop_limit <= 1 && !gid_is_multicast(attr->grh.dgid.raw))
		av->hop_limit = HOP_LIMIT;
	if (av->hop_limit == 0)
		av->hop_limit = 1;
	memcpy(av->sgid, sgid.gid.raw, 16);
	memcpy(av->dgid, attr->grh.dgid.raw, 16);
	return 0;
}

static struct ah *new_ah(void)
{
	struct live *l = live_rested();

	return l ? container_of(l, struct ah, live) : calloc(1, sizeof(struct ah));
}

int ah_create(struct pd *pd, struct device *dev, const struct ibv_ah_attr *attr,
	      struct ah **out)
{
	struct core *core = pd->core;
	struct ah *ah;
	struct av av;
	int rc = device_is_iwarp(dev) ? -EOPNOTSUPP : av_resolve(dev, attr, &av);

	if (rc)
		return rc;
	rc = count_up(&core->ahs, caps.max_ah);
	if (rc)
		return rc;
	ah = new_ah();
	if (!ah) {
		count_down(&core->ahs);
		return -ENOMEM;
	}
	atomic_fetch_add(&pd->users, 1);
	ah->pd = pd;
	ah->av = av;
	ah->attr = *attr;
	ah->ibv = (struct ibv_ah){
		.context = pd->ibv.context,
		.pd = &pd->ibv,
		.handle = core_handle(core),
	};
	live_add(&ah->live, LIVE_AH, ah->ibv.context);
	*out = ah;
	return 0;
}

int ah_destroy(struct ah *ah)
{
	live_del(&ah->live);
	atomic_fetch_sub(&ah->pd->users, 1);
	count_down(&ah->pd->core->ahs);
	live_rest(&ah->live);
	return 0;
}
