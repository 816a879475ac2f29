/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_int.h - what the files of cm/ share: connections of the IB protocol, listeners, and
 * MADs that wait. Included inside cm/ only. */
#ifndef CM_CM_INT_H
#define CM_CM_INT_H

#include <string.h>

#include "cm/cm.h"
#include "cm/qp1.h"
#include "sys/addr.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/heap.h"
#include "sys/list.h"
#include "sys/rand.h"
#include "sys/source.h"
#include "verbs/room.h"
#include "wire/cm_mad.h"
#include "wire/qpn.h"

struct iw_cm;
struct device;
struct service;

enum {
	ID_GEN_BITS = 8,
	ID_INDEX_BITS = 14,
	CONN_CHUNK = 256,
	CONN_CHUNKS = (1 << ID_INDEX_BITS) / CONN_CHUNK,
	PEERS = 1024,	       /* hash buckets */
	BOX_MAX = 256,	       /* MADs that wait for cm_run(): see forward.c */
	RESPONSE_TIMEOUT = 20, /* exponent of our timeouts in MADs: 4.3 s */
	MAX_RETRIES = 15,
	SERVICE_TIMEOUT = 24, /* exponent in an MRA: time for the program to decide */
	TIMEWAIT_MAX = 19,    /* exponent: 2.1 s, as RoCE's paths have it */
	ANSWERS_MAX = 1024,   /* answers kept: they must not use up the connections */
	ANSWER_KEPT = 19,     /* exponent: how long a REJ or SIDR_REP is kept, 2.1 s */
	LISTENER_NAMES = 2,
	LISTENER_SHARE = 16,
	QUOTE_MAX = 512, /* bytes of a refused packet */
	HELD_MAX = 32,
	SUSPECTS = 16,
};

/* States of IBTA 12.9.5. States there that differ only in their timer are one here. */
enum conn_state {
	ST_FREE, /* in no table */
	ST_IDLE, /* ended, or not begun yet */
	ST_REQ_SENT,
	ST_REP_RCVD, /* REQ_SENT and REP_RCVD: active side */
	ST_REQ_RCVD,
	ST_REP_SENT, /* REQ_RCVD and REP_SENT: passive side */
	ST_ESTABLISHED,
	ST_DREQ_SENT,
	ST_DREQ_RCVD,
	ST_TIMEWAIT,
	ST_SIDR_SENT,
	ST_SIDR_RCVD,
	/* Ended: a copy of the REQ or SIDR_REQ gets the REJ or SIDR_REP again. */
	ST_ANSWERED,
	CONN_STATES
};

struct conn {
	struct cm_conn base; /* must be first */
	struct cm *cm;
	struct list node;    /* in cm->by_peer, or in cm->free */
	struct list qp_node; /* in cm->by_qp */
	struct heap_node timer;
	enum conn_state state;
	bool passive, datagram;
	bool held;    /* an owner, or a request not read yet, refers to c */
	bool near;    /* the peer is a process of this host */
	bool doubted; /* ask the peer whether it still has c (conn_doubt()) */
	/* Delay before the next look whether the peer's process lives, once its
	 * connection was lost. */
	uint64_t look_ns;
	struct cm_listener *listener; /* while no program has read its request */
	struct cm_listener *via; /* half open: the listener by whose name peers find c */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t tid;	   /* of the REQ */
	uint64_t dreq_tid; /* of the peer's DREQ */
	uint64_t service_id, local_guid, remote_guid;
	struct cm_route route;
	uint8_t ack_timeout;  /* exponent, of the path */
	uint8_t mtu;	      /* enum ibv_mtu: what our REQ asks for */
	uint8_t peer_timeout; /* exponent: how long the peer may take to answer */
	uint8_t peer_retries;
	/* The MAD that is sent again until it is answered; see retry.c. */
	uint8_t mad[MAD_LEN];
	unsigned retries; /* tries that remain */
	/* full_at: when this try ends. quick: delay until the MAD is sent again within
	 * the try. */
	uint64_t full_at, quick;
	uint64_t patience; /* MRAs cannot postpone the end of a try beyond this */
};

