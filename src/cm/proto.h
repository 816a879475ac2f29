/* SPDX-License-Identifier: BSD-2-Clause */
/* proto.h - how two ends agree on a connection, whatever the protocol: what is
 * asked of one, and what it tells.
 *
 * All calls are made with the engine's turn held and take the time; none blocks,
 * and none but connect() and attach() allocates.  docs/cm.md.
 */
#ifndef CM_PROTO_H
#define CM_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/cm_mad.h"
#include "wire/sa.h"

struct cm;
struct cm_conn;

/* From one of our addresses to the peer's, which are GIDs; IPv4 mapped. */
struct cm_route {
	uint8_t src[16], dst[16];
	uint32_t ifindex;    /* to leave by; 0: any */
	uint16_t dlid;	     /* of InfiniBand */
	uint16_t pkey_index; /* its partition, in the port's table */
	uint8_t tclass, sl;
};

/* Where a connection goes. */
struct cm_target {
	struct cm_route route;
	/* The addresses that the programs name: the route's; or loopback ones, for
	 * which the route is from and to another address of this host. */
	uint8_t src_ip[16], dst_ip[16];
	uint16_t space; /* port space, RDMA_PS_... */
	uint16_t src_port, dst_port;
	/* By GIDs alone (AF_IB): no IP addresses go along in private data, of which the
	 * program has all, and the service is any. */
	bool native;
	uint64_t service_id; /* of connect(), if native */
	uint8_t mtu;	     /* enum ibv_mtu */
	uint8_t rate;	     /* of InfiniBand: enum ibv_rate */
	bool datagram;	     /* which QP serves this port?  (SIDR) */
	bool iwarp;	     /* by TCP */
};

enum cm_service_type { CM_RC, CM_UC, CM_UD = 3 };

/* What one end says of itself. */
struct cm_param {
	uint32_t qpn, qkey;
	uint32_t psn;		  /* with which the other end is to begin */
	uint8_t service_type;	  /* enum cm_service_type */
	uint8_t resources, depth; /* READs and atomics that it takes, and that
				   * it will have out */
	uint8_t flow_control, retry_count, rnr_retry, srq;
	uint8_t ack_timeout; /* connect: 4.096 us * 2^n; accept: what its
			      * ACKs take */
	uint64_t ca_guid;    /* host order */
	uint32_t ece_vendor, ece_options;
	uint8_t tclass; /* accept, iWARP: of what is sent from then on */
	const void *private;
	size_t private_len;
};

enum cm_event_type {
	CM_EV_REQUEST,	/* to a listener */
	CM_EV_RESPONSE, /* the peer accepts: established() next */
	CM_EV_ESTABLISHED,
	CM_EV_REJECTED,	   /* status: enum cm_reason; iWARP: as its iw_cm,
			    * -ECONNREFUSED or -ECONNRESET */
	CM_EV_UNREACHABLE, /* status: -errno, or a cm_sidr_status */
	CM_EV_DISCONNECTED,
	CM_EV_TIMEWAIT_EXIT, /* not of iWARP: TCP has its own */
	CM_EV_PATH,	     /* cm_path() */
	CM_EV_GROUP,	     /* cm_join() */
	CM_EV_FAILED,	     /* status: -errno; iWARP's setup broke off */
};

/* Valid during the call. */
struct cm_event {
	enum cm_event_type type;
	int status;
	struct cm_conn *conn;
	const struct cm_target *from; /* REQUEST: its sender; src_ip and src_port are
				       * ours, as in a target of our own.  iWARP:
				       * of each event, as the port may not be the
				       * one that was asked for */
	const struct sa_path *path;   /* PATH, where status is 0 */
	const struct sa_group *group; /* GROUP, where status is 0 */
	const struct cm_param *peer;  /* REQUEST, RESPONSE, ESTABLISHED of a
				       * datagram service, REJECTED (private
				       * data only) */
};

/* What is told of events: an id embeds it.  Called under the turn; to be quick.  False:
 * no memory, so the message that said so is treated as lost, and the peer says it again.
 */
struct cm_owner {
	bool (*event)(struct cm_owner *owner, const struct cm_event *ev);
};

struct cm_proto {
	const char *name; /* "ib", "iwarp" */
	/* Ask.  RESPONSE, REJECTED or UNREACHABLE follow; for a datagram
	 * service ESTABLISHED instead of RESPONSE.  0, -ENOMEM, -EINVAL. */
	int (*connect)(struct cm *cm, const struct cm_target *to,
		       const struct cm_param *self, struct cm_owner *owner,
		       struct cm_conn **out, uint64_t now);
	/* Answer a request.  ESTABLISHED follows, but for a datagram service;
	 * REJECTED or UNREACHABLE may.  -EINVAL: nobody asks any more. */
	int (*accept)(struct cm_conn *c, const struct cm_param *self, uint64_t now);
	int (*reject)(struct cm_conn *c, uint16_t reason, const void *private, size_t len,
		      uint64_t now);
	/* After a RESPONSE the QP is ready; after accept() the QP has seen the
	 * peer's data, though no word that it is connected.  -EINVAL. */
	int (*established)(struct cm_conn *c, uint64_t now);
	/* End it, or agree to the peer's end.  DISCONNECTED follows (unless the
	 * peer began), then TIMEWAIT_EXIT.  -EINVAL: it is not connected. */
	int (*disconnect)(struct cm_conn *c, uint64_t now);
	/* After a RESPONSE and after accept(): the QP that connect(), accept()
	 * named goes to RTS; the guard is armed.  NULL: the QP follows by itself.
	 * 0, -errno: then there is no connection any more. */
	int (*attach)(struct cm_conn *c, uint64_t now);
	/* The owner lets go and is told nothing more; the rest happens by
	 * itself: a request is rejected, a connection ended. */
	void (*close)(struct cm_conn *c, uint64_t now);
};

/* What every protocol's connection begins with. */
struct cm_conn {
	const struct cm_proto *proto;
	struct cm_owner *owner; /* NULL: none yet, or none any more */
};

#endif
