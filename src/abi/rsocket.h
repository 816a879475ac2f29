/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket.h - what the files of rsockets share (rsocket_*.c).  docs/rsocket.md. */
#ifndef ABI_RSOCKET_H
#define ABI_RSOCKET_H

#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cma.h"
#include "rsocket/stream.h"
#include "sys/list.h"

/* Ordered: from RSOCK_UP on there is, or was, a connection. */
enum rsock_state {
	RSOCK_NEW, RSOCK_BOUND, RSOCK_LISTENING, RSOCK_CONNECTING, RSOCK_WAITING,
	RSOCK_UP, RSOCK_DOWN,
};

enum { RSOCK_KEEP_IDLE = 7200 };	/* seconds, as TCP's */

/* Memory of a socket that is registered. */
struct rsock_region { uint8_t *at; size_t size; struct ibv_mr *mr; };

/* A buffer that the program has mapped (riomap). */
struct rsock_map {
	struct list node;
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	bool remote, going;		/* going: being unmapped */
	uint32_t index;			/* of the peer's entry, if remote */
	uint64_t offset;
};

struct rsock_dgram;

struct rsock {
	int fd;				/* a number, nothing else; -1: not yet */
	int domain, type;
	_Atomic unsigned refs;
	unsigned generation;		/* of the process: see rsock_forked() */
	pthread_mutex_t lock;
	/* Under lock. */
	enum rsock_state state;
	bool closed;			/* rclose was called */
	bool passive;			/* made for a listener */
	bool nonblock, nodelay, reuse, v6only, keepalive, oob_inline;
	int keep_idle, keep_interval, keep_count;	/* seconds; 0: the default */
	uint64_t kept;			/* when a keepalive was sent, rsock_now() */
	uint64_t close_end;		/* when the service thread gives up on it */
	struct linger linger;
	int err;			/* SO_ERROR */
	/* Of a connection: nothing more comes; nothing more goes. */
	bool read_end, write_end;
	bool peer_gone;			/* it said disconnect */
	bool said_bye;			/* we did, or it is due */
	unsigned due;			/* what is to be said: 1 << enum rs_control */
	bool read_shut;			/* by us: what is there is not read either */
	bool was_up;
	uint32_t sndbuf, rcvbuf;	/* as getsockopt tells them */
	uint16_t sq_size, rq_size;
	uint32_t inline_size, iomaps;

	struct rdma_cm_id *id;
	bool bound;			/* by rbind: it stays so after a failed connect */
	struct sockaddr_storage local;
	struct ibv_comp_channel *ch;
	int sleep_fd;			/* to poll for completions; -1: none yet */
	struct ibv_cq *rcq, *scq;
	bool armed_r, armed_s;
	struct rsock_region rbuf, sbuf, shared;
	struct rsock_region messages;	/* iWARP: a slot for each receive */
	struct rs_stream s;
	struct rs_conn peer;		/* passive: what the client has said */
	struct list maps;
	struct rsock_dgram *dg;		/* SOCK_DGRAM: all of it */

	/* Under accept_lock. */
	struct rsock *listener;		/* whose lists this one is in */
	struct list node;
	struct list waiting, accepting, ready;	/* children */
	bool settled;			/* ready, or the program's */
	int backlog;

	/* Under wait_lock. */
	struct list waiters;
	_Atomic unsigned nwaiters;	/* sees 0 who comes before a waiter's last look */
};

/* A thread that sleeps on a socket, or several.  It is no local variable of a
 * call: programs leave those by longjmp() out of a signal handler, and then end
 * (iperf3).  What was left linked the thread's next call, or its end, unlinks. */
struct rsock_waiter {
	struct list node;
	struct rsock *rs;
	struct rsock_sleeper *by;
};

struct rsock_sleeper {
	int efd;			/* an eventfd */
	size_t n, room;
	struct rsock_waiter *waiters;
};

static inline bool rsock_is_stream(const struct rsock *rs)
{
	return rs->type == SOCK_STREAM;
}

extern pthread_mutex_t accept_lock;

/* --- rsocket_fd.c: descriptors, and sleeping ---------------------------------------- */

/* A socket without a descriptor, and giving it one.  0 or -errno. */
int rsock_new(int domain, int type, struct rsock **out);
int rsock_publish(struct rsock *rs);
/* Counted; NULL: errno is EBADF, or EIO in a child of fork. */
struct rsock *rsock_get(int fd);
/* As rsock_get(), without errno: is it one of ours? */
struct rsock *rsock_find(int fd);
void rsock_put(struct rsock *rs);
struct rsock *rsock_withdraw(int fd);		/* out of the table, with its count */
bool rsock_forked(const struct rsock *rs);
void rsock_each(void (*call)(struct rsock *rs));

