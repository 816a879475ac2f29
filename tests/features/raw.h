/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h - frames that A sends by a raw packet QP. */
#ifndef TESTS_RAW_H
#define TESTS_RAW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { FRAMES = 32, FRAME = 60, STEP = 256 /* between receives */ };

struct side;

/* UDP to 02:55:0:0:0:1, from port 1000 + i.  What the sums are nobody looks at. */
void frame_of(uint8_t at[FRAME], unsigned i);
/* In RTS; NULL and errno. */
struct ibv_qp *raw_qp(struct side *s, uint32_t receives);
/* A has a QP to send by, and B may have some.  False: that is not so here. */
bool raw_here(void);

/* counters.c: a row */
void counters(void);

#endif
