/* SPDX-License-Identifier: BSD-2-Clause */
/* loop.h - two links joined by a cable, in virtual time: for unit tests. */
#ifndef LINK_LOOP_H
#define LINK_LOOP_H

#include <stdbool.h>

#include "link/link.h"

/* 0: the default in brackets */
struct loop_conf {
	uint64_t latency;  /* ns from send to recv [0] */
	unsigned depth;	   /* datagrams on their way, each way [256] */
	size_t mtu;	   /* [4200] */
	unsigned run_max;  /* [1] */
	bool hide_ids;	   /* IPv4 identifications are not seen, as by a
			    * socket */
	bool backpressure; /* full: send takes fewer, as a socket
			    * does, instead of losing them */
};

struct loop_stats {
	uint64_t sent, lost;
};

/* What one sends the other receives, latency later and in order; a datagram
 * that finds the queue full, or the other end closed, is lost.  Received ones
 * have the identification that they were sent with, exactly.  Either end may
 * be closed first.  0 or -ENOMEM. */
int loop_pair(struct link **a, struct link **b, const struct loop_conf *conf);

const struct loop_stats *loop_stats(const struct link *link);

#endif
