/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.h - event channels: a list of events that wait, and a descriptor that is
 * readable while there are some.
 *
 * What an event is about is a source; each id has one.  One lock guards all lists and
 * all counts; nothing is called under it but the kernel. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "cm/proto.h"
#include "sys/list.h"
#include "sys/live.h"

struct cma_group;

enum { CMA_PRIVATE_MAX = 256 };

struct cma_channel {
	struct rdma_event_channel ch; /* first; fd: an eventfd semaphore, a token
				       * for each event or more */
	struct live live;
	struct list events;
};

struct cma_source {
	struct cma_channel *channel;
	pthread_cond_t changed; /* a count below is smaller, or done is greater */
	unsigned got, done;	/* events taken, and acknowledged */
	unsigned busy; /* taken, and still looked at before the program is told */
	bool stopped;  /* no event is put in any more */
	pid_t pid;     /* whose it is: a forked child has a copy */
};

struct cma_event {
	struct rdma_cm_event ev; /* first */
	struct live live;	 /* while the program has it */
	struct list node;
	struct cma_source *source;
	struct cma_group *group; /* of a JOIN that nobody has read */
	bool raw;		 /* from the CM: type says what */
	enum cm_event_type type;
	struct cm_conn *conn; /* of a REQUEST that nobody has read */
	struct cm_target from;
	struct sa_path path;
	struct cm_param peer; /* peer.private is private, below */
	uint8_t private[CMA_PRIVATE_MAX];
};

struct cma_channel *cma_channel_new(void); /* NULL: errno */
void cma_channel_free(struct cma_channel *ch);
/* In the child of a fork: the thread that held the lock is not there. */
void cma_channels_forked(void);

void cma_source_open(struct cma_source *s, struct cma_channel *ch);
void cma_source_close(struct cma_source *s);

/* False in a child of fork, which has a copy: the threads that it would wait for are
 * not there, and the channel's tokens are the parent's. */
static inline bool cma_source_is_mine(const struct cma_source *s)
{
	return s->pid == getpid();
}

/* e waits to be read, and is the channel's from here on: 0.  -ECANCELED: s is stopped,
 * and e is freed. */
int cma_put(struct cma_source *s, struct cma_event *e);
/* The oldest event of ch, which its caller looks at; NULL: there is none. */
struct cma_event *cma_take(struct cma_channel *ch);
/* e's id and group are not looked at any more: the program may have it. */
void cma_looked_at(struct cma_event *e);
/* e is acknowledged, and freed. */
void cma_done(struct cma_event *e);
/* Sleeps until ch is readable, the one thing here in which a thread can be cancelled.
 * 0; -EINTR; -EAGAIN: the program has made the descriptor non-blocking; -EBADF. */
int cma_channel_wait(struct cma_channel *ch);

/* Events of s that nobody has read (of group, if it is not NULL) go to unread, and then
 * no thread looks at one of s any more. */
void cma_take_back(struct cma_source *s, const struct cma_group *group,
		   struct list *unread);
/* The same for all of s, which takes no event any more. */
void cma_source_stop(struct cma_source *s, struct list *unread);
/* Until all that was taken is acknowledged. */
void cma_wait_acked(struct cma_source *s);
/* As with the kernel's rdma_cm: what waits goes along, what was read must be
 * acknowledged. */
void cma_source_move(struct cma_source *s, struct cma_channel *to);

#endif
