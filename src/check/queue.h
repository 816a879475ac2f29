/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.h - the requests of a queue that are posted and not reaped (struct check_queue).
 * The queue's lock is held. */
#ifndef CHECK_QUEUE_H
#define CHECK_QUEUE_H

#include "check/check.h"

/* Room for cap requests of at most max_sge SGEs, and as many again: a thread may post
 * before another has told of the completion that freed the place. Returns 0 or -ENOMEM.
 */
int check_queue_init(struct check_queue *q, uint32_t cap, uint32_t max_sge);

/* Adds a request: all is 0 but sge, which has room for max_sge. NULL, and the queue is
 * unsure from now on, if there is no room. */
struct check_wr *check_queue_add(struct check_queue *q);

/* Takes a request out, from wherever it is. */
void check_queue_drop(struct check_queue *q, struct check_wr *w);

/* The oldest request with that wr_id; of a send queue one that is signalled, unless the
 * completion is an error. NULL: there is none. */
struct check_wr *check_queue_find(const struct check_queue *q, uint64_t wr_id,
				  bool signaled);

/* The number of requests that are outstanding. */
uint32_t check_queue_used(const struct check_queue *q);

/* The program may use the memory of all again: their wards end. */
void check_queue_open(struct check_queue *q);

/* From now on it is unsure. */
void check_queue_doubt(struct check_queue *q);

void check_queue_free(struct check_queue *q);

/* Forgets all: the queue is reset. */
void check_queue_clear(struct check_queue *q);

#endif
