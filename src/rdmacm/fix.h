/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a world for unit tests of rdma_cm: fake verbs with three devices and a fake
 * CM, which do nothing but write down what they are told. */
#ifndef RDMACM_FIX_H
#define RDMACM_FIX_H

#include <netinet/in.h>
#include <stdbool.h>

#include "cm/gate.h"
#include "rdmacm/id.h"

enum { FIX_DEVICES = 3, FIX_GIDS = 3 };

/* roce_eth0 has 192.0.2.1, 2001:db8::1 and fe80::1; roce_lo 127.0.0.1 and ::1; iwarp_eth0
 * 192.0.2.1 and 127.0.0.1.  ib_node0, at a fabric, has 127.1.0.1 and GID fe80::5; there
 * is 127.1.0.2 besides, whose GID is fe80::6. */
struct fix {
	unsigned devices; /* how many of these there are: 3 */
	bool iwarp_alone; /* roce_eth0 has no address */
	bool bare;	  /* ... nor has any other */
	bool foreign;	  /* another libibverbs has opened them */
	bool fabric;	  /* ib_node0 is there, too */
	char said[1024];  /* what verbs and the CM were told, a word each */
	unsigned fail;	  /* this call of those that make something fails */
	bool busy;	  /* nothing is destroyed now: EBUSY */
	int made;	  /* what verbs have made and not destroyed */
	/* What the CM answers, and what it was told last. */
	int rc, attach_rc;
	int serve_rc; /* not 0: of the first serves_fail calls */
	unsigned serves_fail;
	int find_rc;	     /* of an address that the fabric has not; 0: EHOSTUNREACH */
	unsigned binds_fail; /* so many find the port taken */
	uint64_t patience_ns;
	struct cm_owner *owner;
	struct cm_service service;
	struct cm_target to;
	struct cm_param self;
	struct sa_group group;
	uint8_t private[256];
	/* Of the QP that was moved last. */
	struct ibv_qp_attr attr;
	int mask;
};

extern struct fix fix;

/* For cmocka: a new world; what was made must have been destroyed. */
int fix_begin(void **state);
int fix_end(void **state);

/* Adds to it. */
__attribute__((format(printf, 1, 2))) void fix_say(const char *fmt, ...);
/* What was said since the last call of this: "bind connect". */
const char *fix_said(void);
struct sockaddr_in fix_addr(const char *ip, uint16_t port);
struct sockaddr_in6 fix_addr6(const char *ip, uint16_t port);
/* id of this port space in a channel; NULL: one of its own. */
struct cma_id *fix_id(struct cma_channel *ch, enum rdma_port_space ps);
/* The same, with address and route to ip and port resolved, and its events read. */
struct cma_id *fix_resolved(struct cma_channel *ch, enum rdma_port_space ps,
			    const char *ip, uint16_t port);
/* The CM tells id. */
void fix_tell(struct cma_id *id, enum cm_event_type type, int status);
/* A peer asks listener, to ip. */
struct cm_conn *fix_ask(struct cma_id *listener, const char *ip, bool datagram);
/* The next event is there, and of this type. */
struct cma_event *fix_event(struct cma_channel *ch, enum rdma_cm_event_type type,
			    int status);
void fix_ack(struct cma_channel *ch, enum rdma_cm_event_type type, int status);
/* A QP for id, with CQs of its own. */
void fix_qp(struct cma_id *id);

#endif
