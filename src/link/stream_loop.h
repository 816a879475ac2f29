/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_loop.h - two streams joined, in virtual time: for unit tests.  They can
 * cut and delay what they carry at seeded places. */
#ifndef LINK_STREAM_LOOP_H
#define LINK_STREAM_LOOP_H

#include <stdbool.h>

#include "link/stream.h"

/* 0: the default in brackets */
struct stream_loop_conf {
	uint64_t latency; /* ns from send to recv [0] */
	uint64_t jitter;  /* up to so much more [0] */
	size_t depth;	  /* bytes on their way, each way [256 KiB] */
	size_t mss;	  /* [1448] */
	uint64_t seed;	  /* 0: nothing is cut */
};

/* 0 or -ENOMEM.  Either end may be closed first; the other then sees the end,
 * once it has received what was sent. */
int stream_loop_pair(struct stream **a, struct stream **b,
		     const struct stream_loop_conf *conf);

/* As if the network had lost the connection: both ends get -why. */
void stream_loop_break(struct stream *s, int why);

/* A function that sees, and may change, what `s` sends; NULL: none. */
void stream_loop_tap(struct stream *s, void (*tap)(void *arg, uint8_t *at, size_t n),
		     void *arg);

#endif
