/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - a device: its identity, capabilities, single port and GID table. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/lock.h"
#include "verbs/port.h"

struct core;

/* What a device calls itself; configurable (conf.h). */
struct identity {
	uint32_t vendor_id, vendor_part_id, hw_ver;
	char fw_ver[64];
	uint8_t speed, width;	       /* as in ibv_port_attr */
	uint64_t guid;		       /* network order; 0: derived from the MAC */
	char name[IBV_SYSFS_NAME_MAX]; /* "": roce_<netdev> or iwarp_<netdev> */
};

/* The identity, without a name. */
struct ident;
struct identity identity_of(const struct ident *ident);

/* The identity that URNIC_IDENTITY=urnic selects. */
extern const struct identity identity_default;

/* What rooms tell devices apart by: each in a switch without default, or by a
 * static_assert of the number of kinds. */
enum kind_id { KIND_ROCE, KIND_IB, KIND_IWARP };
enum { DEVICE_KINDS = KIND_IWARP + 1 };

/* What a kind of device reports to programs, and what its QPs may do. */
struct device_kind {
	enum kind_id id;
	const char *prefix; /* of the default device name */
	const char *word;   /* the kind's name in tools */
	bool named;	    /* made only where URNIC_DEVICES names it */
	bool mac_gid;	    /* the GID table holds only the MAC, no IP addresses */
	bool shares;	    /* QPs of two processes of one host may use shared memory */
	enum ibv_node_type node_type;
	enum ibv_transport_type transport;
	unsigned qp_types; /* 1 << IBV_QPT_... */
	bool tag_matching;
	unsigned wr_type;	 /* QP type in verbs/wr_op.h; 0: the QP's own type */
	bool datagrams;		 /* has address handles, multicast, P_Keys */
	unsigned no_caps;	 /* IBV_DEVICE_... flags not reported */
	uint8_t ack_delay;	 /* local_ca_ack_delay */
	uint32_t odp_uc, odp_ud; /* IBV_ODP_SUPPORT_... */
	const struct qp_arrows *arrows; /* verbs/qp_state.h */
	bool cm_only; /* QPs are connected by rdma_cm, not by modify_qp */
};
extern const struct device_kind device_roce, device_iwarp, device_ib;

/* A device keeps its address for the life of the process, because programs keep
 * ibv_device pointers. Zeroes follow ibv because mlx5dv_is_supported() and others read
 * past its end. */
struct device {
	struct ibv_device ibv;
	uint8_t beyond[128];
	struct core *core; /* NULL until first opened */
	struct list node;
	const struct device_kind *kind;
	struct identity id;
	_Atomic uint32_t pkey_violations, qkey_violations;
	/* Copies of port fields that the packet path reads without the lock. */
	_Atomic uint16_t pkey[PKEY_TABLE];
	_Atomic uint32_t lids;	 /* LID in the low 16 bits, LMC above */
	_Atomic uint32_t number; /* interface index; new if it is made anew */
	uint8_t link_layer;	 /* IBV_LINK_LAYER_...; never changes */
	atomic_bool mtu_told;	 /* logged: a path MTU was too large */
	atomic_bool gid_told;	 /* logged: an sgid_index leads to no GID */
	atomic_bool port_told;	 /* logged: the program asked for another port */
	uint8_t ports;		 /* of a fabric's adapter; the device has the first */
	uint64_t guid;		 /* network order */
	struct lock lock;	 /* guards the fields below */
	struct port port;
	/* What the port's owner says. */
	bool own_active;
	uint8_t own_state;
};

struct device *device_of(struct ibv_device *ibv);

/* Makes dev, which is zeroed, a device with this port. id NULL: identity_default,
 * whose empty name becomes KIND_suffix and whose zero GUID becomes guid. */
void device_init(struct device *dev, const struct device_kind *kind, const char *suffix,
		 uint64_t guid, const struct port *port, const struct identity *id);

/* The part of device_init() that concerns the port. */
void device_init_port(struct device *dev, const struct port *port);

/* The port's owner replaces the port's attributes. Returns what changed, a mask of
 * enum port_change, for asynchronous events. */
unsigned device_fill(struct device *dev, const struct port *port);

