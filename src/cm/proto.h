/* SPDX-License-Identifier: BSD-2-Clause */
/* proto.h - what a protocol of connection management (MADs, or MPA on TCP) offers, and
 * the events that it reports.
 *
 * All functions are called with the engine's turn held and are given the time; none
 * blocks, and only connect() and attach() allocate. See docs/dev/cm.md. */
#ifndef CM_PROTO_H
#define CM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cm_mad.h"
#include "wire/sa.h"

struct cm;
struct cm_conn;

/* The addresses are GIDs: src is ours, dst the peer's. IPv4 addresses are mapped. */
struct cm_route {
	uint8_t src[16], dst[16];
	uint32_t ifindex;    /* interface to leave by; 0: any */
	uint16_t dlid;	     /* InfiniBand: the peer's LID; else 0 */
	uint16_t pkey_index; /* of the partition, in the port's table */
	uint8_t tclass, sl;
};

/* The two ends of a connection, and the service at the peer's end. */
struct cm_target {
	struct cm_route route;
	/* The addresses that the programs use: those of the route, or loopback addresses,
	 * for which the route is between addresses of this host. */
	uint8_t src_ip[16], dst_ip[16];
	uint16_t space; /* port space, RDMA_PS_... */
	uint16_t src_port, dst_port;
	/* AF_IB: only GIDs. No IP addresses precede the program's private data, and the
	 * service ID may be any. */
	bool native;
	uint64_t service_id; /* for connect(), if native */
	uint8_t mtu;	     /* enum ibv_mtu */
	uint8_t rate;	     /* InfiniBand: enum ibv_rate */
	bool datagram;	     /* SIDR: the question is which QP serves this port */
	bool iwarp;	     /* by TCP and MPA */
};

/* As in a REQ; CM_XRC has an extended type of its own (A14). */
enum cm_service_type { CM_RC, CM_UC, CM_XRC = 3 };

/* What one end tells the other of itself. */
struct cm_param {
	uint32_t qpn, qkey;
	uint32_t psn;	      /* first PSN that the other end sends */
	uint8_t service_type; /* enum cm_service_type */
	/* READs and atomics: resources is how many this end takes at a time, depth how
	 * many it will have outstanding. */
	uint8_t resources, depth;
	uint8_t flow_control, retry_count, rnr_retry, srq;
	uint8_t ack_timeout; /* 4.096 us * 2^n; in accept(): delay of its ACKs */
	uint64_t ca_guid;    /* in host order */
	uint32_t ece_vendor, ece_options;
	uint8_t mtu; /* enum ibv_mtu; RESPONSE: what the peer has agreed to; 0: as asked
		      */
	uint8_t tclass; /* accept(), iWARP: of packets from then on */
	const void *private;
	size_t private_len;
};

enum cm_event_type {
	CM_EV_REQUEST,	/* to a listener */
	CM_EV_RESPONSE, /* the peer accepts; established() is next */
	CM_EV_ESTABLISHED,
	/* status: an enum cm_reason. iWARP: -ECONNREFUSED or -ECONNRESET, as in Linux's
	 * iw_cm. */
	CM_EV_REJECTED,
	CM_EV_UNREACHABLE, /* status: -errno, or a cm_sidr_status */
	CM_EV_DISCONNECTED,
	CM_EV_TIMEWAIT_EXIT, /* not for iWARP: TCP has a timewait of its own */
	CM_EV_PATH,	     /* result of cm_path() */
	CM_EV_GROUP,	     /* result of cm_join() */
	CM_EV_FAILED,	     /* iWARP's setup failed; status: -errno */
};

/* An event; its pointers are valid during the call. */
struct cm_event {
	enum cm_event_type type;
	int status;
	struct cm_conn *conn;
	/* REQUEST: the sender as dst; our own address and port as src, as in a target of
	 * ours. iWARP gives it with every event, as the port may not be the one that was
	 * asked for. */
	const struct cm_target *from;
	const struct sa_path *path;   /* PATH with status 0 */
	const struct sa_group *group; /* GROUP with status 0 */
	/* Of REQUEST, RESPONSE, and ESTABLISHED of a datagram service; in REJECTED only
	 * the private data is valid. */
	const struct cm_param *peer;
};

/* Receives the events of a connection; an rdma_cm id embeds one. event() is called under
 * the turn and must be quick. It returns false if it has no memory: the message behind
 * the event is then treated as lost, and the peer sends it again. */
struct cm_owner {
	bool (*event)(struct cm_owner *owner, const struct cm_event *ev);
};

struct cm_proto {
	const char *name; /* "ib" or "iwarp" */
	/* Sends a request. RESPONSE, REJECTED or UNREACHABLE follows; a datagram service
	 * has ESTABLISHED in place of RESPONSE. Returns 0, -ENOMEM or -EINVAL. */
	int (*connect)(struct cm *cm, const struct cm_target *to,
		       const struct cm_param *self, struct cm_owner *owner,
		       struct cm_conn **out, uint64_t now);
	/* Accepts a request. ESTABLISHED follows, except for a datagram service; REJECTED
	 * or UNREACHABLE may come instead. Returns -EINVAL if the request is over. */
	int (*accept)(struct cm_conn *c, const struct cm_param *self, uint64_t now);
	int (*reject)(struct cm_conn *c, uint16_t reason, const void *private, size_t len,
		      uint64_t now);
	/* Called after RESPONSE, once the QP is ready; or after accept(), when the QP has
	 * received data before the peer's message that it is connected. Returns 0,
	 * -EINVAL or -ENOMEM. */
	int (*established)(struct cm_conn *c, uint64_t now);
	/* Ends the connection, or agrees to the peer's wish to end it. DISCONNECTED
	 * follows unless the peer began, then TIMEWAIT_EXIT. Returns -EINVAL if not
	 * connected. */
	int (*disconnect)(struct cm_conn *c, uint64_t now);
	/* After RESPONSE or accept(): takes the QP that connect() or accept() named to
	 * RTS. (After accept() it is cm_accept() that calls it.) NULL: the program moves
	 * the QP itself. Returns 0, or -errno, after which the connection is over. */
	int (*attach)(struct cm_conn *c, uint64_t now);
	/* The owner lets go of c and gets no more events. What has to follow happens by
	 * itself: a request is rejected, a connection is disconnected. */
	void (*close)(struct cm_conn *c, uint64_t now);
};

/* The first member of every protocol's connection. */
struct cm_conn {
	const struct cm_proto *proto;
	struct cm_owner *owner; /* NULL: not accepted yet, or closed */
};

#endif
