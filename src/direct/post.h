/* SPDX-License-Identifier: BSD-2-Clause */
/* post.h - requests on mapped memory of another process that are carried out by the
 * thread that posts them, without the turn.  For transports. */
#ifndef DIRECT_POST_H
#define DIRECT_POST_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "direct/direct.h"
#include "verbs/qp.h"
#include "verbs/source.h"
#include "verbs/wr_op.h"

/* A QP of which nothing is outstanding, nor waits to be sent. */
struct poster {
	struct by by;
	struct allowed *allowed; /* what the QP remembers */
	struct send_cursor *at;
	uint32_t *part; /* bytes that were copied of a request that was only begun */
};

/* May reach_post() carry out such a request? */
static inline bool is_direct(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE ||
	       ((unsigned)opcode < 32 && WR_AT_ONCES >> opcode & 1);
}

/* As at_once() of struct transport. */
struct ibv_send_wr *reach_post(const struct poster *p, struct ibv_send_wr *wr)
	REQUIRES(p->by.qp->lock);

#endif
