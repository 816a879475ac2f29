/* SPDX-License-Identifier: BSD-2-Clause */
/* loop.h - two links joined by a cable, in virtual time: for unit tests. */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>

#include "net/link.h"

/* 0 selects the default, given in brackets. */
struct loop_conf {
	uint64_t latency; /* ns from send to recv [0] */
	unsigned depth;	  /* datagrams on their way, each way [256] */
	size_t mtu;	  /* [4200] */
	unsigned run_max; /* [1] */
	/* hide IPv4 identifications from the receiver, as a UDP socket does */
	bool hide_ids;
	/* when full, send() takes fewer datagrams, as a socket does, instead of losing
	 * them */
	bool backpressure;
};

struct loop_stats {
	uint64_t sent, lost;
};

/* Joins two links: the peer receives a datagram `latency` after it was sent, in order. A
 * datagram is lost if the queue is full or the other end is closed. Identifications
 * arrive exactly as sent, unless hide_ids. Either end may be closed first. Returns 0 or
 * -ENOMEM. */
int loop_pair(struct link **a, struct link **b, const struct loop_conf *conf);

const struct loop_stats *loop_stats(const struct link *link);

#endif