/* A descriptor in iWARP's epoll set: of a listener, or of a connection. */
struct iw_watch {
	bool listener;
	int fd;		 /* -1: none */
	uint32_t events; /* 0: not in the set */
};

struct cm_listener {
	struct list node;
	struct cm *cm;
	struct cm_service service;
	struct fd_id served; /* identity of service.fd */
	struct service *name[LISTENER_NAMES];
	struct cm_owner *owner; /* NULL: bound, but does not listen */
	bool datagram;
	bool closed; /* kept only for its half-open connections */
	unsigned backlog, pending;
	unsigned share;	     /* connections reserved for this listener alone */
	unsigned half;	     /* half-open connections with via == this listener */
	struct iw_watch tcp; /* iWARP's listening socket */
	bool pauses;	     /* tcp is out of the epoll set until there is room */
	unsigned coming;     /* its connections in iw->half */
	unsigned asked;	     /* iWARP requests that have no owner yet */
};

/* A request for a service that no process has: a server may be about to listen, so the
 * service is looked up again at `at`. Has the MAD without its packet headers. */
struct held_mad {
	uint64_t at; /* 0: this entry is free */
	struct cm_route route;
	bool forwarded;
	uint8_t mad[MAD_LEN];
};

/* A host that has refused one of our MADs; see peer.c. */
struct suspect {
	struct cm_route route;
	/* asked: one of our MADs was sent again, at least a second after the refusal.
	 * psn: of that MAD. Only a refusal of this or a later packet proves that no
	 * process is left. */
	bool asked;
	uint32_t psn;
	uint64_t at;	/* when a MAD is next sent again */
	uint64_t until; /* 0: this entry is free */
};

struct boxed_mad {
	struct cm_route route;
	bool forwarded;
	/* It comes after all that host/ had got by this time, ns. 0: it need not; NEVER:
	 * by the time of the next cm_run(). */
	uint64_t follows;
	uint8_t mad[MAD_LEN];
};

struct cm {
	struct source source;
	struct core *core;
	struct host *host;
	const struct cm_site *site;
	struct iw_cm *iw;
	struct prng rng;
	struct heap timers;
	struct conn *chunk[CONN_CHUNKS];
	/* Connections [0, used) were used at some time; [used, ready) have memory. */
	unsigned used, ready;
	unsigned left;	      /* cm_leave() has ended [0, left) */
	unsigned first_index; /* of connection 0, in communication IDs */
	unsigned reserved;    /* sum of the listeners' shares */
	unsigned listening;
	unsigned free_n;
	unsigned answered; /* connections in ST_ANSWERED */
	struct list free;
	struct list by_peer[PEERS]; /* passive connections, by address and ID */
	struct list by_qp[PEERS];   /* all, by the peer's address and QP */
	struct list listeners;
	/* QP1 of Ethernet, and of InfiniBand. NULL: no MAD can go out by that link. */
	struct qp1 *net, *ib;
	struct list queries; /* struct query, sa.c */
	struct heap sa_timers;
	unsigned sa_asks;    /* number of asks that sa_timers has room for */
	struct list members; /* struct cm_member, sa_group.c */
	uint16_t udp_port;
	uint64_t counter[CM_COUNTERS];
	uint64_t said_at[CM_COUNTERS]; /* for cm_may_tell() */
	uint64_t held_at;	       /* the earliest of held[]; NEVER: none */
	struct held_mad held[HELD_MAX];
	bool sent;	     /* a MAD has gone out since look_at was set */
	uint64_t look_at;    /* when to look for refusals; NEVER: nothing sent */
	uint64_t suspect_at; /* the earliest of suspect[]; NEVER: none */
	struct suspect suspect[SUSPECTS];
	uint64_t hurry_at; /* peer_process_gone() does nothing before then */
	unsigned boxed;
	struct boxed_mad box[BOX_MAX]; /* MADs that wait in forward.c */
};

extern struct room_key cm_key;

static inline struct cm *cm_of_core(const struct core *core)
{
	return room_get(core, &cm_key);
}

/* Hands the MADs that wait in QP1 to its link, and tells the engine when cm_run() is due.
 */
void cm_send_mads(struct cm *cm, uint64_t now);

