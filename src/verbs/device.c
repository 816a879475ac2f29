/* SPDX-License-Identifier: BSD-2-Clause */
/* device.c - see device.h. */
#include "verbs/device.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/ident.h"
#include "sys/like.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/flush.h"
#include "verbs/limits.h"
#include "verbs/qp_state.h"
#include "verbs/wr_op.h"

#ifndef URNIC_VERSION
#define URNIC_VERSION "unknown"
#endif

struct caps caps = {
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
	.max_rd_atomic = 128, /* as rxe has; perftest adapts to the peer's value */
	.max_dest_rd_atomic = 128,
	.atomic_cap = IBV_ATOMIC_HCA,
	.max_msg = 0x7fffffff,
	.max_mr_size = UINT64_MAX,
	.max_gids = GID_TABLE,
};

static_assert((1 << 23) + (1 << 22) < 1 << MKEY_INDEX_BITS,
	      "a key for every region and window");

const struct identity identity_default = {
	.vendor_id = IDENT_VENDOR,
	.vendor_part_id = IDENT_PART,
	.hw_ver = IDENT_HW,
	.fw_ver = "urnic-" URNIC_VERSION,
	.speed = 32, /* EDR, 25 Gb/s per lane */
	.width = 1,  /* 1x */
};

struct identity identity_of(const struct ident *ident)
{
	struct identity id = {
		.vendor_id = ident->vendor_id,
		.vendor_part_id = ident->vendor_part_id,
		.hw_ver = ident->hw_ver,
		.speed = ident->speed,
		.width = ident->width,
	};

	memcpy(id.fw_ver, ident->fw_ver, sizeof(id.fw_ver));
	return id;
}

struct device *device_of(struct ibv_device *ibv)
{
	return container_of(ibv, struct device, ibv);
}

/* --- kinds --------------------------------------------------------------- */

#define ODP_UD (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV)
#define ODP_UC (ODP_UD | IBV_ODP_SUPPORT_WRITE)

enum {
	IB_QPS = 1 << IBV_QPT_RC | 1 << IBV_QPT_UC | 1 << IBV_QPT_UD |
		 1 << IBV_QPT_XRC_SEND | 1 << IBV_QPT_XRC_RECV,
};

const struct device_kind device_roce = {
	.id = KIND_ROCE,
	.prefix = "roce",
	.word = "RoCE v2",
	.shares = true,
	.node_type = IBV_NODE_CA,
	.transport = IBV_TRANSPORT_IB,
	.qp_types = IB_QPS | 1 << IBV_QPT_RAW_PACKET,
	.tag_matching = true,
	.datagrams = true,
	.ack_delay = 15, /* 134 ms: a thread has to be scheduled to send the ACK */
	.odp_uc = ODP_UC,
	.odp_ud = ODP_UD | IBV_ODP_SUPPORT_SRQ_RECV,
	.arrows = &qp_arrows_ib,
};

/* The transport of RoCE, but the port belongs to a fabric and packets travel only
 * through that fabric. */
const struct device_kind device_ib = {
	.id = KIND_IB,
	.prefix = "ib",
	.word = "InfiniBand",
	.node_type = IBV_NODE_CA,
	.transport = IBV_TRANSPORT_IB,
	.qp_types = IB_QPS,
	.tag_matching = true,
	.datagrams = true,
	.ack_delay = 15,
	.odp_uc = ODP_UC,
	.odp_ud = ODP_UD | IBV_ODP_SUPPORT_SRQ_RECV,
	.arrows = &qp_arrows_ib,
};

/* iWARP has no datagrams and no RNR. */
const struct device_kind device_iwarp = {
	.id = KIND_IWARP,
	.prefix = "iwarp",
	.word = "iWARP",
	.named = true,
	.mac_gid = true,
	.node_type = IBV_NODE_RNIC,
	.transport = IBV_TRANSPORT_IWARP,
	.qp_types = 1 << IBV_QPT_RC,
	.wr_type = WR_TYPE_IWARP,
	.no_caps = IBV_DEVICE_RC_RNR_NAK_GEN,
	.arrows = &qp_arrows_iwarp,
	.cm_only = true,
};

unsigned kind_qp_types(const struct device_kind *kind)
{
	return kind->qp_types & ~caps.lacks_qp_types;
}

/* --- making one ---------------------------------------------------------- */

