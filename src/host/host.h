/* SPDX-License-Identifier: BSD-2-Clause */
/* host.h - who else is on this host: slots and the connections between them.
 *
 * A process owns a slot (1..1022) by listening on the abstract SOCK_SEQPACKET
 * name "\0urnic/<slot>" (the kernel scopes it to the network namespace and
 * removes it with its owner), or by the strongest claim for it if all names are
 * taken; docs/host.md has the rules.  One connection for each pair of processes
 * carries everything that they say to each other: datagrams that came to the
 * wrong process, and what local/ says.  Every message begins with a version.
 * All calls are made by the holder of the engine's turn; none blocks.  ops are
 * called from host_run().
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "host/slots.h"
#include "host/stats.h"
#include "link/dgram.h"

struct host;

enum {
	HOST_FDS = 2,
	HOST_SAY_MAX = 256,
	HOST_PASS_MAX = 64000,
	HOST_PASS_PARTS = 4,
};

/* What another process says to local/. */
struct host_said {
	uint16_t slot; /* whose it is, as the kernel confirms */
	uid_t uid;
	pid_t pid; /* 0: in another pid namespace */
	const void *buf;
	size_t len;
	int fd[HOST_FDS]; /* that came along, or -1; to be taken
			   * over (and set to -1), or closed here */
};

struct host_ops {
	/* A datagram for this slot came in by way of another process. */
	void (*datagram)(void *arg, const struct dgram *d);
	/* The connection to slot has closed: its process ended or let go. */
	void (*gone)(void *arg, uint16_t slot);
	/* NULL: nobody listens. */
	void (*said)(void *arg, struct host_said *s);
	/* A process of this user has passed something on; no descriptors came along.
	 * NULL: nobody listens. */
	void (*passed)(void *arg, const struct host_said *s);
};

/* Take a slot.  -EADDRNOTAVAIL: none. */
int host_open(struct host **out, const struct host_ops *ops, void *arg);
void host_close(struct host *host);
uint16_t host_slot(const struct host *host);
int host_fd(const struct host *host); /* epoll: readable = host_run() */
/* Will it be readable at a time that is set, without anybody's doing? */
bool host_has_alarm(const struct host *h);
bool host_run(struct host *host); /* bounded; true: there was something */

/* Send d to slot's process.  0, -EAGAIN (full: dropped and counted),
 * -ESRCH (there is no way to it: host_is_free() tells why). */
int host_forward(struct host *host, uint16_t slot, const struct dgram *d);

/* Say something to slot's process, at most HOST_SAY_MAX bytes; fds: nfds <=
 * HOST_FDS descriptors that go along.  0, -EAGAIN (say it again), -ESRCH. */
int host_say(struct host *host, uint16_t slot, const void *buf, size_t len,
	     const int *fds, unsigned nfds);

/* Pass n <= HOST_PASS_PARTS parts on as one message, HOST_PASS_MAX bytes at most, to
 * slot's process, which is one of this user's.  0, -EAGAIN (it takes nothing now),
 * -ESRCH (no process of this user has the slot), -EFAULT (a part is not there). */
int host_pass(struct host *host, uint16_t slot, const struct iovec *part, unsigned n);

/* A process of another user that has this slot may send descriptors from now on, or not
 * any more.  At first nobody but this user's processes may: on kernels that cannot
 * refuse them (before Linux 6.16) they come all the same. */
void host_take_fds(struct host *host, uint16_t slot, bool on);

/* No process has that slot: not even one that closes connections, as it has no
 * descriptors left, or takes none. */
bool host_is_free(struct host *host, uint16_t slot);

/* Keep a connection to slot, so that ops->gone tells when it ends.  What is said to
 * slot in this call's turn goes through it, or nowhere.  0, -EAGAIN, -ESRCH. */
int host_connect(struct host *host, uint16_t slot);

/* The process at the other end of that connection, which is made if there is none, as
 * the kernel tells it: the user that it was when it took the slot.  0, -EAGAIN,
 * -ESRCH. */
int host_cred(struct host *host, uint16_t slot, uid_t *uid, pid_t *pid);

/* Is it one of this user's, as both were when they opened? */
bool host_is_ours(struct host *host, uint16_t slot);
/* ... and still: has it given up nothing by setuid() since?  Asks /proc. */
bool host_is_ours_now(struct host *host, uint16_t slot);
uid_t host_uid(const struct host *host); /* ... as which this one opened */
/* May uid stand for several users, who look the same in this user namespace? */
bool host_hides(const struct host *host, uid_t uid);

/* Connect to any process of user uid: its slot; 0: there is none, or uid may stand
 * for several users. */
uint16_t host_connect_user(struct host *host, uid_t uid);

/* Of other users, take datagrams from processes of these n <= 2 alone: who
 * holds a port that we need.  At first nobody's are taken, and never those of a user
 * who may be several. */
void host_accept_foreign(struct host *host, const uid_t *uids, unsigned n);

const struct host_stats *host_stats(const struct host *host);

/* In the child of a fork: close the descriptors, leave the names alone. */
void host_forked(struct host *host);

#endif
