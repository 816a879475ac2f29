/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.h - what the engine is about to put out: datagrams of several QPs in one batch,
 * so that they share a system call.  Each QP learns what was taken of its own.  Turn
 * held. */
#ifndef NIC_OUTBOX_H
#define NIC_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "link/batch.h"

struct engine;
struct qp;

struct outbox {
	struct batch batch;
	/* Whose datagrams are in it: v[first ... first + n). */
	struct part {
		struct qp *qp;
		unsigned first, n;
		uint64_t retry; /* it waits so long for room; 0: it does not */
	} part[BATCH_MAX];
	unsigned parts;
};

/* What qp has to send goes into the batch, as far as it has room.  True: there is
 * more.  qp->lock held. */
bool out_ask(struct engine *e, struct qp *qp, uint64_t now);
/* A QP that finds no room says that it has more to send: without a flush it
 * would be asked for ever. */
bool out_nearly_full(const struct engine *e);
/* All of it goes its way: within the host, or by its link. */
void out_flush(struct engine *e, uint64_t now);

#endif