static void fill_ibv(struct device *dev, const char *suffix)
{
	static atomic_uint number;
	struct ibv_device *ibv = &dev->ibv;

	ibv->node_type = dev->kind->node_type;
	ibv->transport_type = dev->kind->transport;
	if (*dev->id.name)
		snprintf(ibv->name, sizeof(ibv->name), "%s", dev->id.name);
	else
		snprintf(ibv->name, sizeof(ibv->name), "%s_%s", dev->kind->prefix,
			 suffix);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u",
		 atomic_fetch_add(&number, 1));
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/%s",
		 ibv->dev_name);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s",
		 ibv->name);
}

void device_init_port(struct device *dev, const struct port *port)
{
	dev->link_layer = port->link_layer;
	lock_init(&dev->lock);
	device_fill(dev, port);
}

void device_init(struct device *dev, const struct device_kind *kind, const char *suffix,
		 uint64_t guid, const struct port *port, const struct identity *id)
{
	dev->kind = kind;
	dev->id = id ? *id : identity_default;
	dev->guid = dev->id.guid ? dev->id.guid : guid;
	fill_ibv(dev, suffix);
	list_init(&dev->node);
	device_init_port(dev, port);
}

/* What ports are asked to say. */
static _Atomic enum device_asked ports_asked;

void device_ask(enum device_asked asked)
{
	atomic_store(&ports_asked, asked);
}

/* Writes what is said of the port into *port. */
static void say_asked(const struct device *dev, struct port *port)
{
	const enum device_asked asked = atomic_load(&ports_asked);
	const bool up = asked == DEVICE_UP;

	port->active = dev->own_active;
	port->state = dev->own_state;
	if (asked == DEVICE_OWN)
		return;
	port->active = up;
	if (port->state) /* InfiniBand's own */
		port->state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
}

unsigned device_say(struct device *dev)
{
	struct port port;
	unsigned what;

	lock_take(&dev->lock);
	port = dev->port;
	say_asked(dev, &port);
	what = port_changes(&dev->port, &port);
	dev->port = port;
	lock_give(&dev->lock);
	return what;
}

unsigned device_fill(struct device *dev, const struct port *port)
{
	struct port said = *port;
	unsigned what;

	lock_take(&dev->lock);
	dev->own_active = port->active;
	dev->own_state = port->state;
	say_asked(dev, &said);
	what = port_changes(&dev->port, &said);
	dev->port = said;
	for (int i = 0; i < PKEY_TABLE; i++)
		dev->pkey[i] = port->pkey[i];
	dev->lids = (uint32_t)port->lmc << 16 | port->lid;
	dev->number = port->number;
	lock_give(&dev->lock);
	return what;
}

/* --- attributes ---------------------------------------------------------- */

static void without_datagrams(struct ibv_device_attr *a)
{
	a->max_mcast_grp = a->max_mcast_qp_attach = a->max_total_mcast_qp_attach = 0;
	a->max_ah = 0;
	a->device_cap_flags &=
		~(unsigned)(IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR);
}

static bool has_not(enum like_feature f)
{
	return caps.lacks & 1u << f;
}