/* May the log be told of something that is counted as `why`? Anybody may send requests,
 * so it is told once a second at most. */
bool cm_may_tell(struct cm *cm, enum cm_counter why);

static inline struct conn *conn_of(struct cm_conn *c)
{
	return (struct conn *)c;
}

/* Do both routes lead to the same peer? Only for a link-local address does the interface
 * count. */
static inline bool route_same_peer(const struct cm_route *a, const struct cm_route *b)
{
	return !memcmp(a->dst, b->dst, 16) && a->dlid == b->dlid &&
	       (a->ifindex == b->ifindex || !addr_is_link_local(a->dst));
}

/* Do both routes lead to the same peer, from the same address of ours? */
static inline bool route_same(const struct cm_route *a, const struct cm_route *b)
{
	return route_same_peer(a, b) && !memcmp(a->src, b->src, 16);
}

/* --- conn.c: memory, identifiers, tables --------------------------------- */

/* Makes sure that conn_new() succeeds n times. Returns 0 or -ENOMEM. */
int conn_reserve(struct cm *cm, unsigned n);
unsigned conn_spare(const struct cm *cm); /* how many times conn_new() will succeed */
/* Returns a connection in ST_IDLE, held, or NULL if conn_spare() is 0. */
struct conn *conn_new(struct cm *cm);
uint64_t conn_tid(const struct conn *c); /* a new TID for a request of c */
void conn_free(struct conn *c);
struct conn *conn_find(struct cm *cm, uint32_t local_id);
/* Enters c in the tables. conn_hash() is for a passive connection, which
 * conn_find_request() then finds; conn_hash_qp() for any, once the peer's QP is known.
 * conn_unhash() undoes both. */
void conn_hash(struct conn *c);
void conn_hash_qp(struct conn *c);
void conn_unhash(struct conn *c);
struct conn *conn_find_request(struct cm *cm, const struct cm_route *route,
			       uint32_t remote_id, bool datagram, uint64_t tid);
/* Finds a connection with the QP or the ID of the peer that sends this REQ. */
struct conn *conn_find_stale(struct cm *cm, const struct cm_route *route,
			     const struct cm_msg *req);
struct conn *conn_at(struct cm *cm, unsigned index); /* index < cm->used */
/* Changes c's state. ST_IDLE may free c, so the caller must not use c afterwards. */
void conn_become(struct conn *c, enum conn_state state);
/* Reports an event to c's owner, if it has one. Returns false if the owner has no memory
 * for it. */
bool conn_tell(struct conn *c, enum cm_event_type type, int status,
	       const struct cm_param *peer);
/* Returns a message with the header and the identifiers of c. */
struct cm_msg conn_msg(const struct conn *c, enum cm_type type);
void conn_private(struct cm_msg *m, const void *data, size_t len);
/* Returns how many bytes at the head of the private data hold IP addresses (annex A11)
 * and are not the program's. */
size_t conn_skip(const struct cm_target *to);
void conn_say_ip(struct cm_msg *m, const struct cm_target *to, const struct cm_param *p);
void param_of(const struct cm_msg *m, size_t skip, struct cm_param *p);

/* --- retry.c: MADs that are sent until they are answered ----------------- */

/* Sends m once. If there is no room, m is lost and cm->counter[CM_TX_FULL] counts it. */
void send_mad(struct cm *cm, const struct cm_route *route, const struct cm_msg *m);
/* As send_mad() to c's peer, and keeps m for send_again(). */
void send_kept(struct conn *c, const struct cm_msg *m);
void send_until_answered(struct conn *c, const struct cm_msg *m, uint8_t timeout,
			 unsigned retries, uint64_t now);
void send_again(struct conn *c);
void answered(struct conn *c);
void put_off(struct conn *c, uint8_t service_timeout, uint64_t now);
/* c's timer went off. Sends the MAD again, or returns false if no tries remain. */
bool retry_run(struct conn *c, uint64_t now);
uint64_t cm_interval(uint8_t n); /* 4.096 us * 2^n */

/* --- ib_cm.c, ib_request.c, ib_end.c: the protocol ----------------------- */

