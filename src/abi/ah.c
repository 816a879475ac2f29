/* SPDX-License-Identifier: BSD-2-Clause */
/* ah.c - address handles, also from a datagram that was received. */
#include "verbs/path.h"

#include <string.h>

#include "abi/abi.h"
#include "abi/wc_path.h"
#include "driver/nic.h"
#include "verbs/device.h"
#include "verbs/mr.h"

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *ibv, struct ibv_ah_attr *attr)
{
	struct ibv_context *ctx;
	struct ah *ah;
	int rc;

	if (!GIVEN("create_ah", attr))
		return NULL;
	ctx = abi_enter_on(LIVE(pd_of, ibv), LIVE_PD, EINVAL);
	if (!ctx)
		return NULL;
	rc = ah_create(pd_of(ibv), &abi_of(ctx)->ctx, attr, &ah);
	if (!rc)
		ah->path.same_host = nic_same_host(abi_of(ctx)->nic, abi_of(ctx)->ctx.dev,
						   attr->grh.dgid.raw);
	return abi_leave(rc) ? NULL : &ah->ibv;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ibv)
{
	if (!abi_enter_on(LIVE(ah_of, ibv), LIVE_AH, ENOENT))
		return errno;
	return abi_leave(ah_destroy(ah_of(ibv)));
}

/* Returns the index of the local GID to which the datagram was sent, if possible of the
 * type by which it came. */
static int index_of(struct device *dev, uint8_t port, const struct wc_path *from)
{
	int other = -ENODEV;
	struct gid_entry e;

	for (int i = 0; i < device_gids(dev); i++)
		if (!device_query_gid(dev, port, i, &e) && e.used &&
		    !memcmp(&e.gid, &from->dgid, sizeof(e.gid))) {
			if (e.v1 == from->v1 && !e.said_v1)
				return i;
			other = i;
		}
	return other;
}

static int attr_from_wc(struct ibv_context *ibv, uint8_t port, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct wc_path from;
	int index, rc;

	if (!GIVEN("ah_from_wc", wc))
		return -EINVAL;
	if (!(wc->wc_flags & IBV_WC_GRH)) {
		if (device_needs_grh(abi_of(ibv)->ctx.dev))
			return -EINVAL;
		*attr = (struct ibv_ah_attr){
			.dlid = wc->slid,
			.sl = wc->sl,
			.src_path_bits = wc->dlid_path_bits,
			.port_num = port,
		};
		return 0;
	}
	rc = GIVEN("ah_from_wc", grh) ? wc_path_parse(grh, &from) : -EINVAL;
	if (rc)
		return rc;
	index = index_of(abi_of(ibv)->ctx.dev, port, &from);
	if (index < 0)
		return index;
	*attr = (struct ibv_ah_attr){
		.grh = {
			.dgid = from.sgid,
			.sgid_index = (uint8_t)index,
			.flow_label = from.flow_label,
			.traffic_class = from.tclass,
			.hop_limit = 255,
		},
		.sl = wc->sl,
		.src_path_bits = wc->dlid_path_bits,
		.is_global = 1,
		.port_num = port,
	};
	return 0;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *ibv, uint8_t port, struct ibv_wc *wc,
			       struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	if (!GIVEN("init_ah_from_wc", attr))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	return abi_leave(attr_from_wc(ibv, port, wc, grh, attr));
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
					    struct ibv_grh *grh, uint8_t port)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(pd_of, pd), LIVE_PD, EINVAL);
	struct ibv_ah_attr attr;

	if (!ctx || abi_leave(attr_from_wc(ctx, port, wc, grh, &attr)))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* Answers only what follows from the GID alone, as the kernel resolves Ethernet addresses
 * here. Nothing is asked of the network. */
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *ibv, struct ibv_ah_attr *attr,
				       uint8_t mac[6], uint16_t *vid)
{
	int rc;

	if (!GIVEN("resolve_eth_l2_from_gid", attr) ||
	    !GIVEN("resolve_eth_l2_from_gid", mac))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	rc = wc_path_mac(&attr->grh.dgid, mac);
	if (!rc && vid)
		*vid = 0xffff; /* no VLAN */
	return abi_leave(rc);
}
