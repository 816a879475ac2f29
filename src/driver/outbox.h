/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.h - the datagrams that the engine is about to send: those of several QPs share
 * a batch and so a system call. Each QP is told how many of its datagrams were taken.
 * The turn must be held. */
#ifndef DRIVER_OUTBOX_H
#define DRIVER_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "net/batch.h"
#include "verbs/core.h"

struct qp;

struct outbox {
	struct batch batch;
	/* One QP's datagrams in the batch: v[first ... first + n). */
	struct part {
		struct qp *qp;
		unsigned first, n;
		uint64_t retry; /* ns that the QP waits for room; 0: it does not wait */
	} part[BATCH_MAX];
	unsigned parts;
	unsigned refused; /* datagrams that were not taken; the engine sets it to 0 */
};

/* Adds the datagrams of qp to the batch, as far as there is room. Returns true if qp has
 * more. qp->lock must be held. */
bool out_ask(struct outbox *o, struct qp *qp, uint64_t now);
/* Is the batch so full that it must be flushed first? A QP without room says that it has
 * more to send, and would be asked for ever. */
bool out_nearly_full(const struct outbox *o);
/* Sends all datagrams, within the host through memory, otherwise by their links. Returns
 * false if the descriptors of a link are gone. */
bool out_flush(struct outbox *o, struct core *core, uint64_t now) REQUIRES(core->turn);

#endif
