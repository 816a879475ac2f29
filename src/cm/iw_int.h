/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_int.h - what the files of iWARP's connection setup share.  Inside cm/ only;
 * docs/cm.md is the page to read first. */
#ifndef CM_IW_INT_H
#define CM_IW_INT_H

#include <sys/epoll.h>

#include "cm/cm_int.h"
#include "iwarp/iwarp.h"
#include "link/stream.h"

struct qp;

enum {
	IWC_HALF_MAX = 256, /* TCP connections whose request nobody has */
	IWC_EVENTS = 32,    /* of one look */
	IWC_DATA_MAX = 256, /* private data of ours: the API's limit */
};

#define IWC_CONNECT_NS 20000000000ull /* for TCP's handshake */
#define IWC_REPLY_NS   60000000000ull /* the peer's program takes its time */
#define IWC_RTR_NS     60000000000ull /* ... to read the reply, too */
#define IWC_REQUEST_NS 10000000000ull /* MPA's request comes at once */
#define IWC_EVICT_NS   1000000000ull  /* ... or makes place for others */
#define IWC_PAUSE_NS   20000000ull    /* a listener without room looks again */
#define IWC_HOPE_NS    50000000ull    /* refused: perhaps somebody is about to listen */
#define IWC_AGAIN_NS   5000000ull     /* ... so it is tried again */
#define IWC_LOOK_NS    50000ull	      /* so often are sockets looked at, at most */

enum iwc_state {
	IWC_CONNECTING, /* initiator: TCP's handshake */
	IWC_REFUSED,	/* for now */
	IWC_ASKING,	/* request sent, reply awaited */
	IWC_ANSWERED,	/* attach() is next */
	IWC_AWAITING,	/* responder: the request is awaited */
	IWC_PARKED,	/* it is there, its listener has no room */
	IWC_ASKED,	/* accept() or reject() is next */
	IWC_ACCEPTED,	/* reply sent; attach() is next */
	IWC_ATTACHED,	/* responder: the RTR is awaited */
	IWC_CONNECTED,
	IWC_OVER,
};

struct iwc {
	struct cm_conn base; /* first */
	struct cm *cm;
	struct list node;  /* iw->all */
	struct list half;  /* iw->half: AWAITING, PARKED, oldest first */
	struct list noted; /* iw->noted */
	struct heap_node timer;
	struct iw_watch watch; /* fd: the socket's until there is a stream */
	enum iwc_state state;
	bool passive;
	bool held;	/* an owner, or a request nobody has read */
	bool fallback;	/* this is the try with revision 1 */
	bool connected; /* has been attached */
	bool parted;	/* disconnect() was called */
	int failed;	/* CONNECTING, ATTACHED: why it is over, -errno */
	bool missed;	/* .. event, while there was no owner */
	enum cm_event_type missed_type;
	int missed_status;
	uint64_t since;		      /* half: from then on */
	uint64_t hope;		      /* initiator: until then refusals do not count */
	struct cm_listener *listener; /* nobody owns it yet */
	struct cm_target to;	      /* addresses and ports */
	struct stream *stream;	      /* cm's, until it is attached */
	uint32_t qpn;
	uint16_t ird, ord;
	uint16_t data_len;
	uint8_t data[IWC_DATA_MAX];
	struct iw_setup setup;
	/* Its QP.  Written under the turn and the QP's lock, read under the turn. */
	struct qp *qp;	   /* as long as ended() may come */
	bool ready, ended; /* noted; the event follows */
	enum iw_end how;
};

/* One per NIC. */
struct iw_cm {
	int epfd;
	_Atomic unsigned sockets; /* in it; written under the turn */
	uint64_t look_at;	  /* not before */
	int events;		  /* of the last look */
	struct epoll_event event[IWC_EVENTS];
	uint64_t resume_at; /* listeners look again, PARKED ones too;
			     * NEVER: when there is room */
	struct heap timers;
	unsigned n, half_n;
	struct list all, half, noted;
};

static inline struct iwc *iwc_of(struct cm_conn *c)
{
	return (struct iwc *)c;
}

