/* SPDX-License-Identifier: BSD-2-Clause */
/* packet_own.h - state shared by the files of raw/, inside raw/ only. */
#ifndef RAW_PACKET_OWN_H
#define RAW_PACKET_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "raw/flow.h"
#include "raw/rss.h"
#include "sys/list.h"
#include "sys/live.h"
#include "verbs/qp.h"
#include "verbs/room.h"
#include "verbs/target.h"
#include "verbs/transport.h"

struct echoes;
struct frames;
struct input;
struct span;
struct wq_table;

struct packets {
	int epfd;
	_Atomic bool listens; /* true while there are taps (tap.c) */
	void (*on_first)(void *arg);
	void *arg;
	struct list taps;
	struct list qps;       /* list of packet_qp.node */
	struct input *in;      /* of tap.c; made with the first rule */
	struct frames *out;    /* of packet.c; made with the first QP */
	struct echoes *echoes; /* of echo.c; made when the first frame comes back */
};

/* A QP whose frames go to the queues of a table. */
struct spread {
	struct wq_table *table;
	struct rss rss;
};

/* The transport's state, qp->tp.state. */
struct packet_qp {
	struct list node; /* in packets->qps */
	struct qp *qp;
	int fd; /* a packet socket for sending; it receives nothing */
	struct target target;
	uint64_t full_until;   /* the socket is full: no send before this time */
	uint64_t next_at;      /* with a rate limit: earliest time of the next frame */
	uint64_t dropped;      /* frames dropped: no receive, or one too short */
	uint64_t not_sent;     /* frames that the interface did not take */
	uint64_t said_dropped; /* for log_allowed() */
	struct spread *spread; /* NULL: the QP has its own receives */
};

static inline struct packet_qp *packet_qp_of(const struct qp *qp)
{
	return qp->tp.state;
}

/* Returns a packet socket that receives nothing yet, or -errno. */
int packet_socket(void);

/* A frame that has come in, as it is on the wire but for the frame check sequence. */
struct frame_in {
	struct flow_frame head;
	uint32_t len;
	unsigned pieces;
	struct iovec piece[3];
	const uint8_t *cvlan; /* an 802.1Q tag, which is all of piece 1; else NULL */
};

/* Delivers a frame to the QP, which receives or drops it. */
void packet_deliver(struct qp *qp, const struct frame_in *frame, uint64_t now);

/* Does a QP of another context than `from` have a rule (IBV_FLOW_ATTR_NORMAL) for the
 * interface? */
bool tap_is_of_others(const struct packets *p, uint32_t ifindex,
		      const struct context *ctx);
/* Delivers a frame of n bytes, which a QP of context `from` has sent, to the rules of
 * other contexts. */
void tap_echo(struct packets *p, uint32_t ifindex, const struct context *from,
	      uint8_t *at, size_t n, uint64_t now);

/* Returns how many frames that qp sends echo.c has room to give to other contexts;
 * ECHO_NONE: no other context wants them, so any number may be sent. */
#define ECHO_NONE UINT32_MAX
unsigned echo_room(struct packets *p, const struct qp *qp);
/* Keeps a copy of a sent frame for packets_echo(). The caller has checked that there is
 * room. */
void echo_keep(struct packets *p, const struct qp *qp, const struct span *s,
	       uint32_t len);

#endif
