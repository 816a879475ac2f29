/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a world for unit tests of rsockets: verbs and an rdma_cm whose network is
 * this process's memory, and time that passes only while a call sleeps.  One
 * thread does it all: the service thread's turns are taken while a call sleeps. */
#ifndef RSOCKET_FIX_H
#define RSOCKET_FIX_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

struct rsock;
struct rsock_stream;

struct fix {
	uint64_t now;		 /* ns */
	bool iwarp;		 /* the device of ids */
	bool hold;		 /* nothing that is posted arrives */
	bool deaf;		 /* nobody answers a connect */
	enum ibv_wc_status lost; /* whatever is posted fails so */
	unsigned fail;		 /* this call of those that make something fails */
	unsigned made;		 /* calls that made something, or would have */
	/* What the fakes have made and not destroyed. */
	int qps, cqs, channels, mrs, ahs, ids;
	/* Called in turn, each when a call is asleep and nothing wakes it. */
	void (*asleep[8])(void);
	unsigned nasleep;
	unsigned slept; /* how often a call was asleep */
	/* Of the service thread: it has been started; its turns are not taken. */
	bool thread, thread_stopped;
};

extern struct fix fix;

/* For cmocka: a new world; and what was made must have been destroyed. */
int fix_begin(void **state);
int fix_end(void **state);

/* Takes the service thread's turns until it has nothing to do. */
void fix_service(void);
/* What was posted arrives and completes, even if fix.hold. */
void fix_deliver(void);
/* Every QP fails: what is posted is flushed, and the first send is told this. */
void fix_lose(enum ibv_wc_status status);
/* rdma_cm tells each end of each connection this. */
void fix_tell_all(enum rdma_cm_event_type type, int status);
/* The n-th thing that is made from now on fails (1: the next). */
void fix_fail(unsigned n);
bool fix_may_make(void); /* false: errno is ENOMEM */

/* 127.0.0.host and a port. */
struct sockaddr_in fix_addr(uint8_t host, uint16_t port);

/* --- the level of rsocket.h ---------------------------------------------- */

/* A listener, and its address. */
int fix_listen(struct sockaddr_in *a, int backlog);
/* Two ends of a connection; the listener is closed again. */
void fix_pair(int ends[2]);
ssize_t fix_send(int fd, const void *buf, size_t len, int flags);
ssize_t fix_receive(int fd, void *buf, size_t len, int flags);
int fix_nonblock(int fd, bool on);
/* What rpoll() says at once. */
short fix_poll(int fd, short events);
/* The socket of a descriptor, not counted. */
struct rsock *fix_sock(int fd);
struct rsock_stream *fix_stream(int fd);
/* This is called when a call is asleep, after those that were given before. */
void fix_when_asleep(void (*call)(void));

/* --- between the fakes --------------------------------------------------- */

struct ibv_context *fix_context(bool iwarp);
struct ibv_pd *fix_pd(bool iwarp);
void fix_verbs_begin(void);
void fix_cm_begin(void);
void fix_link(struct ibv_qp *a, struct ibv_qp *b);

#endif