/* --- iw_conn.c: memory, watching, timers, telling ------------------------ */

int iw_open(struct cm *cm); /* 0, -errno */
void iw_close(struct cm *cm);
void iw_forked(struct cm *cm);
/* At exit(): requests that nobody has answered are refused.  The kernel ends the rest. */
void iw_leave(struct cm *cm, uint64_t now);

struct iwc *iwc_new(struct cm *cm); /* NULL: no memory */
void iwc_leave_half(struct iwc *c); /* its request has come */
void iwc_close_socket(struct iwc *c);
/* It is over: the socket is closed.  The last thing done to c: it may be gone. */
void iwc_over(struct iwc *c);
void iwc_drop(struct iwc *c); /* ... and nobody has heard of it */
/* A request of l is somebody's now, or over: there is room for the next. */
void iwc_room(struct cm_listener *l);
void iwc_put(struct iwc *c); /* the same, if nothing refers to it */
void iwc_timer(struct iwc *c, uint64_t at);
/* Be told of these (EPOLLIN ...); 0: of nothing. */
int iw_watch(struct cm *cm, struct iw_watch *w, uint32_t events);
void iwc_tell(struct iwc *c, enum cm_event_type type, int status,
	      const struct cm_param *peer);
void iw_own(struct iwc *c, struct cm_owner *owner);

void iw_look(struct cm *cm, uint64_t now);
bool iw_input(struct cm *cm, uint64_t now);
void iw_run(struct cm *cm, uint64_t now); /* notes, timers */
uint64_t iw_deadline(const struct cm *cm);

/* --- iw_cm.c: the protocol ----------------------------------------------- */

/* Its program is told that it has failed, by the errno -rc, and it is over. */
void iwc_fail(struct iwc *c, int rc);
/* RFC 6581, 10: a peer older than that RFC may hang up on a revision that it does not
 * know.  c begins again with revision 1; false: it has done so before. */
bool iwc_fall_back(struct iwc *c, uint64_t now);
/* Its descriptor is ready, or may be. */
void iwc_progress(struct iwc *c, uint64_t now);
void iwc_timeout(struct iwc *c, uint64_t now);
/* The initiator's stream stands: ask. */
void iwc_ask(struct iwc *c, struct stream *s, uint64_t now);
/* A stream to one of our listeners.  It is taken; false: no memory. */
bool iwc_come(struct cm_listener *l, struct stream *s, const struct cm_target *from,
	      uint64_t now);
void iwc_close(struct cm_conn *base, uint64_t now);

/* --- iw_mpa.c: MPA's setup ----------------------------------------------- */

/* Sends what is to be sent.  Returns how many bytes are left, or -errno. */
ssize_t iwc_flush(struct iwc *c, uint64_t now);
/* Sends and receives, as far as the socket allows, and acts on it. */
void iwc_pump(struct iwc *c, uint64_t now);
/* l has no more room for requests. */
bool iwc_is_full(const struct cm_listener *l);
/* Of iw->half: its listener's program gets the request. */
void iwc_tell_request(struct iwc *c, uint64_t now);
/* Of iw->half: it has to go.  A whole request is rejected, not left unanswered: its
 * peer would try again with revision 1. */
void iwc_turn_away(struct iwc *c, uint64_t now);

/* --- iw_attach.c: the QP ------------------------------------------------- */

/* May the QP be attached?  0 or -EINVAL. */
int iwc_check_qp(struct cm *cm, uint32_t qpn);
int iwc_attach(struct cm_conn *base, uint64_t now);
void iwc_noted(struct iwc *c);
/* Its QP, if any, is done with it. */
void iwc_detach(struct iwc *c, uint64_t now);

/* --- iw_listen.c --------------------------------------------------------- */

int iw_bind(struct cm_listener *l, bool any_port); /* 0 or -errno */
int iw_listen(struct cm_listener *l);		   /* ...; then the socket is gone, too */
void iw_unlisten(struct cm_listener *l);
void iw_accept(struct cm_listener *l, uint64_t now);
void iw_resume(struct cm *cm, uint64_t now); /* those that pause look again */

#endif