/* From now on the ports of all devices are to say that they are down, or up, or what
 * their owners say, whatever that becomes. A port says so from device_say() on. */
enum device_asked { DEVICE_OWN, DEVICE_DOWN, DEVICE_UP };
void device_ask(enum device_asked asked);
/* Returns what changed. */
unsigned device_say(struct device *dev);

/* A call that names this port is refused. Warns, once, if the port is one of the
 * adapter's that the device does not have. */
void device_tell_port(struct device *dev, uint8_t port);

/* Returns a copy of the port. */
struct port device_port(struct device *dev);

/* Returns the port's LID; 0 if no subnet manager has assigned one. */
static inline uint16_t device_lid(const struct device *dev)
{
	return (uint16_t)dev->lids;
}

static inline uint8_t device_lmc(const struct device *dev)
{
	return (uint8_t)(dev->lids >> 16);
}

/* Is lid one of the port's? A port has 2^LMC LIDs, starting at a multiple of 2^LMC. */
static inline bool device_has_lid(const struct device *dev, uint16_t lid)
{
	const uint32_t lids = dev->lids;

	return (uint16_t)lids && lid >> (lids >> 16) == (uint16_t)lids >> (lids >> 16);
}

/* Has the device ATOMIC WRITE and FLUSH (annex A19)? */
static inline bool device_has_a19(const struct device *dev)
{
	switch (dev->kind->id) {
	case KIND_ROCE:
	case KIND_IB:
		return true;
	case KIND_IWARP:
		break;
	}
	return false;
}

/* Does the device stand on a network interface (verbs/netport.h)? */
static inline bool device_on_netdev(const struct device *dev)
{
	switch (dev->kind->id) {
	case KIND_ROCE:
	case KIND_IWARP:
		return true;
	case KIND_IB:
		break;
	}
	return false;
}

/* Must packets of the port have a GRH (A16)? */
static inline bool device_needs_grh(const struct device *dev)
{
	return dev->link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Is gid one of the port's? */
bool device_has_gid(struct device *dev, const uint8_t gid[16]);

/* Fills the first len bytes of attr; fields unknown to urnic are 0. */
int device_query(struct device *dev, struct ibv_device_attr_ex *attr, size_t len);
int device_query_port(struct device *dev, uint8_t port, struct ibv_port_attr *attr,
		      size_t len);
int device_gids(struct device *dev); /* length of the GID table */
/* Returns the index of the port's P_Key that matches that of a packet
 * (wire/well_known.h); -1 if the packet belongs to no partition of the port. */
int device_find_pkey(struct device *dev, uint16_t pkey);
unsigned device_pkeys(struct device *dev); /* length of the table */
/* Returns 0 or -EINVAL. An unused index gives P_Key 0. */
int device_query_pkey(struct device *dev, uint8_t port, int index, uint16_t *pkey);
/* Returns 0 or -EINVAL. An unused index gives a zeroed entry. */
int device_query_gid(struct device *dev, uint8_t port, int index, struct gid_entry *out);

/* The device limits, both enforced and advertised: urnic's own, or lower ones
 * (verbs/like.h).  They change only before there is a device. */
struct caps {
	uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd,
		max_srq, max_srq_wr, max_srq_sge, max_inline, max_ah, max_mw,
		max_mcast_grp, max_mcast_qp_attach, max_dm;
	uint8_t max_rd_atomic, max_dest_rd_atomic; /* per QP, as initiator, responder */
	uint8_t atomic_cap;			   /* enum ibv_atomic_cap */
	uint32_t max_msg;			   /* bytes: 2 GiB - 1 */
	uint64_t max_mr_size;
	uint32_t max_gids;
	unsigned lacks;		 /* 1 << enum like_feature */
	unsigned lacks_qp_types; /* 1 << IBV_QPT_... */
	bool as_hardware;	 /* no patience, RLIMIT_MEMLOCK */
	bool v1_gids;		 /* each GID of RoCE is there as one of v1, too */
};
extern struct caps caps;

/* The types of QPs that devices of this kind have: 1 << IBV_QPT_... */
unsigned kind_qp_types(const struct device_kind *kind);

static inline uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

#endif
