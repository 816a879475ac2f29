/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c - see device.h.  The GID table is in gid.c. */
#include "core/device.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/rq.h"
#include "sys/ident.h"

#ifndef URNIC_VERSION
#define URNIC_VERSION "unknown"
#endif

const struct caps caps = {
	.max_qp = QPN_INDICES - QPN_FIRST - QPN_REST,
	.max_qp_wr = 32768,
	.max_sge = SGE_MAX,
	.max_sge_rd = SGE_MAX,
	.max_cq = 1 << 20,
	.max_cqe = (1 << 22) - 1,
	.max_mr = 1 << 23,
	.max_pd = 1 << 16,
	.max_srq = QPN_INDICES - 2,
	.max_srq_wr = 32768,
	.max_srq_sge = SGE_MAX,
	.max_inline = 1024,
	.max_ah = 1 << 20,
	.max_mw = 1 << 22,
	.max_mcast_grp = 8192,
	.max_mcast_qp_attach = 240,
	.max_dm = 1 << 20,
	.max_rd_atomic = 128, /* as rxe: perftest takes the peer's */
	.max_msg = 0x7fffffff,
};

static_assert((1 << 23) + (1 << 22) < 1 << MKEY_INDEX_BITS,
	      "a key for every region and window");

const struct identity identity_default = {
	.vendor_id = IDENT_VENDOR,
	.vendor_part_id = IDENT_PART,
	.hw_ver = IDENT_HW,
	.fw_ver = "urnic-" URNIC_VERSION,
	.speed = 32, /* EDR, 25 Gb/s a lane */
	.width = 1,  /* 1x */
};

struct device *device_of(struct ibv_device *ibv)
{
	return container_of(ibv, struct device, ibv);
}

static uint64_t guid_from_mac(const uint8_t mac[6])
{
	const uint8_t eui[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff,
				 0xfe,	     mac[3], mac[4], mac[5] };
	uint64_t guid;

	memcpy(&guid, eui, sizeof(guid));
	return guid;
}

static void fill_ibv(struct ibv_device *ibv, const char *name, const char *netdev)
{
	static atomic_uint number;
	bool iwarp = ibv->transport_type == IBV_TRANSPORT_IWARP;

	ibv->node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
	if (*name)
		snprintf(ibv->name, sizeof(ibv->name), "%s", name);
	else
		snprintf(ibv->name, sizeof(ibv->name), "%s_%s", iwarp ? "iwarp" : "roce",
			 netdev);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u",
		 atomic_fetch_add(&number, 1));
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/%s",
		 ibv->dev_name);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s",
		 ibv->name);
}

static int create(const struct netdev *net, const struct identity *id,
		  enum ibv_transport_type transport, struct device **out)
{
	struct device *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return -ENOMEM;
	dev->id = id ? *id : identity_default;
	dev->guid = dev->id.guid ? dev->id.guid : guid_from_mac(net->mac);
	dev->ibv.transport_type = transport;
	if (transport == IBV_TRANSPORT_IB)
		dev->pkey[0] = PKEY_DEFAULT;
	fill_ibv(&dev->ibv, dev->id.name, net->name);
	list_init(&dev->node);
	lock_init(&dev->lock);
	device_update(dev, net);
	*out = dev;
	return 0;
}

int device_create(const struct netdev *net, const struct identity *id,
		  struct device **out)
{
	return create(net, id, IBV_TRANSPORT_IB, out);
}

int device_create_iwarp(const struct netdev *net, const struct identity *id,
			struct device **out)
{
	return create(net, id, IBV_TRANSPORT_IWARP, out);
}

/* What is not there without datagrams and without RNR. */
static void fill_iwarp_attr(struct ibv_device_attr *a)
{
	a->device_cap_flags &= ~(unsigned)IBV_DEVICE_RC_RNR_NAK_GEN;
	a->max_mcast_grp = a->max_mcast_qp_attach = a->max_total_mcast_qp_attach = 0;
	a->max_ah = 0;
	a->max_pkeys = 0;
	a->local_ca_ack_delay = 0;
}

