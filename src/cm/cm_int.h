/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_int.h - what the files of cm/ share: connections of the IB protocol,
 * listeners, and the MADs that wait to be sent.  Inside cm/ only. */
#ifndef CM_CM_INT_H
#define CM_CM_INT_H

#include <string.h>

#include "cm/cm.h"
#include "core/qp1.h"
#include "sys/addr.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/heap.h"
#include "sys/list.h"
#include "sys/qpn.h"
#include "sys/rand.h"
#include "wire/cm_mad.h"

struct iw_cm;
struct device;
struct service;

enum {
	ID_GEN_BITS = 8,
	ID_INDEX_BITS = 14,
	CONN_CHUNK = 256,
	CONN_CHUNKS = (1 << ID_INDEX_BITS) / CONN_CHUNK,
	PEERS = 1024,	       /* hash buckets */
	BOX_MAX = 256,	       /* forwarded MADs that wait for cm_run() */
	RESPONSE_TIMEOUT = 20, /* that we take, and give: 4.3 s */
	MAX_RETRIES = 15,
	SERVICE_TIMEOUT = 24, /* in an MRA: the program takes its time */
	TIMEWAIT_MAX = 19,    /* 2.1 s, as RoCE's paths have it */
	LISTENER_NAMES = 2,
	LISTENER_SHARE = 16,
	QUOTE_MAX = 512, /* of a packet that was refused */
	HELD_MAX = 32,
	SUSPECTS = 16,
};

/* States of 12.9.5, less those that differ in a timer only. */
enum conn_state {
	ST_FREE, /* in no table */
	ST_IDLE, /* it is over, or has not begun */
	ST_REQ_SENT,
	ST_REP_RCVD, /* active */
	ST_REQ_RCVD,
	ST_REP_SENT, /* passive */
	ST_ESTABLISHED,
	ST_DREQ_SENT,
	ST_DREQ_RCVD,
	ST_TIMEWAIT,
	ST_SIDR_SENT,
	ST_SIDR_RCVD,
	CONN_STATES
};

struct conn {
	struct cm_conn base; /* first */
	struct cm *cm;
	struct list node;    /* by_peer, or free */
	struct list qp_node; /* by_qp */
	struct heap_node timer;
	enum conn_state state;
	bool passive, datagram;
	bool held;	  /* an owner, or a request nobody has read,
			   * refers to it */
	bool near;	  /* the peer is a process of this host */
	bool doubted;	  /* .. and is to be asked whether it has c */
	uint64_t look_ns; /* so long after its connection was lost it is
			   * looked for */
	bool missed;	  /* .. event, while there was no owner */
	enum cm_event_type missed_type;
	int missed_status;
	struct cm_listener *listener; /* a request nobody owns yet */
	struct cm_listener *via;      /* half open: its name leads here */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t tid;	   /* the REQ's */
	uint64_t dreq_tid; /* the peer's */
	uint64_t service_id, local_guid, remote_guid;
	struct cm_route route;
	uint8_t ack_timeout;  /* of the path */
	uint8_t peer_timeout; /* what the peer takes for an answer */
	uint8_t peer_retries;
	/* What is sent again until it is answered; retry.c. */
	uint8_t mad[MAD_LEN];
	unsigned retries;	 /* left */
	uint64_t full_at, quick; /* this try ends; next look within it */
	uint64_t patience;	 /* MRAs put it off until then, no longer */
};

/* What a descriptor in iWARP's epoll set is. */
struct iw_watch {
	bool listener;
	int fd;		 /* -1: none */
	uint32_t events; /* 0: not in the set */
};

struct cm_listener {
	struct list node;
	struct cm *cm;
	struct cm_service service;
	struct fd_id served; /* service.fd */
	struct service *name[LISTENER_NAMES];
	struct cm_owner *owner; /* NULL: bound only */
	bool datagram;
	bool closed; /* there for the half open ones alone */
	unsigned backlog, pending;
	unsigned share;	     /* of backlog: for it alone */
	unsigned half;	     /* connections that are half open */
	struct iw_watch tcp; /* iWARP's socket */
	bool pauses;	     /* ... is not looked at for a moment */
	unsigned coming;     /* its connections in iw->half */
	unsigned asked;	     /* its requests that nobody owns */
};

