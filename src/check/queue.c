/* SPDX-License-Identifier: BSD-2-Clause */
/* queue.c - see queue.h. */
#include "check/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/ward.h"

int check_queue_init(struct check_queue *q, uint32_t cap, uint32_t max_sge)
{
	memset(q, 0, sizeof(*q));
	q->cap = cap;
	q->max_sge = max_sge ? max_sge : 1;
	for (q->size = 2; q->size < 2 * (uint64_t)cap;)
		q->size *= 2;
	q->wr = calloc(q->size, sizeof(*q->wr));
	q->sge = calloc((size_t)q->size * q->max_sge, sizeof(*q->sge));
	return q->wr && q->sge ? 0 : -ENOMEM;
}

struct check_wr *check_queue_add(struct check_queue *q)
{
	uint32_t at = q->head & (q->size - 1);
	struct check_wr *w;

	if (!q->wr || q->head - q->tail == q->size) {
		q->unsure = true;
		return NULL;
	}
	w = &q->wr[at];
	/* Field by field: gcc clears them by an instruction that takes tens of cycles. */
	w->wr_id = w->at = w->number = w->remote_addr = 0;
	w->rkey = w->length = w->trace = 0;
	w->asked_sge = w->num_sge = 0;
	w->opcode = w->flags = 0;
	w->huge = w->gone = w->building = false;
	w->batch = w->list = 0;
	w->own[0] = w->own[1] = 0;
	w->ward = NULL;
	w->sge = &q->sge[(size_t)at * q->max_sge];
	q->head++;
	return w;
}

static void open_request(struct check_wr *w)
{
	if (w->ward)
		ward_end(w->ward);
	w->ward = NULL;
}

void check_queue_open(struct check_queue *q)
{
	struct check_wr *w;

	check_for_each(w, q) open_request(w); /* none, if q->wr is NULL */
}

void check_queue_doubt(struct check_queue *q)
{
	q->unsure = true;
	check_queue_open(q);
}

void check_queue_drop(struct check_queue *q, struct check_wr *w)
{
	open_request(w);
	w->gone = true;
	while (q->tail != q->head && check_wr_at(q, q->tail)->gone)
		q->tail++;
	while (q->tail != q->head && check_wr_at(q, q->head - 1)->gone)
		q->head--;
}

struct check_wr *check_queue_find(const struct check_queue *q, uint64_t wr_id,
				  bool signaled)
{
	struct check_wr *w;

	check_for_each(w, q) if (w->wr_id == wr_id && !w->building &&
				 (!signaled || w->flags & IBV_SEND_SIGNALED)) return w;
	return NULL;
}

uint32_t check_queue_used(const struct check_queue *q)
{
	struct check_wr *w;
	uint32_t n = 0;

	check_for_each(w, q) n++;
	return n;
}

void check_queue_free(struct check_queue *q)
{
	check_queue_open(q);
	free(q->wr);
	free(q->sge);
	q->wr = NULL;
	q->sge = NULL;
	q->head = q->tail = 0;
	q->unsure = true;
}

void check_queue_clear(struct check_queue *q)
{
	check_queue_open(q);
	q->tail = q->head;
	q->unsure = q->failed = false;
}
