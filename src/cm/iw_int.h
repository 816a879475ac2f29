/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_int.h - what the files of iWARP's connection setup share. Included inside cm/ only;
 * read docs/dev/cm.md first. */
#ifndef CM_IW_INT_H
#define CM_IW_INT_H

#include "cm/cm_int.h"
#include "iwarp/iwarp.h"
#include "net/stream.h"

struct qp;

enum {
	IWC_HALF_MAX = 256, /* TCP connections whose request no program has seen */
	IWC_EVENTS = 32,    /* most that one epoll_wait() returns */
	IWC_DATA_MAX = 256, /* bytes of private data: the API's limit */
};

#define IWC_CONNECT_NS 20000000000ull /* for TCP's handshake */
#define IWC_REPLY_NS   60000000000ull /* for the peer's program to answer the request */
#define IWC_RTR_NS     60000000000ull /* for the peer's program to read the reply */
#define IWC_REQUEST_NS 10000000000ull /* for MPA's request, once TCP is connected */
#define IWC_EVICT_NS   1000000000ull  /* an older half-open connection may be evicted */
#define IWC_PAUSE_NS   20000000ull /* a listener without descriptors or memory pauses */
#define IWC_HOPE_NS    50000000ull /* so long TCP refusals are not final */
#define IWC_AGAIN_NS   5000000ull  /* interval of tries meanwhile */
#define IWC_LOOK_NS    50000ull	   /* least interval between two looks at the sockets */

enum iwc_state {
	IWC_CONNECTING, /* initiator: TCP's handshake */
	IWC_REFUSED,	/* initiator: TCP refused, to be tried again */
	IWC_ASKING,	/* initiator: request sent, reply awaited */
	IWC_ANSWERED,	/* initiator: reply received, attach() is next */
	IWC_AWAITING,	/* responder: request awaited */
	IWC_PARKED,	/* responder: request received, listener has no room */
	IWC_ASKED,	/* responder: request reported, accept() or reject() is next */
	IWC_ACCEPTED,	/* responder: reply sent, attach() is next */
	IWC_ATTACHED,	/* responder: QP attached, RTR awaited */
	IWC_CONNECTED,
	IWC_OVER,
};

struct iwc {
	struct cm_conn base; /* must be first */
	struct cm *cm;
	struct list node;  /* in iw->all */
	struct list half;  /* in iw->half if AWAITING or PARKED, oldest first */
	struct list later; /* in iw->later */
	struct list noted; /* in iw->noted */
	struct heap_node timer;
	struct iw_watch watch; /* fd: that of the stream, if there is one */
	enum iwc_state state;
	bool passive;
	bool held;	   /* an owner, or a request not read yet, refers to c */
	bool fallback;	   /* this is the second try, with revision 1 */
	bool connected;	   /* a QP has been attached */
	bool parted;	   /* disconnect() was called */
	int failed;	   /* CONNECTING, ATTACHED: why it ends, -errno */
	uint64_t since;	   /* half: when it came */
	uint64_t later_at; /* later: when that was noted */
	bool behind;	   /* later: ends that were noted after it go first */
	uint64_t hope;	   /* initiator: refusals do not count before then */
	struct cm_listener *listener; /* while no program has read its request */
	struct cm_target to;	      /* addresses and ports */
	struct stream *stream;	      /* cm's until a QP is attached */
	uint32_t qpn;
	uint16_t ird, ord;
	uint16_t data_len;
	uint8_t data[IWC_DATA_MAX];
	struct iw_setup setup;
	/* The attached QP. Written under the turn and the QP's lock, read under the
	 * turn. */
	struct qp *qp;	   /* NULL once the transport has called on_ended() */
	bool ready, ended; /* set by the transport; the event follows */
	enum iw_end how;
};

/* iWARP's part of struct cm. */
struct iw_cm {
	int epfd;
	_Atomic unsigned sockets; /* number of fds in it; written under the turn */
	uint64_t look_at;	  /* no epoll_wait() before then */
	/* When pausing listeners, and PARKED connections, are tried again; NEVER: not
	 * before iwc_room() is called. */
	uint64_t resume_at;
	struct heap timers;
	unsigned n, half_n;
	struct list all, half, noted;
	/* Whose setup is settled, or whose connection has ended, in the order in which
	 * that was noted; told when everything that came before has been taken in. */
	struct list later;
	unsigned ends; /* those in `later` whose connection has ended */
};

static inline struct iwc *iwc_of(struct cm_conn *c)
{
	return (struct iwc *)c;
}

/* --- iw_conn.c: memory, descriptors, timers, events ---------------------- */

int iw_open(struct cm *cm); /* Returns 0 or -errno. */
void iw_close(struct cm *cm);
void iw_forked(struct cm *cm);
/* At exit(): refuses requests that have no answer yet. The kernel ends the other
 * connections. */
void iw_leave(struct cm *cm, uint64_t now);

