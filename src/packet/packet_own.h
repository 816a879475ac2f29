/* SPDX-License-Identifier: BSD-2-Clause */
/* packet_own.h - inside packet/ only. */
#ifndef PACKET_PACKET_OWN_H
#define PACKET_PACKET_OWN_H

#include <stdint.h>

#include "core/qp.h"
#include "core/room.h"
#include "core/target.h"
#include "core/transport.h"
#include "packet/rss.h"
#include "sys/list.h"
#include "sys/live.h"

struct flow_frame;
struct frames;
struct input;
struct iovec;
struct wq_table;

struct packets {
	int epfd;
	_Atomic bool listens; /* there are taps */
	void (*on_first)(void *arg);
	void *arg;
	struct list taps;
	struct list qps;    /* packet_qp.node */
	struct input *in;   /* tap.c's; from the first rule on */
	struct frames *out; /* packet.c's; from the first QP on */
};

/* A QP whose receives are those of a table's queues. */
struct spread {
	struct wq_table *table;
	struct rss rss;
};

/* qp->tp */
struct packet_qp {
	struct list node; /* of packets->qps */
	struct qp *qp;
	int fd; /* a packet socket to send by; it takes in nothing */
	struct target target;
	uint64_t full_until;   /* the socket was full */
	uint64_t next_at;      /* with a rate limit: nothing is sent before */
	uint64_t dropped;      /* no receive, or one that is too short */
	uint64_t not_sent;     /* the interface did not take them */
	uint64_t said_dropped; /* log_allowed() */
	struct spread *spread; /* NULL: its receives are its own */
};

static inline struct packet_qp *packet_qp_of(const struct qp *qp)
{
	return qp->tp;
}

/* A packet socket that takes in nothing yet.  -errno. */
int packet_socket(void);

/* A frame in n pieces of len bytes for the QP, which takes it or drops it. */
void packet_deliver(struct qp *qp, const struct flow_frame *frame,
		    const struct iovec *iov, unsigned n, uint32_t len, uint64_t now);

#endif
