/* SPDX-License-Identifier: BSD-2-Clause */
/* path.c - see path.h. */
#include "verbs/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/pd.h"
#include "verbs/rate.h"

enum { SL_MAX = 15, FLOW_LABEL = 0xfffff };

struct ah *ah_of(struct ibv_ah *ibv)
{
	return container_of(ibv, struct ah, ibv);
}

static const char no_gid[] = "there is no GID at sgid_index";
static const char no_grh[] =
	"RoCE needs a GRH (is_global): give the program a GID index (ibv_rc_pingpong -g N, "
	"perftest -x N) or let rdma_cm connect it (qperf -cm 1; qperf's tests of UC and UD "
	"cannot run on RoCE)";

/* Returns why attr leads to no peer, or NULL. */
static const char *refuse_attr(struct device *dev, const struct ibv_ah_attr *attr,
			       struct gid_entry *sgid)
{
	if (!attr->is_global && device_needs_grh(dev))
		return no_grh;
	if (attr->port_num != 1)
		return "no such port";
	if (attr->sl > SL_MAX)
		return "the service level is above 15";
	if (!device_needs_grh(dev) && attr->static_rate && !rate_mbps(attr->static_rate))
		return "static_rate is no rate";
	if (attr->is_global &&
	    (device_query_gid(dev, 1, attr->grh.sgid_index, sgid) || !sgid->used))
		return no_gid;
	return NULL;
}

/* Returns the source LID: the path bits choose one of the port's 2^LMC LIDs. */
static uint16_t slid_of(const struct device *dev, const struct ibv_ah_attr *attr)
{
	unsigned mask = (1u << device_lmc(dev)) - 1;

	return (uint16_t)((device_lid(dev) & ~mask) | (attr->src_path_bits & mask));
}

/* The static rate of an address in Mb/s. Ethernet devices ignore it, as Linux's
 * software devices do, and use the program's rate limit. */
static uint32_t static_rate(struct device *dev, const struct ibv_ah_attr *attr)
{
	const struct port port = device_port(dev);
	uint32_t own = rate_of_port(port.width, port.speed),
		 is = rate_mbps(attr->static_rate);

	return device_needs_grh(dev) || (own && is >= own) ? 0 : is;
}

static const char *resolve(const struct context *ctx, const struct ibv_ah_attr *attr,
			   struct link_addr *out)
{
	struct gid_entry sgid = { 0 };
	const char *why = refuse_attr(ctx->dev, attr, &sgid);
	const struct link_to to = {
		.grh = attr->is_global,
		.sgid = sgid.gid.raw,
		.dgid = attr->grh.dgid.raw,
		.slid = slid_of(ctx->dev, attr),
		.dlid = attr->dlid,
		.sl = attr->sl,
		.tclass = attr->grh.traffic_class,
		.hop_limit = attr->grh.hop_limit,
		.flow_label = attr->grh.flow_label & FLOW_LABEL,
		.port = sgid.ifindex,
		/* A path within the host does not use Ethernet, so never RoCE v1. */
		.v1 = sgid.v1 && !device_has_gid(ctx->dev, attr->grh.dgid.raw),
	};

	return why ? why : ctx->link->ops->resolve(&to, out);
}

/* Of the GIDs of RoCE v2 or InfiniBand, that of an IPv4 address if there is one, else the
 * first. Returns its index, or -1. */
static int best_gid(struct device *dev, struct gid_entry *gid)
{
	static const uint8_t v4[12] = { [10] = 0xff, 0xff };
	struct gid_entry e;
	int best = -1;

	for (int i = 0; i < device_gids(dev); i++) {
		if (device_query_gid(dev, 1, i, &e) || !e.used || gid_is_v1(&e))
			continue;
		if (best >= 0 && memcmp(e.gid.raw, v4, sizeof(v4)) != 0)
			continue;
		best = i;
		*gid = e;
		if (!memcmp(e.gid.raw, v4, sizeof(v4)))
			break;
	}
	return best;
}

/* "; use GID index 1 (192.0.2.1)" */
static void name_best_gid(struct device *dev, char *text, size_t size)
{
	char ip[INET6_ADDRSTRLEN];
	struct gid_entry gid;
	int index = best_gid(dev, &gid);

	if (index < 0)
		snprintf(text, size, "; the device has no GID");
	else
		snprintf(text, size, "; use GID index %d (%s); urnic devices lists all",
			 index, addr_text(gid.gid.raw, ip));
}

int path_resolve(const struct context *ctx, const struct ibv_ah_attr *attr,
		 struct path *path)
{
	struct link_addr addr;
	const char *why = resolve(ctx, attr, &addr);

	if (why) {
		/* Logged once per device at a higher level: a wrong GID index, or
		 * none, is the usual first mistake with RoCE. */
		char cure[128] = "";
		bool first = (!attr->is_global || why == no_gid) &&
			     !atomic_exchange(&ctx->dev->gid_told, true);

		if (why == no_gid || why == no_grh)
			name_best_gid(ctx->dev, cure, sizeof(cure));
		log_at(first ? LOG_WARN : LOG_INFO,
		       "%s: address (sgid_index %u, port %u) refused: %s%s",
		       ctx->dev->ibv.name, attr->grh.sgid_index, attr->port_num, why,
		       cure);
		return -EINVAL;
	}
	*path = (struct path){ .link = ctx->link,
			       .addr = addr,
			       .rate = static_rate(ctx->dev, attr),
			       .sl = attr->sl };
	return 0;
}

static struct ah *new_ah(void)
{
	struct live *l = live_rested();

	return l ? container_of(l, struct ah, live) : calloc(1, sizeof(struct ah));
}

int ah_create(struct pd *pd, const struct context *ctx, const struct ibv_ah_attr *attr,
	      struct ah **out)
{
	struct core *core = pd->core;
	struct path path;
	struct ah *ah;
	int rc = ctx->dev->kind->datagrams ? path_resolve(ctx, attr, &path) : -EOPNOTSUPP;

	if (rc)
		return rc;
	rc = count_up(&core->counts.ahs, caps.max_ah);
	if (rc)
		return rc;
	ah = new_ah();
	if (!ah) {
		count_down(&core->counts.ahs);
		return -ENOMEM;
	}
	ah->pd = pd_proper(pd);
	pd_use(pd);
	ah->path = path;
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
	count_down(&ah->pd->core->counts.ahs);
	pd_unuse(pd_of(ah->ibv.pd));
	live_rest(&ah->live);
	return 0;
}
