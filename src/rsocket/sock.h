/* SPDX-License-Identifier: BSD-2-Clause */
/* sock.h - what streams and datagram sockets have in common: how a descriptor leads to a
 * socket, the options, and the table of functions of each kind. */
#ifndef RSOCKET_SOCK_H
#define RSOCKET_SOCK_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "sys/list.h"

/* --- what a new socket has ----------------------------------------------- */

/* Sizes that can be chosen until the socket's buffers are made. */
struct rsock_sizes {
	uint32_t sndbuf, rcvbuf; /* bytes; half of what is allocated */
	uint16_t sq, rq;	 /* data messages: posted, received */
	uint32_t inline_size;	 /* bytes */
	uint32_t iomaps;	 /* entries that the peer may write */
};

enum {
	RSOCK_BUFFER_MAX = 1 << 28,
	RSOCK_QUEUE_MAX = 8192,
	RSOCK_INLINE_MAX = 256,
	RSOCK_IOMAPS_MAX = 0x7f00,
};

struct rsock_defaults {
	struct rsock_sizes sizes;
	uint32_t polling_us; /* how long a call polls before it sleeps */
};

/* Reads the files of a folder, as rdma-core does. */
void rsock_defaults_read(const char *folder, struct rsock_defaults *out);
/* Returns the values of /etc/rdma/rsocket, which are read once. */
const struct rsock_defaults *rsock_defaults(void);

/* --- descriptors --------------------------------------------------------- */

/* Finds the object behind a descriptor. Objects are counted: a caller holds a count while
 * it uses one, and the last to let go frees it. */

/* The first member of an object in the table. */
struct rsock_entry {
	/* An eventfd that nothing is written to, which only keeps the number taken; -1:
	 * none yet. */
	int fd;
	_Atomic unsigned refs;
	/* The process's count of forks when this entry was made. */
	unsigned forks;
	void (*free)(struct rsock_entry *e); /* called with no lock held */
};

/* Sets a count of 1, and no descriptor yet. */
void rsock_entry_init(struct rsock_entry *e, void (*free)(struct rsock_entry *e));
/* Gives e the lowest free descriptor, as librspreload.so and select() rely on low
 * numbers. The table then has the caller's count, and another thread may withdraw e at
 * once. Returns the descriptor, or -errno. */
int rsock_entry_publish(struct rsock_entry *e);
/* Returns the entry of fd, counted for the caller, or NULL. */
struct rsock_entry *rsock_entry_find(int fd);
/* Takes the entry of fd out of the table and closes fd. The table's count passes to the
 * caller. */
struct rsock_entry *rsock_entry_withdraw(int fd);
bool rsock_entry_hold(struct rsock_entry *e); /* false: e is being freed */
void rsock_entry_put(struct rsock_entry *e);
/* Is e a copy that a fork left in the child? */
bool rsock_entry_forked(const struct rsock_entry *e);
/* Calls call() for each entry with a descriptor, except copies from before a fork. */
void rsock_entry_each(void (*call)(struct rsock_entry *e));

/* Around a fork: the table's lock; see held_fork(). rsock_table_forked(), in the child,
 * makes it anew, and marks all entries as copies. */
bool rsock_table_lock(void);
void rsock_table_unlock(void);
void rsock_table_forked(void);

/* --- sockets ------------------------------------------------------------- */

/* The order matters: from RSOCK_UP on there is, or was, a connection. A datagram socket
 * is NEW or BOUND. */
enum rsock_state {
	RSOCK_NEW,
	RSOCK_BOUND,
	RSOCK_LISTENING,
	RSOCK_CONNECTING, /* request sent, or accepted; not established yet */
	RSOCK_WAITING,	  /* a request that is not accepted yet */
	RSOCK_UP,
	RSOCK_DOWN,
};

/* The wait queue that each socket has: the threads that sleep on it (wait.c). */
struct rsock_waitq {
	struct list links; /* under the lock of wait.c */
	/* Length of links. A thread that changes a state may read 0 without the lock: a
	 * sleeper looks at the state once more after it has raised n. */
	_Atomic unsigned n;
};

static inline void rsock_waitq_init(struct rsock_waitq *waitq)
{
	list_init(&waitq->links);
	atomic_init(&waitq->n, 0);
}

/* Options; a listener's connections begin with a copy of the listener's. */
struct rsock_options {
	struct rsock_sizes sizes;
	bool nodelay, keepalive;
	int keep_idle, keep_interval, keep_count; /* seconds; 0: the default */
	struct linger linger;
};

