/* SPDX-License-Identifier: BSD-2-Clause */
/* device.h - a device: identity, capabilities, its one port and GID table. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/lock.h"

struct core;

enum { GID_TABLE = 128, PKEY_TABLE = 1 };

/* P_Keys (10.9): the number of a partition, and whether the port is a full member
 * of it.  A number of 0 is no partition's. */
enum { PKEY_FULL = 0x8000, PKEY_DEFAULT = 0xffff };

/* May ports with these P_Keys talk?  Of the same partition, and not both limited
 * members of it (10.9.3). */
static inline bool pkey_match(uint16_t a, uint16_t b)
{
	return (uint16_t)((a ^ b) << 1) == 0 && (uint16_t)(a << 1) != 0 &&
	       ((a | b) & PKEY_FULL);
}

struct gid_entry {
	union ibv_gid gid;
	uint32_t ifindex;
	bool used;
	bool local_only; /* synthesised: cannot go on a wire */
};

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

/* What the network interface is like now; nic/netdev.c fills it. */
struct netdev {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	uint8_t mac[6];
	uint32_t mtu;
	bool running, loopback;
	unsigned naddrs;
	struct {
		uint8_t ip[16];
	} addr[GID_TABLE]; /* IPv4 mapped */
};

/* Stays at its address for the life of the process once made: programs keep
 * ibv_device pointers.  ibv is followed by zeroes: mlx5dv_is_supported() and
 * others look past it. */
struct device {
	struct ibv_device ibv;
	uint8_t beyond[128];
	struct core *core; /* NULL until it was opened */
	struct list node;
	struct identity id;
	_Atomic uint32_t pkey_violations, qkey_violations;
	_Atomic uint16_t pkey[PKEY_TABLE]; /* the port's; 0: a free entry */
	atomic_bool mtu_told;		   /* that a path MTU was too large */
	uint64_t guid;			   /* network order */
	struct lock lock;		   /* what follows */
	bool present;			   /* its interface still exists */
	struct netdev net;
	struct gid_entry gid[GID_TABLE];
};

struct device *device_of(struct ibv_device *ibv);

/* Make a device for an interface: RoCE v2, or iWARP.  id NULL: identity_default.
 * 0 or -ENOMEM. */
int device_create(const struct netdev *net, const struct identity *id,
		  struct device **out);
int device_create_iwarp(const struct netdev *net, const struct identity *id,
			struct device **out);

static inline bool device_is_iwarp(const struct device *dev)
{
	return dev->ibv.transport_type == IBV_TRANSPORT_IWARP;
}

/* The interface changed, or (net NULL) is gone.  Entries keep their index while
 * their address stays; GID 0 is the IPv6 link-local address (::1 on loopback;
 * synthesised from the MAC where there is none), GID 1 the first IPv4 address
 * if there is one, the others follow from 2 on.  (iWARP: GID 0 alone, which is
 * the MAC and then zeroes.)  Returns a mask of what changed, for async events;
 * PORT: the port's state. */
enum { DEVICE_GID_CHANGED = 1, DEVICE_PORT_CHANGED = 2 };
unsigned device_update(struct device *dev, const struct netdev *net);

/* Is ip one of dev's addresses (or, but for iWARP, a multicast group)? */
bool device_has_ip(struct device *dev, const uint8_t ip[16]);

/* The first len bytes of the attributes; fields that we do not know are 0. */
int device_query(struct device *dev, struct ibv_device_attr_ex *attr, size_t len);
int device_query_port(struct device *dev, uint8_t port, struct ibv_port_attr *attr,
		      size_t len);
int device_gids(const struct device *dev); /* length of the GID table */
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

enum ibv_mtu mtu_for_netdev(uint32_t netdev_mtu); /* largest that fits */
static inline uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

#endif