/* A request for a service that nobody has: perhaps somebody is about to.  The
 * datagram without what surrounds it, and when to look again. */
struct held_mad {
	uint64_t at; /* 0: none */
	struct cm_route route;
	bool forwarded;
	uint8_t mad[MAD_LEN];
};

/* A host that has refused what we sent it; peer.c. */
struct suspect {
	struct cm_route route;
	bool asked;	/* once more, a second later: */
	uint32_t psn;	/* .. what left from there on */
	uint64_t at;	/* when it is asked next */
	uint64_t until; /* 0: no suspect */
};

struct boxed_mad {
	struct cm_route route;
	uint8_t mad[MAD_LEN];
};

/* QP1 of a kind of link. */
struct gsi_port {
	struct cm *cm;
	struct qp1_user user;
	struct qp1 *qp1;    /* or NULL: nothing can be said there */
	struct device *dev; /* whose port it is; NULL: all of Ethernet's */
};

struct cm {
	struct core *core;
	struct host *host;
	const struct cm_site *site;
	struct iw_cm *iw;
	struct prng rng;
	struct heap timers;
	struct conn *chunk[CONN_CHUNKS];
	unsigned used, ready; /* indices [0, used) were ever used, and
			       * [used, ready) have memory */
	unsigned left;	      /* [0, left) have been, at exit */
	unsigned first_index; /* that of 0, in an identifier */
	unsigned reserved;    /* the listeners' shares */
	unsigned listening;
	unsigned free_n;
	struct list free;
	struct list by_peer[PEERS]; /* passive connections, by address and ID */
	struct list by_qp[PEERS];   /* all, by address and QP of the peer */
	struct list listeners;
	struct gsi_port net, ib; /* of Ethernet, and of InfiniBand */
	struct list queries;	 /* sa.c */
	struct heap sa_timers;
	unsigned sa_asks;    /* for which there is room in it */
	struct list members; /* sa_group.c */
	uint16_t udp_port;
	uint64_t counter[CM_COUNTERS];
	uint64_t held_at; /* the first of them; NEVER: there are none */
	struct held_mad held[HELD_MAX];
	bool sent;	     /* since look_at was last set */
	uint64_t look_at;    /* for refusals; NEVER: nothing was sent */
	uint64_t suspect_at; /* the first of them; NEVER: there are none */
	struct suspect suspect[SUSPECTS];
	uint64_t hurry_at; /* no process is taken for gone until then */
	unsigned boxed;
	struct boxed_mad box[BOX_MAX]; /* forward.c */
};

static inline struct conn *conn_of(struct cm_conn *c)
{
	return (struct conn *)c;
}

/* To the same host?  An interface is only a link-local address's. */
static inline bool route_same_peer(const struct cm_route *a, const struct cm_route *b)
{
	return !memcmp(a->dst, b->dst, 16) && a->dlid == b->dlid &&
	       (a->ifindex == b->ifindex || !addr_is_link_local(a->dst));
}

/* ... and from the same address of ours? */
static inline bool route_same(const struct cm_route *a, const struct cm_route *b)
{
	return route_same_peer(a, b) && !memcmp(a->src, b->src, 16);
}

/* --- conn.c: memory, identifiers, tables --------------------------------- */

int conn_reserve(struct cm *cm, unsigned n); /* 0 or -ENOMEM */
unsigned conn_spare(const struct cm *cm);    /* that conn_new() has left */
/* One in ST_IDLE, held; NULL: none reserved. */
struct conn *conn_new(struct cm *cm);
void conn_free(struct conn *c);
struct conn *conn_find(struct cm *cm, uint32_t local_id);
/* Passive ones are found by the peer's request; all by the peer's QP, once it is known.
 */
void conn_hash(struct conn *c);
void conn_hash_qp(struct conn *c);
void conn_unhash(struct conn *c);
struct conn *conn_find_request(struct cm *cm, const struct cm_route *route,
			       uint32_t remote_id, bool datagram, uint64_t tid);
/* Connected to the QP that this REQ is from, or to the ID. */
struct conn *conn_find_stale(struct cm *cm, const struct cm_route *route,
			     const struct cm_msg *req);