static void fill_attr(const struct device *dev, struct ibv_device_attr *a)
{
	memcpy(a->fw_ver, dev->id.fw_ver, sizeof(a->fw_ver));
	a->node_guid = dev->guid;
	a->sys_image_guid = dev->guid;
	a->max_mr_size = UINT64_MAX;
	a->page_size_cap = 0xfffff000; /* 4 KiB and larger */
	a->vendor_id = dev->id.vendor_id;
	a->vendor_part_id = dev->id.vendor_part_id;
	a->hw_ver = dev->id.hw_ver;
	a->max_qp = (int)caps.max_qp;
	a->max_qp_wr = (int)caps.max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD |
			      IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			      IBV_DEVICE_MEM_MGT_EXTENSIONS;
	a->max_sge = (int)caps.max_sge;
	a->max_sge_rd = (int)caps.max_sge_rd;
	a->max_cq = (int)caps.max_cq;
	a->max_cqe = (int)caps.max_cqe;
	a->max_mr = (int)caps.max_mr;
	a->max_pd = (int)caps.max_pd;
	a->max_qp_rd_atom = caps.max_rd_atomic;
	a->max_qp_init_rd_atom = caps.max_rd_atomic;
	a->max_res_rd_atom = (int)(caps.max_rd_atomic * caps.max_qp);
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_mw = (int)caps.max_mw;
	a->max_mcast_grp = (int)caps.max_mcast_grp;
	a->max_mcast_qp_attach = (int)caps.max_mcast_qp_attach;
	a->max_total_mcast_qp_attach =
		(int)(caps.max_mcast_grp * caps.max_mcast_qp_attach);
	a->max_ah = (int)caps.max_ah;
	a->max_srq = (int)caps.max_srq;
	a->max_srq_wr = (int)caps.max_srq_wr;
	a->max_srq_sge = (int)caps.max_srq_sge;
	a->max_pkeys = PKEY_TABLE;
	a->local_ca_ack_delay = 15; /* 134 ms: a thread has to run */
	a->phys_port_cnt = 1;
	if (device_is_iwarp(dev))
		fill_iwarp_attr(a);
}

int device_query(struct device *dev, struct ibv_device_attr_ex *attr, size_t len)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
	const uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE;
	struct ibv_device_attr_ex a = {
		/* Nothing is pinned, so all memory is on demand. */
		.odp_caps = {
			.general_caps = IBV_ODP_SUPPORT |
					IBV_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps = {
				.rc_odp_caps = uc | IBV_ODP_SUPPORT_READ |
					       IBV_ODP_SUPPORT_ATOMIC |
					       IBV_ODP_SUPPORT_SRQ_RECV,
				.uc_odp_caps = uc,
				.ud_odp_caps = ud | IBV_ODP_SUPPORT_SRQ_RECV,
			},
		},
		.completion_timestamp_mask = UINT64_MAX,
		.hca_core_clock = 1000000,	/* kHz: nanoseconds */
		.phys_port_cnt_ex = 1,
		.max_dm_size = caps.max_dm,
	};

	if (device_is_iwarp(dev))
		a.odp_caps.per_transport_caps.uc_odp_caps =
			a.odp_caps.per_transport_caps.ud_odp_caps = 0;
	fill_attr(dev, &a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	memset(attr, 0, len);
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

enum ibv_mtu mtu_for_netdev(uint32_t netdev_mtu)
{
	/* IPv6, UDP, BTH, RETH, immediate, ICRC: what a full packet carries
	 * around its payload. */
	const uint32_t headers = 40 + 8 + 12 + 16 + 4 + 4;
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && mtu_bytes(mtu) + headers > netdev_mtu)
		mtu--;
	return mtu;
}

static void fill_iwarp_port(struct ibv_port_attr *a)
{
	a->pkey_tbl_len = 0;
	a->port_cap_flags = IBV_PORT_CM_SUP;
	a->flags = 0;
}

int device_query_port(struct device *dev, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	enum { LINK_UP = 5, DISABLED = 3 }; /* PortPhysicalState */
	struct ibv_port_attr a = {
		.max_mtu = IBV_MTU_4096,
		.gid_tbl_len = device_gids(dev),
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = caps.max_msg,
		.pkey_tbl_len = PKEY_TABLE,
		.max_vl_num = 1, /* VL0 */
		.active_width = dev->id.width,
		.active_speed = dev->id.speed,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
		.bad_pkey_cntr = dev->pkey_violations,
		.qkey_viol_cntr = dev->qkey_violations,
	};
	bool up;

	if (port != 1)
		return -EINVAL;
	lock_take(&dev->lock);
	up = dev->present && dev->net.running;
	a.active_mtu = mtu_for_netdev(dev->net.mtu);
	lock_give(&dev->lock);
	a.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.phys_state = up ? LINK_UP : DISABLED;
	if (device_is_iwarp(dev))
		fill_iwarp_port(&a);
	memset(attr, 0, len);
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

int device_query_pkey(struct device *dev, uint8_t port, int index, uint16_t *pkey)
{
	if (port != 1 || index < 0 || index >= PKEY_TABLE)
		return -EINVAL;
	*pkey = dev->pkey[index];
	return 0;
}
