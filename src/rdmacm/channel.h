/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.h - event channels: a list of events that wait, and a descriptor that is
 * readable while there are some.
 *
 * Each event has a source, the id that it is about. One lock guards all lists and counts;
 * under it only the kernel and sys/live.h are called. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include <assert.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "cm/proto.h"
#include "sys/list.h"
#include "sys/live.h"
#include "sys/pid.h"

/* What urnic uses of later releases of rdma-core than 39; see sys/newer.h. */
#ifndef HAVE_RDMA_CM_EVENT_USER
#define RDMA_CM_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_CM_EVENT_ADDRINFO_ERROR	((enum rdma_cm_event_type)17)
#define RDMA_CM_EVENT_USER		((enum rdma_cm_event_type)18)
#endif

#ifndef RAI_SA
#define RAI_SA	0x10 /* rdma_resolve_addrinfo(): asks the subnet's SA for a service */
#define RAI_DNS 0x20 /* ... as rdma_getaddrinfo(), which is the default */
#endif

static_assert(RDMA_CM_EVENT_ADDRINFO_RESOLVED == 16 &&
		      RDMA_CM_EVENT_ADDRINFO_ERROR == 17 && RDMA_CM_EVENT_USER == 18 &&
		      RAI_SA == 0x10 && RAI_DNS == 0x20,
	      "rdma_cm");

struct cma_group;

enum { CMA_PRIVATE_MAX = 256 };

struct cma_channel {
	/* Must be first. fd is an eventfd semaphore with a token for each event (a child
	 * of fork may take tokens or leave more). */
	struct rdma_event_channel ch;
	struct live live;
	struct list events;
};

struct cma_source {
	struct cma_channel *channel;
	pthread_cond_t changed; /* a count below fell, or done rose */
	unsigned got, done;	/* events taken, and acknowledged */
	/* Events taken that a thread is still processing, before the program may read
	 * them. */
	unsigned busy;
	bool stopped; /* cma_put() refuses further events */
	pid_t pid;    /* process that made it: a forked child has a copy */
};

struct cma_event {
	struct rdma_cm_event ev; /* must be first */
	struct live live;	 /* while the program has it */
	struct list node;
	struct cma_source *source;
	struct cma_group *group; /* of a JOIN that no program has read */
	bool raw;		 /* reported by the CM, as type */
	enum cm_event_type type;
	struct cm_conn *conn; /* of a REQUEST that no program has read */
	struct cm_target from;
	struct sa_path path;
	struct cm_param peer; /* peer.private points to private, below */
	uint8_t private[CMA_PRIVATE_MAX];
};

const char *cma_event_name(enum rdma_cm_event_type event);

struct cma_channel *cma_channel_new(void); /* Returns NULL with errno set. */
void cma_channel_free(struct cma_channel *ch);
/* In the child of a fork: makes the lock anew, as its holder may not exist there. */
void cma_channels_forked(void);

void cma_source_open(struct cma_source *s, struct cma_channel *ch);
void cma_source_close(struct cma_source *s);

/* Is this process the one that made s? A child of fork has a copy of s. It must not wait
 * for threads, which it does not have, nor take tokens, which are the parent's. */
static inline bool cma_source_is_mine(const struct cma_source *s)
{
	return s->pid == pid_own();
}

/* Appends e to s's channel, which owns e then, and returns 0. Returns -ECANCELED after
 * freeing e if s is stopped. */
int cma_put(struct cma_source *s, struct cma_event *e);
/* Takes the oldest event of ch, which the caller then processes; NULL: none waits. */
struct cma_event *cma_take(struct cma_channel *ch);
/* Ends the processing of e: its id and its group may go, and the program may read e. */
void cma_looked_at(struct cma_event *e);
/* The program acknowledges e: frees it. */
void cma_done(struct cma_event *e);
/* Does an event wait in ch, or has another thread freed ch meanwhile? */
bool cma_channel_has(struct cma_channel *ch);
/* May a thread sleep until ch is readable? Returns 0, -EBADF, or -EAGAIN if the program
 * has made the descriptor non-blocking. */
int cma_channel_blocks(const struct cma_channel *ch);
/* Sleeps until ch is readable, the only cancellation point here. Returns 0, -EINTR or
 * -EBADF. */
int cma_channel_wait(struct cma_channel *ch);

/* Moves the unread events of s (only those of group, unless that is NULL) to the list
 * unread, then waits until no thread processes an event of s. */
void cma_take_back(struct cma_source *s, const struct cma_group *group,
		   struct list *unread);
/* As cma_take_back() for all events of s, and s accepts no more. */
void cma_source_stop(struct cma_source *s, struct list *unread);
/* Waits until the program has acknowledged all events of s that were taken. */
void cma_wait_acked(struct cma_source *s);
/* Moves s with its unread events to another channel, and waits, as the kernel's rdma_cm
 * does, until the events that were read are acknowledged. */
void cma_source_move(struct cma_source *s, struct cma_channel *to);

#endif