/* URNIC_LIKE: verbs/like.h */
static void without_what_lacks(struct ibv_device_attr *a)
{
	if (has_not(LIKE_SRQ)) {
		a->max_srq = a->max_srq_wr = a->max_srq_sge = 0;
		a->device_cap_flags &= ~(unsigned)IBV_DEVICE_SRQ_RESIZE;
	}
	if (has_not(LIKE_MCAST))
		a->max_mcast_grp = a->max_mcast_qp_attach = a->max_total_mcast_qp_attach =
			0;
	if (has_not(LIKE_MW)) {
		a->max_mw = 0;
		a->device_cap_flags &= ~(unsigned)(IBV_DEVICE_MEM_WINDOW |
						   IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	}
}

static void fill_attr(struct device *dev, struct ibv_device_attr *a)
{
	memcpy(a->fw_ver, dev->id.fw_ver, sizeof(a->fw_ver));
	a->node_guid = dev->guid;
	a->sys_image_guid = dev->guid;
	a->max_mr_size = caps.max_mr_size;
	a->page_size_cap = 0xfffff000; /* 4 KiB and larger */
	a->vendor_id = dev->id.vendor_id;
	a->vendor_part_id = dev->id.vendor_part_id;
	a->hw_ver = dev->id.hw_ver;
	a->max_qp = (int)caps.max_qp;
	a->max_qp_wr = (int)caps.max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD |
			      IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
			      IBV_DEVICE_MEM_MGT_EXTENSIONS;
	a->max_sge = (int)caps.max_sge;
	a->max_sge_rd = (int)caps.max_sge_rd;
	a->max_cq = (int)caps.max_cq;
	a->max_cqe = (int)caps.max_cqe;
	a->max_mr = (int)caps.max_mr;
	a->max_pd = (int)caps.max_pd;
	a->max_qp_rd_atom = caps.max_dest_rd_atomic;
	a->max_qp_init_rd_atom = caps.max_rd_atomic;
	a->max_res_rd_atom = (int)(caps.max_dest_rd_atomic * caps.max_qp);
	a->atomic_cap = caps.atomic_cap;
	a->max_mw = (int)caps.max_mw;
	a->max_mcast_grp = (int)caps.max_mcast_grp;
	a->max_mcast_qp_attach = (int)caps.max_mcast_qp_attach;
	a->max_total_mcast_qp_attach =
		(int)(caps.max_mcast_grp * caps.max_mcast_qp_attach);
	a->max_ah = (int)caps.max_ah;
	a->max_srq = (int)caps.max_srq;
	a->max_srq_wr = (int)caps.max_srq_wr;
	a->max_srq_sge = (int)caps.max_srq_sge;
	a->max_pkeys = (uint16_t)device_pkeys(dev);
	a->local_ca_ack_delay = dev->kind->ack_delay;
	a->phys_port_cnt = 1;
	if (kind_qp_types(dev->kind) & 1 << IBV_QPT_RAW_PACKET) {
		a->device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING;
		a->max_raw_ethy_qp = a->max_qp;
	}
	if (kind_qp_types(dev->kind) & 1 << IBV_QPT_XRC_RECV)
		a->device_cap_flags |= IBV_DEVICE_XRC;
	a->device_cap_flags &= ~dev->kind->no_caps;
	without_what_lacks(a);
	if (!dev->kind->datagrams)
		without_datagrams(a);
}

static const struct ibv_tm_caps tm_caps = {
	.max_rndv_hdr_size = TM_HEADERS,
	.max_num_tags = TM_TAGS,
	.flags = IBV_TM_CAP_RC,
	.max_ops = TM_OPS,
	.max_sge = TM_SGES,
};

int device_query(struct device *dev, struct ibv_device_attr_ex *attr, size_t len)
{
	struct ibv_device_attr_ex a = {
		/* Nothing is pinned, so all memory supports ODP. */
		.odp_caps = {
			.general_caps = IBV_ODP_SUPPORT |
					IBV_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps = {
				.rc_odp_caps = ODP_UC | IBV_ODP_SUPPORT_READ |
					       IBV_ODP_SUPPORT_ATOMIC |
					       IBV_ODP_SUPPORT_SRQ_RECV,
				.uc_odp_caps = dev->kind->odp_uc,
				.ud_odp_caps = dev->kind->odp_ud,
			},
		},
		.completion_timestamp_mask = UINT64_MAX,
		.hca_core_clock = 1000000,	/* kHz: nanoseconds */
		.phys_port_cnt_ex = 1,
		.max_dm_size = caps.max_dm,
	};

	if (dev->kind->tag_matching && !has_not(LIKE_TM))
		a.tm_caps = tm_caps;
	if (has_not(LIKE_ODP))
		memset(&a.odp_caps, 0, sizeof(a.odp_caps));
	fill_attr(dev, &a.orig_attr);
	if (a.orig_attr.device_cap_flags & IBV_DEVICE_XRC)
		a.xrc_odp_caps = a.odp_caps.per_transport_caps.rc_odp_caps;
	if (a.orig_attr.max_raw_ethy_qp)
		a.packet_pacing_caps = (struct ibv_packet_pacing_caps){
			.qp_rate_limit_min = 1, /* kb/s */
			.qp_rate_limit_max = UINT32_MAX,
			.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
		};
	if (a.orig_attr.max_raw_ethy_qp) {
		a.raw_packet_caps = IBV_RAW_PACKET_CAP_CVLAN_STRIPPING |
				    IBV_RAW_PACKET_CAP_SCATTER_FCS;
		a.max_wq_type_rq = caps.max_qp;
		a.rss_caps = (struct ibv_rss_caps){
			.supported_qpts = 1 << IBV_QPT_RAW_PACKET,
			.max_rwq_indirection_tables = RSS_TABLES,
			.max_rwq_indirection_table_size = RSS_TABLE_MAX,
			.rx_hash_fields_mask = RSS_FIELDS,
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		};
	}
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	a.device_cap_flags_ex |=
		wr_claims(dev->kind->wr_type ? dev->kind->wr_type : IBV_QPT_RC);
	if (has_not(LIKE_DM))
		a.max_dm_size = 0;
	memset(attr, 0, len);
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

struct port device_port(struct device *dev)
{
	struct port port;

	lock_take(&dev->lock);
	port = dev->port;
	lock_give(&dev->lock);
	return port;
}

void device_tell_port(struct device *dev, uint8_t port)
{
	if (port > 1 && port <= dev->ports && !atomic_exchange(&dev->port_told, true))
		log_warn("%s: port %u is refused: its adapter has %u ports in the "
			 "fabric, but a verbs device has the first one only",
			 dev->ibv.name, port, dev->ports);
}

int device_query_port(struct device *dev, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	enum { LINK_UP = 5, DISABLED = 3 }; /* PortPhysicalState */
	const struct port p = device_port(dev);
	const struct ibv_port_attr a = {
		.state = p.state    ? p.state
			 : p.active ? IBV_PORT_ACTIVE
				    : IBV_PORT_DOWN,
		.max_mtu = p.max_mtu,
		.active_mtu = p.active_mtu,
		.gid_tbl_len = (int)p.gids,
		.port_cap_flags = p.cap_flags,
		.max_msg_sz = caps.max_msg,
		.bad_pkey_cntr = dev->pkey_violations,
		.qkey_viol_cntr = dev->qkey_violations,
		.pkey_tbl_len = (uint16_t)p.pkeys,
		.lid = p.lid,
		.sm_lid = p.sm_lid,
		.lmc = p.lmc,
		.max_vl_num = p.max_vl ? p.max_vl : 1, /* VL0 */
		.subnet_timeout = p.subnet_timeout,
		.sm_sl = p.sm_sl,
		.active_width = p.width,
		.active_speed = p.speed,
		.phys_state = p.phys_state ? p.phys_state
			      : p.active   ? LINK_UP
					   : DISABLED,
		.link_layer = p.link_layer,
		/* iWARP also runs on Ethernet but has no GRH. */
		.flags = dev->kind->datagrams && device_needs_grh(dev)
				 ? IBV_QPF_GRH_REQUIRED
				 : 0,
	};

	if (port != 1) {
		device_tell_port(dev, port);
		return -EINVAL;
	}
	memset(attr, 0, len);
	memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	return 0;
}

unsigned device_pkeys(struct device *dev)
{
	unsigned n;

	lock_take(&dev->lock);
	n = dev->port.pkeys;
	lock_give(&dev->lock);
	return n;
}

int device_find_pkey(struct device *dev, uint16_t pkey)
{
	unsigned at, n;

	lock_take(&dev->lock);
	n = dev->port.pkeys;
	at = pkey_find(dev->port.pkey, n, pkey);
	lock_give(&dev->lock);
	return at < n ? (int)at : -1;
}

int device_query_pkey(struct device *dev, uint8_t port, int index, uint16_t *pkey)
{
	if (port != 1 || index < 0 || (unsigned)index >= device_pkeys(dev))
		return -EINVAL;
	*pkey = dev->pkey[index];
	return 0;
}

int device_gids(struct device *dev)
{
	unsigned n;

	lock_take(&dev->lock);
	n = dev->port.gids;
	lock_give(&dev->lock);
	return (int)n;
}

int device_query_gid(struct device *dev, uint8_t port, int index, struct gid_entry *out)
{
	int rc = -EINVAL;

	if (port != 1 || index < 0)
		return rc;
	lock_take(&dev->lock);
	if ((unsigned)index < dev->port.gids) {
		*out = dev->port.gid[index];
		rc = 0;
	}
	lock_give(&dev->lock);
	return rc;
}

bool device_has_gid(struct device *dev, const uint8_t gid[16])
{
	bool has = false;

	lock_take(&dev->lock);
	for (unsigned i = 0; i < dev->port.gids && !has; i++)
		has = dev->port.gid[i].used &&
		      memcmp(dev->port.gid[i].gid.raw, gid, 16) == 0;
	lock_give(&dev->lock);
	return has;
}
