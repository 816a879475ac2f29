/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h - completion channels, asynchronous events, and the contexts that own them.
 *
 * A queue is a list in memory plus an eventfd in semaphore mode that holds the list's
 * length: it can be polled, honours O_NONBLOCK and has no size limit.
 */
#ifndef VERBS_EVENT_H
#define VERBS_EVENT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sys/checks.h"
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
	/* Asynchronous events (allocated) that were fetched and not yet acknowledged. */
	struct list got;
	struct lock_cond acked;
};

/* An asynchronous event in a queue. For event.c and async.c only. */
struct async {
	struct list node; /* in queue.waiting, then in queue.got */
	enum ibv_event_type type;
	void *element; /* NULL: the port or the device */
};

/* The threads that wait for an event of a channel: for verbs/asleep.c, and who adds to
 * and takes from its lists. */
struct asleep {
	/* Under the lock of the channel's queue: */
	struct list cqs;    /* of the channel, by cq->in_channel */
	pthread_t who;	    /* the thread that waits, or waited last; 0: none did */
	bool several;	    /* different threads have waited */
	uint32_t sleeps;    /* how often a thread has gone to sleep */
	_Atomic uint32_t n; /* threads that sleep */
	/* Under core->lock: */
	struct list node; /* in core->sleepers */
	bool watched;
	uint32_t since; /* `sleeps' when it was looked at last */
	uint64_t look_at, step;
};

/* How long threads wait for the events of a channel: for driver/wait.c. */
struct past_waits {
	_Atomic uint64_t ns; /* the last wait; 0: not known */
	atomic_uint at_once; /* events since then that nobody had to wait for */
	/* Of the only thread that waits: waits in a row in which it looked in vain, as an
	 * exponent, and waits in which it does not look. */
	unsigned vain, rests;
};

struct channel {
	struct live live;
	struct ibv_comp_channel ibv; /* ibv.fd is queue.fd */
	struct context *ctx;
	struct event_queue queue;
	struct asleep asleep;
	struct past_waits waited;
};

/* One opened device. */
struct context {
	struct live live; /* as LIVE_CONTEXT: found by context_of(), also for pointers
			   * that are no context of ours */
	struct list node; /* core->contexts */
	struct core *core;
	struct device *dev;
	struct link *link; /* carries the device's packets; NULL: none */
	struct ibv_context *ibv;
	struct event_queue async; /* ibv->async_fd */
	atomic_bool dead;	  /* every call answers EIO */
	bool stays;		  /* closed, but the program may still post and poll */
	pid_t pid; /* process that made it; a forked child shares the descriptors */
	struct verbs_context verbs; /* the program holds a pointer to verbs.context */
};

static inline struct context *context_of(struct ibv_context *ibv)
{
	return container_of(ibv, struct context, verbs.context);
}

/* Frees an object that posts and polls reach by pointer, unless the context stays
 * after its close: then the object is kept, so that those calls can still answer EIO. */
static inline void context_free(const struct context *ctx, void *object)
{
	if (ctx->stays)
		return;
	if (checks)
		checks->keep(object);
	else
		free(object);
}

int event_queue_init(struct event_queue *q);  /* 0 or -errno */
void event_queue_fini(struct event_queue *q); /* also frees its asynchronous events */
/* Each entry of `waiting` has one token, or a reader that took the token. These calls
 * use only the queue's own file: -EBADF if the program has closed it, even if its
 * number is another file by now. */
int event_queue_post(struct event_queue *q);		  /* adds a token; 0 or -errno */
int event_queue_wait(struct event_queue *q);		  /* takes a token; 0 or -errno */
bool event_queue_any(struct event_queue *q);		  /* is there an event? */
bool event_queue_blocks(const struct event_queue *q);	  /* is it not O_NONBLOCK? */
void event_queue_drop(struct event_queue *q, unsigned n); /* takes up to n */

/* Handles the loss of a descriptor of ctx: logs one error, raises
 * IBV_EVENT_DEVICE_FATAL and marks ctx dead. */
void context_lost(struct context *ctx, const char *what, int err);

struct channel *channel_of(struct ibv_comp_channel *ibv);
int channel_create(struct context *ctx, struct channel **out);
int channel_destroy(struct channel *ch); /* 0 or -EBUSY */

/* Raises an asynchronous event. element is the ibv_qp, ibv_cq or ibv_srq that the type
 * is about; NULL for port and device events, which are of port 1. Destroying a QP, CQ
 * or SRQ drops its unfetched events and waits until the fetched ones are acknowledged. */
void async_raise(struct context *ctx, enum ibv_event_type type, void *element);
int async_get(struct context *ctx, struct ibv_async_event *event); /* as channel_get() */
bool async_pop(struct context *ctx, struct ibv_async_event *event);
void async_ack(struct ibv_async_event *event);
/* For an element being destroyed, which raises no more events: drops its unfetched
 * events and waits for acknowledgements. */
void async_forget(struct context *ctx, void *element);
/* Acknowledges all fetched events, because the context is closing. */
void async_ack_all(struct context *ctx);

#endif
