/* SPDX-License-Identifier: BSD-2-Clause */
/* host.h - the processes of this host: their slots, and the connections between them.
 *
 * A process owns a slot (1..1022) by listening on the abstract SOCK_SEQPACKET name
 * "\0urnic/<slot>", which the kernel scopes to the network namespace and removes with
 * its owner; or, if all names are taken, by the strongest claim for a slot of the
 * reserve. docs/dev/host.md has the rules. One connection for each pair of processes
 * carries all their messages (enum host_type, sys/msg.h).
 *
 * The holder of the engine's turn makes all calls; none blocks. host_run() calls ops.
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "host/msg.h"
#include "host/name.h"
#include "net/dgram.h"

struct host;

/* A message from another process. */
struct host_said {
	enum host_type type;
	uint16_t slot; /* the sender's slot, as the kernel confirms */
	uid_t uid;
	pid_t pid; /* the sender; 0: it is in another pid namespace */
	const void *buf;
	size_t len;
	/* descriptors that came with it, or -1. The callback takes one over by setting
	 * it to -1; the others are closed afterwards */
	int fd[MSG_FDS];
	const struct msg *msg; /* for msg_read(): a body that does not lie in buf */
};

struct host_ops {
	/* A datagram for this slot came by way of another process. */
	void (*datagram)(void *arg, const struct dgram *d);
	/* The connection to slot has closed: its process ended or let go. */
	void (*gone)(void *arg, uint16_t slot);
	/* A message of another type than those came. NULL: such messages are dropped. */
	void (*said)(void *arg, struct host_said *s);
};

/* Takes a slot. Returns 0, or -EADDRNOTAVAIL if none is free, -ENOMEM ... */
int host_open(struct host **out, const struct host_ops *ops, void *arg);
void host_close(struct host *host);
uint16_t host_slot(const struct host *host);
/* epoll descriptor; when readable, call host_run() */
int host_fd(const struct host *host);
/* Will host_fd() become readable at a set time although nobody sends anything? */
bool host_has_alarm(const struct host *h);
/* does a bounded amount of work; true: there was some */
bool host_run(struct host *host);

/* Sends d to the process of slot. Returns 0; -EAGAIN: full, so d is dropped and counted;
 * -ESRCH: unreachable, host_is_free() tells why. */
int host_forward(struct host *host, uint16_t slot, const struct dgram *d);

/* Sends a message of n parts to the process of slot, with nfds descriptors. Returns 0;
 * -EAGAIN: try again; -ESRCH: no process has the slot, or, for HOST_XRC, none of this
 * user; -EFAULT: a part is not mapped; -ENOMEM, -EMFILE ...: of a long body. */
int host_say(struct host *host, uint16_t slot, enum host_type type,
	     const struct iovec *part, unsigned n, const int *fds, unsigned nfds);

/* Allows or forbids descriptors from a process of another user that has this slot. At
 * first only this user's processes may send any; kernels before Linux 6.16 cannot refuse
 * descriptors, so they may come all the same. */
void host_take_fds(struct host *host, uint16_t slot, bool on);

/* Does no process have that slot? False also for a process that closes connections
 * because it has no descriptors left, or accepts none. */
bool host_is_free(struct host *host, uint16_t slot);

/* Makes a lasting connection to slot, so that ops->gone reports its end. Messages sent
 * to slot within this turn use it or fail. Returns 0, -EAGAIN, -ESRCH. */
int host_connect(struct host *host, uint16_t slot);

/* Before somebody relies on slot's process: if the connection to it has ended, which
 * host_run() has not heard yet, its last messages are read and it is gone now.  Another
 * process may have the slot already. */
void host_look(struct host *host, uint16_t slot);

/* Asks the kernel for the process at the other end of the connection to slot, which is
 * made if there is none, and for its user when it took the slot. Returns 0, -EAGAIN,
 * -ESRCH. */
int host_cred(struct host *host, uint16_t slot, uid_t *uid, pid_t *pid);

/* Is slot's process one of this user, as both were when they opened? */
bool host_is_ours(struct host *host, uint16_t slot);
/* Like host_is_ours(), and has the process given up no rights by setuid() since? Reads
 * /proc. */
bool host_is_ours_now(struct host *host, uint16_t slot);
uid_t host_uid(const struct host *host); /* this process's user when it opened */
/* Can uid stand for several users that look the same in this user namespace? */
bool host_hides(const struct host *host, uid_t uid);

/* Connects to any process of user uid. Returns its slot; 0: there is none, or uid may
 * stand for several users. */
uint16_t host_connect_user(struct host *host, uid_t uid);

/* Accepts datagrams from processes of these n <= 2 other users, who hold a port that we
 * need; from all others no longer. At first none are accepted, and never those of a uid
 * that may stand for several users. */
void host_accept_foreign(struct host *host, const uid_t *uids, unsigned n);

const struct host_stats *host_stats(const struct host *host);

/* In the child of a fork: closes the descriptors and keeps the names. */
void host_forked(struct host *host);

#endif
