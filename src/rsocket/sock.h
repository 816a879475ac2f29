/* SPDX-License-Identifier: BSD-2-Clause */
/* sock.h - what every rsocket has, be it a stream or for datagrams, and the table
 * of functions by which its kind is called. */
#ifndef RSOCKET_SOCK_H
#define RSOCKET_SOCK_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "rsocket/defaults.h"
#include "rsocket/sleeper.h"
#include "rsocket/table.h"

/* Ordered: from RSOCK_UP on there is, or was, a connection.  A socket for
 * datagrams is NEW or BOUND. */
enum rsock_state {
	RSOCK_NEW,
	RSOCK_BOUND,
	RSOCK_LISTENING,
	RSOCK_CONNECTING, /* asked, or accepted; not answered yet */
	RSOCK_WAITING,	  /* a request that is not accepted yet */
	RSOCK_UP,
	RSOCK_DOWN,
};

/* A listener's connections begin with those of the listener. */
struct rsock_options {
	struct rsock_sizes sizes;
	bool nodelay, keepalive;
	int keep_idle, keep_interval, keep_count; /* seconds; 0: the default */
	struct linger linger;
};

struct rsock {
	struct rsock_entry entry; /* first */
	const struct rsock_kind *kind;
	int domain, type;
	struct rsock_waitq waitq; /* threads that sleep on it */
	struct list closing;	  /* in service.c's list */
	pthread_mutex_t lock;
	/* Under lock. */
	enum rsock_state state;
	bool closed; /* rclose was called */
	bool nonblock, reuse, v6only, oob_inline;
	bool sizes_fixed; /* the buffers are made */
	struct rsock_options opt;
	int err;      /* SO_ERROR */
	int sleep_fd; /* to poll for completions; -1: none yet */
};

/* What the service thread does with a socket after an event of its id. */
enum rsock_after {
	RSOCK_AFTER_NOTHING,
	RSOCK_AFTER_PUT,	/* its count, when the event is acknowledged */
	RSOCK_AFTER_DESTROY_ID, /* the event's id */
};

/* Called under rs->lock, except where it says otherwise; 0 or a count, or
 * -errno. */
struct rsock_kind {
	/* wait.c, pollset.c: progress() takes in what has completed and sends what is
	 * due; after arm() a completion makes sleep_fd readable, until
	 * take_events(). */
	bool eager; /* input is taken in even if the caller is ready */
	void (*progress)(struct rsock *rs);
	bool (*may_spin)(const struct rsock *rs);
	void (*arm)(struct rsock *rs, bool for_space);
	void (*take_events)(struct rsock *rs);
	/* What poll() would say: all of POLLIN, POLLOUT and the rest.  There is no
	 * look for more if all that is asked for is there. */
	short (*events)(struct rsock *rs, short asked);

	int (*bind)(struct rsock *rs, const struct sockaddr *a, socklen_t len);
	int (*connect)(struct rsock *rs, const struct sockaddr *a, socklen_t len);
	int (*name)(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);
	ssize_t (*send)(struct rsock *rs, const struct iovec *iov, int n, int flags,
			const struct sockaddr *to, socklen_t tolen);
	/* *flags: of the call; then those of the message. */
	ssize_t (*receive)(struct rsock *rs, const struct iovec *iov, int n, int *flags,
			   struct sockaddr *from, socklen_t *fromlen);
	int (*set_option)(struct rsock *rs, int level, int name, const void *val,
			  socklen_t len);
	int (*get_option)(struct rsock *rs, int level, int name, void *val,
			  socklen_t *len);
	int (*shutdown)(struct rsock *rs, int how);
	/* True: what was sent is not all acknowledged, service.c is to wait. */
	bool (*close)(struct rsock *rs);

	/* service.c, without the lock.  NULL: there is never anything to do. */
	enum rsock_after (*event)(struct rsock *rs, struct rdma_cm_event *ev);
	void (*tick)(struct rsock *rs);	   /* once a second */
	bool (*is_over)(struct rsock *rs); /* closed, and nothing more to do */
	bool (*at_exit)(struct rsock *rs); /* true: something is under way */

	/* Nobody has it any more; without the lock.  In the child of a fork only
	 * the descriptors are its own. */
	void (*free)(struct rsock *rs);
};

void rsock_init(struct rsock *rs, const struct rsock_kind *kind, int domain, int type);
/* The end of kind->free(): rs's memory goes. */
void rsock_fini(struct rsock *rs);

static inline struct rsock *rsock_of(struct rsock_entry *e)
{
	return (struct rsock *)e;
}

static inline bool rsock_forked(const struct rsock *rs)
{
	return rsock_entry_forked(&rs->entry);
}

static inline void rsock_put(struct rsock *rs)
{
	rsock_entry_put(&rs->entry);
}

static inline void rsock_wake(struct rsock *rs)
{
	rsock_waitq_wake(&rs->waitq);
}

/* A part that has a length is nowhere: EFAULT, but only when it is its turn to be read
 * or written, as in Linux. */
static inline bool rsock_iov_has_null(const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		if (!iov[i].iov_base && iov[i].iov_len)
			return true;
	return false;
}

/* The address a, of len bytes, is one that this socket can use. */
bool rsock_fits(const struct rsock *rs, const struct sockaddr *a, socklen_t len);
/* Gives the program the address a; an IPv4 one as mapped if the socket is IPv6. */
void rsock_tell(const struct rsock *rs, const struct sockaddr *a, struct sockaddr *out,
		socklen_t *len);

#endif
