/* SPDX-License-Identifier: BSD-2-Clause */
/* raw.h - frames that side A sends by a raw packet QP. */
#ifndef TESTS_RAW_H
#define TESTS_RAW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { FRAMES = 32, FRAME = 60, STEP = 256 /* between receives */ };

struct side;

/* Makes a UDP frame to 02:55:0:0:0:1, from port 1000 + i; its checksums do not matter. */
void frame_of(uint8_t at[FRAME], unsigned i);
/* Makes a raw packet QP in RTS.  Returns NULL with errno set on failure. */
struct ibv_qp *raw_qp(struct side *s, uint32_t receives);
/* Makes A's raw packet QP to send by.  Returns false, after saying why, if the sides
 * cannot have raw packet QPs here, or are in one process. */
bool raw_here(void);

/* counters.c, scatter.c: rows */
void counters(void);
void scattered(void);

#endif