struct rsock {
	struct rsock_entry entry; /* must be first */
	const struct rsock_kind *kind;
	int domain, type;
	struct rsock_waitq waitq; /* threads that sleep on the socket */
	struct list closing;	  /* in service_thread.c's list */
	pthread_mutex_t lock;
	/* The fields below are under lock. */
	enum rsock_state state;
	bool closed; /* rclose was called */
	bool nonblock, reuse, v6only, oob_inline;
	bool sizes_fixed; /* the buffers exist */
	struct rsock_options opt;
	int err;      /* SO_ERROR */
	int sleep_fd; /* polled for completions; -1: none yet */
};

/* What the service thread does with a socket after handling an event of its id. */
enum rsock_after {
	RSOCK_AFTER_NOTHING,
	/* After the event is acknowledged: lets go of the socket, by rsock_put(). */
	RSOCK_AFTER_PUT,
	/* Destroys the event's id. */
	RSOCK_AFTER_DESTROY_ID,
};

/* The functions of a kind of socket. Called under rs->lock unless noted; they return 0 or
 * a count, or -errno. */
struct rsock_kind {
	/* For rsock_wait() and rsocket_poll(). progress() handles completions and sends
	 * what is due. After arm() a completion makes sleep_fd readable, until
	 * take_events(). */
	bool eager; /* progress() is called even if the caller need not wait */
	void (*progress)(struct rsock *rs);
	bool (*may_spin)(const struct rsock *rs);
	void (*arm)(struct rsock *rs, bool for_space);
	void (*take_events)(struct rsock *rs);
	/* Returns what poll() reports: POLLIN, POLLOUT and so on. Need not call
	 * progress() if all that is asked for is there. */
	short (*events)(struct rsock *rs, short asked);

	int (*bind)(struct rsock *rs, const struct sockaddr *a, socklen_t len);
	int (*connect)(struct rsock *rs, const struct sockaddr *a, socklen_t len);
	int (*name)(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);
	ssize_t (*send)(struct rsock *rs, const struct iovec *iov, int n, int flags,
			const struct sockaddr *to, socklen_t tolen);
	/* *flags: in: the flags of the call; out: those of the message. */
	ssize_t (*receive)(struct rsock *rs, const struct iovec *iov, int n, int *flags,
			   struct sockaddr *from, socklen_t *fromlen);
	int (*set_option)(struct rsock *rs, int level, int name, const void *val,
			  socklen_t len);
	int (*get_option)(struct rsock *rs, int level, int name, void *val,
			  socklen_t *len);
	int (*shutdown)(struct rsock *rs, int how);
	/* Returns true if not all that was sent is acknowledged: service_thread.c then
	 * waits. */
	bool (*close)(struct rsock *rs);

	/* For service_thread.c, called without the lock. NULL: nothing to do. */
	enum rsock_after (*event)(struct rsock *rs, struct rdma_cm_event *ev);
	void (*tick)(struct rsock *rs);	   /* called once a second */
	bool (*is_over)(struct rsock *rs); /* after close(): is nothing more to do? */
	bool (*at_exit)(struct rsock *rs); /* true: data is still on its way */

	/* Called without the lock when no thread uses rs any more. In the child of a fork
	 * only the descriptors may be closed. */
	void (*free)(struct rsock *rs);
};

void rsock_init(struct rsock *rs, const struct rsock_kind *kind, int domain, int type);
/* Frees rs; called at the end of kind->free(). */
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

/* Has a part with a length a null address? The call then fails with EFAULT, but as in
 * Linux only when the part is to be read or written. */
static inline bool rsock_iov_has_null(const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++)
		if (!iov[i].iov_base && iov[i].iov_len)
			return true;
	return false;
}

/* Is a, of len bytes, an address that this socket can use? */
bool rsock_fits(const struct rsock *rs, const struct sockaddr *a, socklen_t len);
/* Copies the address a to the program; for an IPv6 socket an IPv4 address is mapped. */
void rsock_tell(const struct rsock *rs, const struct sockaddr *a, struct sockaddr *out,
		socklen_t *len);

/* --- options ------------------------------------------------------------- */

enum { RSOCK_KEEP_IDLE = 7200 }; /* seconds, as TCP's default */

/* Called under the socket's lock; return 0 or -errno. */
int rsock_option_set(struct rsock *rs, int level, int name, const void *val,
		     socklen_t len);
int rsock_option_get(struct rsock *rs, int level, int name, void *val, socklen_t *len);

#endif