/* The REJ of c's REQ or REP. */
struct cm_msg conn_rej(const struct conn *c, enum cm_about about, uint16_t reason,
		       const void *private, size_t len);
/* Sends it; the caller changes the state of c. */
void conn_reject(struct conn *c, enum cm_about about, uint16_t reason,
		 const void *private, size_t len);
/* c's request has had its last answer, which c->mad holds. It is kept for a while: the
 * peer sends its request again until it has the answer (retry.c), so a copy may arrive
 * after the answer went out, and a program must not take it for another request. */
void conn_answered(struct conn *c, uint64_t now);
void conn_timewait(struct conn *c, uint64_t now);
void conn_timer(struct conn *c, uint64_t now);
/* The peer's process died. Returns false if c's owner has no memory for the event. */
bool ibcm_disconnected(struct conn *c, uint64_t now);
/* No process is left at the peer's host, which waits for c in vain: ends c. */
void ibcm_nobody(struct conn *c, uint64_t now);
int ibcm_disconnect(struct cm_conn *base, uint64_t now);
void ibcm_close(struct cm_conn *base, uint64_t now);
int ibcm_established(struct cm_conn *base, uint64_t now);
void on_early_dreq(struct conn *c, const struct cm_msg *m, uint64_t now);
void on_dreq(struct conn *c, const struct cm_msg *m, uint64_t now);
void on_drep(struct conn *c, const struct cm_msg *m, uint64_t now);

/* Handles a message for an existing connection. Returns false if we have none that m is
 * for. */
bool ibcm_message(struct cm *cm, const struct cm_route *route, const struct cm_msg *m,
		  uint64_t now);
/* Handles a REQ or SIDR_REQ that repeats one whose connection we have. Returns false if
 * there is no such connection. */
bool ibcm_known_request(struct cm *cm, const struct cm_route *route,
			const struct cm_msg *m, uint64_t now);
void ibcm_request(struct cm_listener *l, const struct cm_target *from,
		  const struct cm_msg *m, uint64_t now);

/* --- peer.c: does the peer's process live? ------------------------------- */

/* Begins to check whether the peer's process lives. Returns false if that process is
 * gone: c is then disconnected, and may have been freed. */
bool conn_watch(struct conn *c, uint64_t now);
void conn_look(struct conn *c, uint64_t now); /* c's timer went off */
/* A message that any user could have sent says that c is over. If the peer is of this
 * host, asks it whether it still has c (c ends if not) and returns true. Otherwise
 * returns false. */
bool conn_doubt(struct conn *c, uint64_t now);
bool route_is_local(const struct cm *cm, const struct cm_route *route);
void peer_heard(struct cm *cm, const struct cm_route *route);
/* The process that was c's peer is gone from its host: checks our other connections to it
 * soon. */
void peer_process_gone(struct conn *c, uint64_t now);
void peer_run(struct cm *cm, uint64_t now);
uint64_t peer_deadline(const struct cm *cm);

/* --- ib_sidr.c ----------------------------------------------------------- */

int sidr_connect(struct conn *c, const struct cm_target *to, const struct cm_param *self,
		 uint64_t now);
int sidr_reply(struct conn *c, const struct cm_param *self, uint16_t status,
	       uint64_t now);
void on_sidr_rep(struct conn *c, const struct cm_msg *m, uint64_t now);

/* --- listen.c ------------------------------------------------------------ */

/* via_set(): c is half open and was found by the name of l, which l keeps until
 * via_clear(). */
void via_set(struct conn *c, struct cm_listener *l);
void via_clear(struct conn *c);
void listeners_free(struct cm *cm);
void listeners_forked(struct cm *cm);
void listeners_refill(struct cm *cm); /* replaces connections that requests took */
/* Returns a connection for a new request, or NULL if the backlog is full. */
struct conn *listener_take(struct cm_listener *l);
struct cm_listener *find_listener(struct cm *cm, const struct cm_target *from,
				  bool datagram);
/* Writes the names of services that may serve a request, best match first; returns how
 * many. */
enum { NAMES_MAX = 3, NAME_LEN = 80 };
unsigned service_names(const struct cm_target *from, char name[NAMES_MAX][NAME_LEN]);

