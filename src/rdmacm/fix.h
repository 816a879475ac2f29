/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - fakes for unit tests of rdma_cm: verbs with three devices, and a CM. They only
 * record the calls. */
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
	unsigned devices; /* how many of these devices there are: 3 */
	bool iwarp_alone; /* roce_eth0 has no address */
	bool down;	  /* roce_eth0's port is down */
	bool v6_local;	  /* of IPv6 roce_eth0 has only fe80::1 */
	bool v1_gids;	  /* each GID is there as RoCE v1, and then as v2 */
	bool bare;	  /* neither has any other device */
	bool foreign;	  /* another libibverbs has opened the devices */
	bool fabric;	  /* ib_node0 exists, too */
	char said[1024];  /* the calls of verbs and of the CM, a word each */
	unsigned fail;	  /* number of the call to fail, of those that make something */
	bool busy;	  /* destroying fails: EBUSY */
	int made;	  /* number of objects made and not destroyed */
	/* The CM's results, and the arguments of its last calls. */
	int rc, attach_rc;
	int serve_rc; /* if not 0: result of the first serves_fail calls */
	unsigned serves_fail;
	int find_rc;	     /* result for unknown addresses; 0: EHOSTUNREACH */
	unsigned binds_fail; /* number of binds that find the port taken */
	uint64_t patience_ns;
	struct cm_owner *owner;
	struct cm_service service;
	struct cm_target to;
	struct cm_param self;
	struct sa_group group;
	uint8_t private[256];
	/* Attributes of the last QP that was modified. */
	struct ibv_qp_attr attr;
	int mask;
	/* Of the last XRC QP or SRQ that was made. */
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	/* A thread waits for an event: what comes meanwhile, and how the wait ends. */
	void (*awaited)(void);
	int await_rc;
};

extern struct fix fix;

/* For cmocka: sets a new world up; checks that everything made was destroyed. */
int fix_begin(void **state);
int fix_end(void **state);

/* Appends a word to fix.said. */
__attribute__((format(printf, 1, 2))) void fix_say(const char *fmt, ...);
/* Returns the words recorded since the last fix_said(), such as "bind connect". */
const char *fix_said(void);
struct sockaddr_in fix_addr(const char *ip, uint16_t port);
struct sockaddr_in6 fix_addr6(const char *ip, uint16_t port);
/* Returns an id of this port space in ch; NULL: in a channel of its own. */
struct cma_id *fix_id(struct cma_channel *ch, enum rdma_port_space ps);
/* Returns an id as fix_id() does, with the address of and the route to ip and port
 * resolved, and these events read. */
struct cma_id *fix_resolved(struct cma_channel *ch, enum rdma_port_space ps,
			    const char *ip, uint16_t port);
/* The CM reports an event to id. */
void fix_tell(struct cma_id *id, enum cm_event_type type, int status);
/* A peer's request comes to listener, for address ip. */
struct cm_conn *fix_ask(struct cma_id *listener, const char *ip, bool datagram);
/* Reads the next event, which must be of this type. */
struct cma_event *fix_event(struct cma_channel *ch, enum rdma_cm_event_type type,
			    int status);
void fix_ack(struct cma_channel *ch, enum rdma_cm_event_type type, int status);
/* Makes a QP with CQs of its own for id. */
void fix_qp(struct cma_id *id);

#endif