struct conn *conn_at(struct cm *cm, unsigned index); /* < cm->used */
/* Of ST_IDLE c may not come back: it is the last thing done to it. */
void conn_become(struct conn *c, enum conn_state state);
/* False: its owner has no memory for it. */
bool conn_tell(struct conn *c, enum cm_event_type type, int status,
	       const struct cm_param *peer);
/* A message of c: its header and identifiers. */
struct cm_msg conn_msg(const struct conn *c, enum cm_type type);
void conn_private(struct cm_msg *m, const void *data, size_t len);
/* What of the private data is not the program's: where IP addresses stand. */
size_t conn_skip(const struct cm_target *to);
void conn_say_ip(struct cm_msg *m, const struct cm_target *to, const struct cm_param *p);
void param_of(const struct cm_msg *m, size_t skip, struct cm_param *p);

/* --- retry.c: what is sent until it is answered -------------------------- */

/* m is to go; cm->counter[] says if there was no room. */
void send_mad(struct cm *cm, const struct cm_route *route, const struct cm_msg *m);
void send_until_answered(struct conn *c, const struct cm_msg *m, uint8_t timeout,
			 unsigned retries, uint64_t now);
void send_again(struct conn *c);
void answered(struct conn *c);
void put_off(struct conn *c, uint8_t service_timeout, uint64_t now);
/* The timer went off: sent again, or (false) all tries are used up. */
bool retry_run(struct conn *c, uint64_t now);
uint64_t cm_interval(uint8_t n); /* 4.096 us * 2^n */

/* --- ib_cm.c, ib_request.c, ib_end.c: the protocol ----------------------- */

/* Sends a REJ; what becomes of c is the caller's. */
void conn_reject(struct conn *c, enum cm_about about, uint16_t reason,
		 const void *private, size_t len);
void conn_timewait(struct conn *c, uint64_t now);
void conn_timer(struct conn *c, uint64_t now);
/* The peer's process died.  False: c's owner has no memory to be told of that. */
bool ibcm_disconnected(struct conn *c, uint64_t now);
void ibcm_nobody(struct conn *c, uint64_t now); /* .. and all others of its host */
int ibcm_disconnect(struct cm_conn *base, uint64_t now);
void ibcm_close(struct cm_conn *base, uint64_t now);
int ibcm_established(struct cm_conn *base, uint64_t now);
void on_early_dreq(struct conn *c, const struct cm_msg *m, uint64_t now);
void on_dreq(struct conn *c, const struct cm_msg *m, uint64_t now);
void on_drep(struct conn *c, const struct cm_msg *m, uint64_t now);

/* A message for an existing connection.  False: it is for none of ours. */
bool ibcm_message(struct cm *cm, const struct cm_route *route, const struct cm_msg *m,
		  uint64_t now);
/* A REQ or SIDR_REQ for a connection of ours that exists; or (false) not. */
bool ibcm_known_request(struct cm *cm, const struct cm_route *route,
			const struct cm_msg *m, uint64_t now);
void ibcm_request(struct cm_listener *l, const struct cm_target *from,
		  const struct cm_msg *m, uint64_t now);

/* --- peer.c: does the peer's process live? ------------------------------- */

/* From now on it is looked for.  False: it is gone, c is disconnected, and may be
 * gone too. */
bool conn_watch(struct conn *c, uint64_t now);
void conn_look(struct conn *c, uint64_t now); /* c's timer went off */
/* Somebody, perhaps not c's peer, says that c is over.  True: a peer of this host is
 * asked whether it has c still, and c ends if not. */
bool conn_doubt(struct conn *c, uint64_t now);
bool route_is_local(const struct cm *cm, const struct cm_route *route);
void peer_heard(struct cm *cm, const struct cm_route *route);
/* The process to which c led is gone from its host: are others led there? */
void peer_process_gone(struct conn *c, uint64_t now);
void peer_run(struct cm *cm, uint64_t now);
uint64_t peer_deadline(const struct cm *cm);

/* --- ib_sidr.c ----------------------------------------------------------- */

int sidr_connect(struct conn *c, const struct cm_target *to, const struct cm_param *self,
		 uint64_t now);
int sidr_reply(struct conn *c, const struct cm_param *self, uint16_t status);
void on_sidr_rep(struct conn *c, const struct cm_msg *m, uint64_t now);

