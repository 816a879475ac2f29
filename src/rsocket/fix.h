/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - fakes for unit tests of rsockets: verbs and an rdma_cm whose network is this
 * process's memory, and a clock that runs only while a call sleeps. All is done in one
 * thread: the service thread's turns run while a call sleeps. */
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
	bool iwarp;		 /* the devices of ids are iWARP's */
	bool hold;		 /* what is posted does not arrive */
	bool deaf;		 /* no listener answers a connect */
	bool stand_in;		 /* GID 192.0.2.1 stands for loopback's addresses */
	enum ibv_wc_status lost; /* all that is posted fails with this status */
	unsigned fail;		 /* number of the making call that fails */
	unsigned made;		 /* number of making calls */
	/* Numbers of objects made and not destroyed. */
	int qps, cqs, channels, mrs, ahs, ids;
	void (*making)(void); /* called within each making call */
	/* Called in this order, one each time a call sleeps and nothing wakes it. */
	void (*asleep[8])(void);
	unsigned nasleep;
	unsigned slept; /* number of times that a call slept */
	/* The service thread: started; its turns do not run. */
	bool thread, thread_stopped;
};

extern struct fix fix;

/* For cmocka: sets a new world up; checks that everything made was destroyed. */
int fix_begin(void **state);
int fix_end(void **state);

/* Runs the service thread's turns until it has nothing to do. */
void fix_service(void);
/* Delivers and completes what was posted, even if fix.hold. */
void fix_deliver(void);
/* Fails every QP: what is posted is flushed, and the first send gets this status. */
void fix_lose(enum ibv_wc_status status);
/* rdma_cm reports this event to each end of each connection. */
void fix_tell_all(enum rdma_cm_event_type type, int status);
/* Makes the n-th making call from now on fail (1: the next). */
void fix_fail(unsigned n);
bool fix_may_make(void); /* false: this call fails, with errno ENOMEM */

/* 127.0.0.host and a port. */
struct sockaddr_in fix_addr(uint8_t host, uint16_t port);

/* --- calls of rsocket.h -------------------------------------------------- */

/* Makes a listener, and sets *a to its address. */
int fix_listen(struct sockaddr_in *a, int backlog);
/* Makes the two ends of a connection, and closes the listener. */
void fix_pair(int ends[2]);
ssize_t fix_send(int fd, const void *buf, size_t len, int flags);
ssize_t fix_receive(int fd, void *buf, size_t len, int flags);
int fix_nonblock(int fd, bool on);
/* Returns the events that rpoll() reports at once. */
short fix_poll(int fd, short events);
/* Returns the socket of a descriptor, without counting it. */
struct rsock *fix_sock(int fd);
struct rsock_stream *fix_stream(int fd);
/* Appends a function to fix.asleep. */
void fix_when_asleep(void (*call)(void));

/* --- between the fakes --------------------------------------------------- */

struct ibv_context *fix_context(bool iwarp);
struct ibv_pd *fix_pd(bool iwarp);
void fix_verbs_begin(void);
void fix_cm_begin(void);
void fix_link(struct ibv_qp *a, struct ibv_qp *b);

#endif