bool rsock_hold(struct rsock *rs);		/* false: it is being freed */

/* This thread, for sleeping on n sockets: 0 or -errno. */
int rsock_sleeper(size_t n, struct rsock_sleeper **out);
void rsock_wait_begin(struct rsock_sleeper *sl, struct rsock *rs);
void rsock_wait_end(struct rsock_sleeper *sl);	/* on all of them */
void rsock_wake(struct rsock *rs);
void rsock_clear(int efd);

/* /etc/rdma/rsocket */
struct rsock_defaults {
	uint32_t mem, wmem, inline_size, iomaps, polling_us;
	uint16_t sq_size, rq_size;
};
const struct rsock_defaults *rsock_defaults(void);
uint64_t rsock_now(void);			/* ns, monotonic */

/* --- rsocket_svc.c: the service thread ------------------------------------------------- */

/* The channel of all ids, with a thread that reads it.  0 or -errno. */
int rsock_service(struct rdma_event_channel **out);
/* From now on there are sockets with SO_KEEPALIVE. */
void rsock_keep_alive(void);
/* As many of rs's children as its backlog allows are accepted. */
void rsock_accept_more(struct rsock *rs);
/* The service thread says farewell, and has the caller's count. */
void rsock_close_later(struct rsock *rs);

/* --- rsocket_ep.c: a connection's QP, buffers and messages ------------------------------ */

int rsock_ep_create(struct rsock *rs);		/* 0 or -errno; id has a device */
void rsock_ep_destroy(struct rsock *rs);
/* Under rs->lock: what completed is taken in, what is due is sent. */
void rsock_progress(struct rsock *rs);
void rsock_grant(struct rsock *rs);		/* after something was read */
void rsock_say(struct rsock *rs, enum rs_control what);	/* now, or when it can be */
int rsock_post(struct rsock *rs, const struct rs_write *w, const void *payload);
void rsock_fail(struct rsock *rs, int err);
/* Ask for an event; look once more afterwards. */
void rsock_arm(struct rsock *rs, bool for_space);
void rsock_take_events(struct rsock *rs);

/* --- rsocket_wait.c ------------------------------------------------------------------------ */

/* ns that this thread should look before it sleeps; how long its last wait was, when
 * it did. */
uint64_t rsock_spin(void);
void rsock_slept(uint64_t ns);
/* rs->lock held: until ready(rs).  0, -EAGAIN (nonblock), -ETIMEDOUT, -EINTR,
 * -EBADF: closed meanwhile.  ms < 0: for ever. */
int rsock_wait(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock,
	       bool for_space, int ms);
/* What poll() would say, under rs->lock: all of POLLIN, POLLOUT and the rest.  What
 * has come since is not looked for if all that is asked for is there. */
short rsock_events(struct rsock *rs, short asked);
bool rsock_readable(struct rsock *rs);
bool rsock_writable(struct rsock *rs);

/* --- rsocket_conn.c, rsocket_close.c --------------------------------------------------------- */

/* 0 or -errno: the address of this end, or of the other. */
int rsock_name(struct rsock *rs, bool peer, struct sockaddr *addr, socklen_t *len);
/* What is said of oneself; p points to data. */
void rsock_format(struct rsock *rs, struct rdma_conn_param *p,
		  uint8_t data[RS_CONN_SIZE]);
/* Sends a farewell, if that is to be said; and waits ms for all to arrive: false,
 * it has not. */
void rsock_farewell(struct rsock *rs);
bool rsock_is_over(struct rsock *rs);
bool rsock_bye(struct rsock *rs, int ms);
void rsock_free_children(struct rsock *rs);
void rsock_stop_listening(struct rsock *rs);
void rsock_free(struct rsock *rs);		/* nobody has it any more */

/* --- rsocket_dgram.c ------------------------------------------------------------------------- */

/* All under rs->lock, but new and free; 0, a count or -errno. */
int rsock_dgram_new(struct rsock *rs);
int rsock_dgram_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len);
int rsock_dgram_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len);
int rsock_dgram_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len);
ssize_t rsock_dgram_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
			 const struct sockaddr *to, socklen_t tolen);
ssize_t rsock_dgram_receive(struct rsock *rs, const struct iovec *iov, int n,
			    int *flags, struct sockaddr *from, socklen_t *fromlen);
short rsock_dgram_events(struct rsock *rs);
int rsock_dgram_option(struct rsock *rs, int level, int name, const void *val,
		       socklen_t len);
void rsock_dgram_arm(struct rsock *rs);
void rsock_dgram_free(struct rsock *rs);

#endif