/* --- gsi.c --------------------------------------------------------------- */

/* Returns the P_Key of packets that take this route. */
uint16_t gsi_pkey(struct cm *cm, const struct cm_route *route);
void gsi_input(struct gsi *g, const struct gsi_mad *in, uint64_t now);
/* Does m ask for a service? Then it names no connection of the receiver's. */
bool gsi_is_request(const struct cm_msg *m);
/* Handles a MAD that came by this route, either here or at another process of this host
 * that forwarded it. */
void gsi_take(struct cm *cm, const struct cm_route *route, const uint8_t *mad, size_t len,
	      bool forwarded, uint64_t now);
/* A route with a LID leads through InfiniBand, any other through Ethernet. */
static inline struct qp1 *gsi_port(struct cm *cm, const struct cm_route *route)
{
	return route->dlid ? cm->ib : cm->net;
}
int gsi_send(struct cm *cm, const struct cm_route *route, const uint8_t *mad);
/* Sends a MAD without a GRH, to the LID of the route. */
int gsi_ask(struct cm *cm, const struct cm_route *route, const uint8_t *mad);
/* Looks again for the services of held requests. */
void gsi_run(struct cm *cm, uint64_t now);

/* --- sa.c ---------------------------------------------------------------- */

/* Returns false if the MAD is not of the SA's class. */
bool sa_input(struct cm *cm, uint16_t slid, const uint8_t *mad, size_t len);
void sa_run(struct cm *cm, uint64_t now);
void sa_close(struct cm *cm);

/* A question to the SA, sent again and again, after twice as long each time, until the SA
 * answers (sa_answered()) or the patience of the caller of sa_ask_begin() ends. */
struct sa_ask {
	struct heap_node timer;
	uint64_t tid, until, wait_ns;
	const struct sa_ask_ops *ops;
};

struct sa_ask_ops {
	void (*ask)(struct cm *cm, const struct sa_ask *a);
	/* Called when patience has ended. It calls sa_answered() or sa_ask_end(), or
	 * returns true: the question goes on without end. */
	bool (*silent)(struct cm *cm, struct sa_ask *a);
};

/* Reserves a timer for a. Returns 0 or -ENOMEM. Then sa_ask_begin() may be called any
 * number of times, until sa_ask_end(). */
int sa_ask_init(struct cm *cm, struct sa_ask *a, const struct sa_ask_ops *ops);
void sa_ask_begin(struct cm *cm, struct sa_ask *a, uint64_t patience_ns, uint64_t now);
void sa_answered(struct cm *cm, struct sa_ask *a);
void sa_ask_end(struct cm *cm, struct sa_ask *a);
/* Returns a new transaction ID of this process. */
uint64_t sa_tid(struct cm *cm);
/* Sends a MAD to the subnet manager's LID, if a subnet manager is known. */
void sa_send(struct cm *cm, const struct cm_route *route, const uint8_t mad[MAD_LEN]);

/* --- sa_group.c ---------------------------------------------------------- */

void group_input(struct cm *cm, const uint8_t mad[MAD_LEN]);
void group_close(struct cm *cm);

/* --- forward.c: MADs to other processes of this host --------------------- */

/* Forwards a MAD that came by this route to the process with this slot, or to the process
 * that has bound this name. Returns as host_forward() does. */
int forward_to_slot(struct cm *cm, uint16_t slot, const struct cm_route *route,
		    const uint8_t *mad);
int forward_to_name(struct cm *cm, const char *name, const struct cm_route *route,
		    const uint8_t *mad);
/* Forwards a MAD of ours, which this route would take, to its peer if the peer is the
 * process of this host with this slot. Returns false if the MAD has to go by the wire. */
bool forward_to_peer(struct cm *cm, uint16_t slot, const struct cm_route *route,
		     const uint8_t *mad);
/* Keeps a MAD that came by QP1 until what its sender may have sent before is taken in.
 * Returns false if it need not wait. */
bool forward_wait(struct cm *cm, const struct cm_route *route, const uint8_t *mad,
		  size_t len, uint64_t now);
void forward_run(struct cm *cm, uint64_t now);

#endif
