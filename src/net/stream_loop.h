/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_loop.h - two streams joined, in virtual time: for unit tests.  They can
 * cut and delay what they carry at seeded places. */
#ifndef NET_STREAM_LOOP_H
#define NET_STREAM_LOOP_H

#include <stdbool.h>

#include "net/stream.h"

/* 0 selects the default, given in brackets. */
struct stream_loop_conf {
	uint64_t latency; /* ns from send to recv [0] */
	uint64_t jitter;  /* at most this many ns more [0] */
	size_t depth;	  /* bytes in transit, each way [256 KiB] */
	size_t mss;	  /* [1448] */
	uint64_t seed;	  /* 0: transfers are not split */
};

/* Joins two streams. Either end may be closed first; the other then sees the end after
 * it has received what was sent. Returns 0 or -ENOMEM. */
int stream_loop_pair(struct stream **a, struct stream **b,
		     const struct stream_loop_conf *conf);

/* Breaks the connection as the network would: both ends get -why. */
void stream_loop_break(struct stream *s, int why);

/* Has tap() see, and perhaps change, the bytes that `s` sends; NULL: none. */
void stream_loop_tap(struct stream *s, void (*tap)(void *arg, uint8_t *at, size_t n),
		     void *arg);

#endif