/* --- listen.c ------------------------------------------------------------ */

/* c, which came by way of l, is half open; it is so no more. */
void via_set(struct conn *c, struct cm_listener *l);
void via_clear(struct conn *c);
void listeners_free(struct cm *cm);
void listeners_forked(struct cm *cm);
void listeners_refill(struct cm *cm);		   /* what requests took */
struct conn *listener_take(struct cm_listener *l); /* for a request, or NULL */
struct cm_listener *find_listener(struct cm *cm, const struct cm_target *from,
				  bool datagram);
/* The names that may serve a request, best first.  Returns how many. */
enum { NAMES_MAX = 3, NAME_LEN = 80 };
unsigned service_names(const struct cm_target *from, char name[NAMES_MAX][NAME_LEN]);

/* --- gsi.c --------------------------------------------------------------- */

/* The P_Key of what goes out by this route. */
uint16_t gsi_pkey(struct cm *cm, const struct cm_route *route);
void gsi_input(const struct qp1_user *user, const struct qp1_mad *in, uint64_t now);
/* One that has come by this route, here or (forwarded) to another process of the host. */
void gsi_take(struct cm *cm, const struct cm_route *route, const uint8_t *mad, size_t len,
	      bool forwarded, uint64_t now);
/* A route with a LID is InfiniBand's. */
static inline struct gsi_port *gsi_port(struct cm *cm, const struct cm_route *route)
{
	return route->dlid ? &cm->ib : &cm->net;
}
int gsi_send(struct cm *cm, const struct cm_route *route, const uint8_t *mad);
/* To a LID alone, without a GRH. */
int gsi_ask(struct cm *cm, const struct cm_route *route, const uint8_t *mad);
void gsi_run(struct cm *cm, uint64_t now); /* requests that were held */

/* --- sa.c ---------------------------------------------------------------- */

/* False: it is no MAD of the SA's. */
bool sa_input(struct cm *cm, uint16_t slid, const uint8_t *mad, size_t len);
void sa_run(struct cm *cm, uint64_t now);
void sa_close(struct cm *cm);

/* Something that the SA is asked for, again and again until it answers (sa_answered()) or
 * the asker's patience ends. */
struct sa_ask {
	struct heap_node timer;
	uint64_t tid, until, wait_ns;
	const struct sa_ask_ops *ops;
};

struct sa_ask_ops {
	void (*ask)(struct cm *cm, const struct sa_ask *a);
	/* Patience has ended: it calls sa_answered() or sa_ask_end(). */
	void (*silent)(struct cm *cm, struct sa_ask *a);
};

/* 0 or -ENOMEM.  It may be begun, again and again, until sa_ask_end(). */
int sa_ask_init(struct cm *cm, struct sa_ask *a, const struct sa_ask_ops *ops);
void sa_ask_begin(struct cm *cm, struct sa_ask *a, uint64_t patience_ns, uint64_t now);
void sa_answered(struct cm *cm, struct sa_ask *a);
void sa_ask_end(struct cm *cm, struct sa_ask *a);
/* A transaction of this process. */
uint64_t sa_tid(struct cm *cm);
/* To the subnet manager, if there is one. */
void sa_send(struct cm *cm, const struct cm_route *route, const uint8_t mad[MAD_LEN]);

/* --- sa_group.c ---------------------------------------------------------- */

void group_input(struct cm *cm, const uint8_t mad[MAD_LEN]);
void group_close(struct cm *cm);

/* --- forward.c: from process to process of this host ------------------------ */

/* Forwards a MAD that has come by this route to the process that has this slot, or to
 * the one that has the service of this name.  As host_forward(). */
int forward_to_slot(struct cm *cm, uint16_t slot, const struct cm_route *route,
		    const uint8_t *mad);
int forward_to_name(struct cm *cm, const char *name, const struct cm_route *route,
		    const uint8_t *mad);
/* Forwards a MAD of ours, which would go out by this route, to its peer, the process
 * that has this slot.  False: it has to go by the wire. */
bool forward_to_peer(struct cm *cm, uint16_t slot, const struct cm_route *route,
		     const uint8_t *mad);
void forward_run(struct cm *cm, uint64_t now);

#endif