struct iwc *iwc_new(struct cm *cm); /* Returns NULL if there is no memory. */
void iwc_leave_half(struct iwc *c); /* takes c out of iw->half */
void iwc_close_socket(struct iwc *c);
/* Ends c and closes its socket. May free c, so the caller must not use c afterwards. */
void iwc_over(struct iwc *c);
void iwc_drop(struct iwc *c); /* ends a c that no program has heard of */
/* A request of l has an owner or is over: l has room for another. */
void iwc_room(struct cm_listener *l);
void iwc_put(struct iwc *c); /* frees c if it is over and nothing refers to it */
void iwc_timer(struct iwc *c, uint64_t at);
/* Sets the events (EPOLLIN ...) that are watched for; 0: none. Returns 0 or -errno. */
int iw_watch(struct cm *cm, struct iw_watch *w, uint32_t events);
void iwc_tell(struct iwc *c, enum cm_event_type type, int status,
	      const struct cm_param *peer);
void iw_taken(struct iwc *c); /* as cm_taken() */
/* c's setup is settled, or its connection has ended: iwc_settled() or iwc_told_end() is
 * called when everything that came before has been taken in. */
void iwc_later(struct iwc *c, uint64_t now);

bool iw_input(struct cm *cm, uint64_t now);
/* Reports what QPs have noted and how setups have ended; runs timers. */
void iw_run(struct cm *cm, uint64_t now);
uint64_t iw_deadline(const struct cm *cm);

/* --- iw_cm.c: the protocol ----------------------------------------------- */

/* Reports to c's program that the connection failed with errno -rc, and ends c. */
void iwc_fail(struct iwc *c, int rc);
/* A peer older than RFC 6581 may hang up on a revision that it does not know (RFC 6581,
 * 10). Begins c again with revision 1; returns false if that was done before. */
bool iwc_fall_back(struct iwc *c, uint64_t now);
/* c's descriptor is, or may be, ready. */
void iwc_progress(struct iwc *c, uint64_t now);
void iwc_timeout(struct iwc *c, uint64_t now);
/* The initiator's TCP connection is there: sends MPA's request. */
void iwc_ask(struct iwc *c, struct stream *s, uint64_t now);
/* Makes a connection for a stream that came to l. Owns s; returns false if there is no
 * memory. */
bool iwc_come(struct cm_listener *l, struct stream *s, const struct cm_target *from,
	      uint64_t now);
void iwc_close(struct cm_conn *base, uint64_t now);

/* --- iw_mpa.c: MPA's setup ----------------------------------------------- */

/* Sends the bytes of MPA's setup that wait. Returns how many remain, or -errno. */
ssize_t iwc_flush(struct iwc *c, uint64_t now);
/* Sends and receives as much as the socket allows. */
void iwc_pump(struct iwc *c, uint64_t now);
/* The setup has a result: acts on it. */
void iwc_settled(struct iwc *c, uint64_t now);
/* Has l no room for another request? */
bool iwc_is_full(const struct cm_listener *l);
/* Reports the request of c, which is in iw->half, to its listener's program. */
void iwc_tell_request(struct iwc *c, uint64_t now);
/* Ends c, which is in iw->half. A request that is complete is rejected: without an answer
 * the peer would try again with revision 1. */
void iwc_turn_away(struct iwc *c, uint64_t now);

/* --- iw_attach.c: the QP ------------------------------------------------- */

/* Can this QP be attached (iWARP, in INIT)? Returns 0 or -EINVAL. */
int iwc_check_qp(struct cm *cm, uint32_t qpn);
int iwc_attach(struct cm_conn *base, uint64_t now);
void iwc_noted(struct iwc *c, uint64_t now);
void iwc_told_end(struct iwc *c); /* reports that c has ended; c is over */
/* Disconnects c's QP, if there is one. */
void iwc_detach(struct iwc *c, uint64_t now);

/* --- iw_listen.c --------------------------------------------------------- */

int iw_bind(struct cm_listener *l, bool any_port); /* Returns 0 or -errno. */
/* Returns 0, or -errno after closing the socket. */
int iw_listen(struct cm_listener *l);
void iw_unlisten(struct cm_listener *l);
void iw_accept(struct cm_listener *l, uint64_t now);
void iw_resume(struct cm *cm, uint64_t now); /* resumes listeners that pause */

/* --- iw_sock.c: TCP sockets, all non-blocking, with descriptor numbers out of the
 * program's way (sys/fd.h) --- */

/* Begins to connect. Sets *fd, which is writable when the connection is made or has
 * failed. Binds the source port in `to` if it is free, else any other, and stores in `to`
 * the port used. Returns 0 or -errno. */
int iw_sock_connect(struct cm_target *to, int *fd);
/* Sets the type of service (IPv4) or traffic class (IPv6) of what fd sends. ip is an
 * address of either end and tells the family; tclass 0 leaves the default. */
void iw_sock_set_tos(int fd, const uint8_t ip[16], uint8_t tclass);
/* Returns how an attempt to connect ended: 0 or -errno. */
int iw_sock_result(int fd);

/* Returns a socket bound to the service's address and port, or -errno. any_port: another
 * port would do as well, so no other socket shall share this one, not even with
 * SO_REUSEADDR. */
int iw_sock_bind(const struct cm_service *s, bool any_port);
int iw_sock_listen(int fd, int backlog); /* Returns 0 or -errno. */
/* Returns the descriptor of the next connection, or -errno (-EAGAIN: none). Stores in
 * from the peer's address as dst and ours as src, both in the route and as the programs'
 * addresses. */
int iw_sock_accept(int fd, struct cm_target *from);

#endif
