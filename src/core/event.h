/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h - completion channels, asynchronous events, and contexts that own
 * them.
 *
 * A queue is a list in memory plus an eventfd in semaphore mode that holds its
 * length: pollable, honouring O_NONBLOCK and as long as it has to be.
 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sys/fd.h"
#include "sys/list.h"
#include "sys/live.h"
#include "sys/lock.h"

struct cq;
struct core;
struct device;

struct event_queue {
	int fd;
	struct fd_id id;
	struct lock lock;
	struct list waiting;
	/* Asynchronous events, which are allocated: fetched, and until they
	 * are acknowledged. */
	struct list got;
	struct lock_cond acked;
};

/* An asynchronous event in a queue.  For event.c and async.c. */
struct async {
	struct list node; /* in queue.waiting, then in queue.got */
	enum ibv_event_type type;
	void *element; /* NULL: the port or the device */
};

struct channel {
	struct live live;
	struct ibv_comp_channel ibv; /* ibv.fd is queue.fd */
	struct context *ctx;
	struct event_queue queue;
};

/* One opened device.  abi/ embeds it beside the verbs_context. */
struct context {
	struct list node; /* core->contexts */
	struct core *core;
	struct device *dev;
	struct link *link; /* of the device's paths; NULL: it has none */
	struct ibv_context *ibv;
	struct event_queue async; /* ibv->async_fd */
	atomic_bool dead;	  /* answers EIO from now on */
	bool stays;		  /* closed, but posts and polls may come yet */
};

/* Instead of free() for what posts and polls come to without looking it up: they
 * answer EIO of what was left when its context was closed. */
static inline void context_free(const struct context *ctx, void *object)
{
	if (!ctx->stays)
		free(object);
}

int event_queue_init(struct event_queue *q);  /* 0 or -errno */
void event_queue_fini(struct event_queue *q); /* frees asynchronous events */
/* For each entry of waiting there is a token or a reader that has taken it.
 * The queue's own file only: -EBADF if the program closed it, even when its
 * number is another file by now. */
int event_queue_post(struct event_queue *q);		  /* one token; 0 or -errno */
int event_queue_wait(struct event_queue *q);		  /* takes one; 0 or -errno */
void event_queue_drop(struct event_queue *q, unsigned n); /* best effort */

/* A descriptor of ctx is lost: one error line, IBV_EVENT_DEVICE_FATAL, dead. */
void context_lost(struct context *ctx, const char *what, int err);

struct channel *channel_of(struct ibv_comp_channel *ibv);
int channel_create(struct context *ctx, struct channel **out);
int channel_destroy(struct channel *ch); /* 0 or -EBUSY */

/* Raise an asynchronous event; element is what the program knows the object by,
 * an ibv_qp, ibv_cq or ibv_srq as the type says (NULL for port and device events:
 * port 1).  QP, CQ, SRQ: destroying the object waits until all
 * its events were acknowledged, and drops those not fetched. */
void async_raise(struct context *ctx, enum ibv_event_type type, void *element);
int async_get(struct context *ctx, struct ibv_async_event *event); /* as above */
bool async_pop(struct context *ctx, struct ibv_async_event *event);
void async_ack(struct ibv_async_event *event);
/* Destroying element, which raises no more: drop, then wait for acks. */
void async_forget(struct context *ctx, void *element);
/* The context is being closed: nobody has to acknowledge what was fetched. */
void async_ack_all(struct context *ctx);

#endif
