/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - a device: identity, capabilities, its one port and GID table. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/port.h"
#include "sys/list.h"
#include "sys/lock.h"

struct core;

/* configurable: conf.h */
struct identity {
	uint32_t vendor_id, vendor_part_id, hw_ver;
	char fw_ver[64];
	uint8_t speed, width;	       /* as in ibv_port_attr */
	uint64_t guid;		       /* network order; 0: from the MAC */
	char name[IBV_SYSFS_NAME_MAX]; /* "": roce_<netdev>, iwarp_<netdev> */
};

/* As with URNIC_IDENTITY=urnic. */
extern const struct identity identity_default;

/* What is told of a kind of device, and what its QPs may do. */
struct device_kind {
	const char *prefix; /* of the name that a device has if it is given none */
	const char *word;   /* as tools show it */
	bool named;	    /* an interface gets one only where URNIC_DEVICES says so */
	bool mac_gid;	    /* its GID table is the MAC alone, not IP addresses */
	bool lanes; /* QPs of two processes of one host may meet in shared memory */
	enum ibv_node_type node_type;
	enum ibv_transport_type transport;
	unsigned qp_types; /* 1 << IBV_QPT_... */
	bool xrc, tag_matching;
	unsigned wr_type;	 /* of work requests (core/wr_op.h); 0: the QP type's */
	bool datagrams;		 /* address handles, multicast, P_Keys */
	unsigned no_caps;	 /* IBV_DEVICE_... that it has not */
	uint8_t ack_delay;	 /* local_ca_ack_delay */
	uint32_t odp_uc, odp_ud; /* IBV_ODP_SUPPORT_... */
	const struct qp_arrows *arrows; /* core/qp_state.h */
	bool cm_only; /* QPs are connected by rdma_cm, not by modify_qp */
};
extern const struct device_kind device_roce, device_iwarp, device_ib;

/* Stays at its address for the life of the process once made: programs keep
 * ibv_device pointers.  ibv is followed by zeroes: mlx5dv_is_supported() and
 * others look past it. */
struct device {
	struct ibv_device ibv;
	uint8_t beyond[128];
	struct core *core; /* NULL until it was opened */
	struct list node;
	const struct device_kind *kind;
	struct identity id;
	_Atomic uint32_t pkey_violations, qkey_violations;
	/* The port's, which packets ask for without the lock. */
	_Atomic uint16_t pkey[PKEY_TABLE];
	_Atomic uint32_t lids;	 /* its LID, and above that its LMC */
	_Atomic uint32_t number; /* an interface that is made anew has another */
	uint8_t link_layer;	 /* IBV_LINK_LAYER_...; never changes */
	atomic_bool mtu_told;	 /* that a path MTU was too large */
	atomic_bool gid_told;	 /* that a sgid_index leads to no GID */
	atomic_bool port_told;	 /* that the program has asked for another port */
	uint8_t ports;		 /* of an adapter of a fabric; the device has the first */
	uint64_t guid;		 /* network order */
	struct lock lock;	 /* what follows */
	struct port port;
};

struct device *device_of(struct ibv_device *ibv);

/* dev, which is zeroes, becomes a device with this port.  id NULL: identity_default;
 * where that has no name or GUID: KIND_suffix, and guid. */
void device_init(struct device *dev, const struct device_kind *kind, const char *suffix,
		 uint64_t guid, const struct port *port, const struct identity *id);

/* As device_init(), of the port alone. */
void device_init_port(struct device *dev, const struct port *port);

/* Its owner fills the port anew.  Returns what has changed, a mask of enum
 * port_change, for asynchronous events. */
unsigned device_fill(struct device *dev, const struct port *port);

/* A call that names this port is refused: a warning, once, if it is one of the adapter's
 * that the device does not have. */
void device_tell_port(struct device *dev, uint8_t port);

/* The port as it is now. */
struct port device_port(struct device *dev);

/* 0: no subnet manager has given the port one. */
static inline uint16_t device_lid(const struct device *dev)
{
	return (uint16_t)dev->lids;
}

static inline uint8_t device_lmc(const struct device *dev)
{
	return (uint8_t)(dev->lids >> 16);
}

/* With LMC a port has 2^LMC LIDs, of which the first is a multiple of that. */
static inline bool device_has_lid(const struct device *dev, uint16_t lid)
{
	const uint32_t lids = dev->lids;

	return (uint16_t)lids && lid >> (lids >> 16) == (uint16_t)lids >> (lids >> 16);
}

/* Has it ATOMIC WRITE and FLUSH (annex A19)? */
static inline bool device_has_a19(const struct device *dev)
{
	return dev->kind->transport == IBV_TRANSPORT_IB;
}

/* Must packets of its port have a GRH?  (A16) */
static inline bool device_needs_grh(const struct device *dev)
{
	return dev->link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Is gid one of the port's? */
bool device_has_gid(struct device *dev, const uint8_t gid[16]);

/* The first len bytes of the attributes; fields that we do not know are 0. */
int device_query(struct device *dev, struct ibv_device_attr_ex *attr, size_t len);
int device_query_port(struct device *dev, uint8_t port, struct ibv_port_attr *attr,
		      size_t len);
int device_gids(struct device *dev); /* length of the GID table */
/* Where in the table is what a packet with that P_Key is heard by (wire/gsi.h)?  -1: it
 * is of no partition of the port. */
int device_find_pkey(struct device *dev, uint16_t pkey);
unsigned device_pkeys(struct device *dev); /* length of the table */
/* A free index gives 0.  0 or -EINVAL. */
int device_query_pkey(struct device *dev, uint8_t port, int index, uint16_t *pkey);
/* A free index gives an entry of zeroes.  0 or -EINVAL. */
int device_query_gid(struct device *dev, uint8_t port, int index, struct gid_entry *out);

/* The limits that are enforced and advertised: one table. */
struct caps {
	uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd,
		max_srq, max_srq_wr, max_srq_sge, max_inline, max_ah, max_mw,
		max_mcast_grp, max_mcast_qp_attach, max_dm;
	uint8_t max_rd_atomic; /* in and out, per QP */
	uint32_t max_msg;      /* bytes: 2 GiB - 1 */
};
extern const struct caps caps;

static inline uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

#endif
