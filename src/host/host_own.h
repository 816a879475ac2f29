/* SPDX-License-Identifier: BSD-2-Clause */
/* host_own.h - a process's place on the host and its connections, for host.c
 * and receive.c. */
#ifndef HOST_HOST_OWN_H
#define HOST_HOST_OWN_H

#include "host/host.h"
#include "host/msg.h"
#include "host/services.h"
#include "host/user.h"
#include "sys/list.h"

enum {
	SLOTS = 1 << SLOT_BITS,
	BUF = MSG_PAYLOAD_MAX + sizeof(struct msg_dgram) + 1,
};

struct conn {
	struct list node; /* host->conns, ->strangers or ->dead */
	int fd;
	uint16_t slot;	   /* whose; 0: not known */
	bool greeted;	   /* what comes now are datagrams */
	uint16_t claimed;  /* by its greeting, but not judged yet; */
	uint64_t judge_by; /* .. at the latest then */
	int proof;	   /* a descriptor that came with it; or -1 */
	bool foreign;	   /* another user's */
	bool stranger;	   /* .. and not proven yet */
	uid_t uid;	   /* of a slot's process: when it took the slot */
	pid_t pid;
};

struct host {
	const struct host_ops *ops;
	void *arg;
	uint16_t slot;
	struct user user;
	int epfd, listen_fd;
	int spare_fd;	  /* given up to refuse a connection when
			   * there are no descriptors left */
	uid_t holders[2]; /* other users whose datagrams are taken */
	unsigned nholders;
	unsigned nown, nforeign, foreign_max; /* connections: this user's, and */
	unsigned nstrangers;		      /* others', proven and not */
	struct list conns;		      /* but those of strangers: */
	struct list strangers;
	struct list dead;	     /* closed; events may still point to them */
	struct conn *by_slot[SLOTS]; /* to send through */
	uint64_t not_before[SLOTS];  /* nobody was there */
	uint64_t said_full, said_garbage, said_fds, said_claim, said_stranger;
	struct services services;
	struct host_stats stats;
	uint8_t buf[BUF];
};

/* A connection that we made to slot, or that somebody made to us (0).  Takes fd
 * over, also when it fails: NULL. */
struct conn *host_conn_new(struct host *h, int fd, uint16_t slot);
/* It is slot's, the kernel says, whose process took it as user uid.  False: that
 * user has too many. */
bool host_conn_prove(struct host *h, struct conn *c, uint16_t slot, uid_t uid);
void host_conn_close(struct host *h, struct conn *c); /* is now among the dead */
void host_bury(struct host *h);			      /* free the dead */

/* A process that the kernel shows as *uid and pid says that slot is its own.  0: it
 * is, and *uid is now the user that it was when it took the slot; -EPERM, -ESRCH: it
 * is not; -EAGAIN: that cannot be said now.  After setuid() the numbers of a process
 * prove nothing, since another program of the same number may have had the connection
 * before: then proof has to be the slot's listening socket, which nobody else has. */
int host_owns(struct host *h, uint16_t slot, uid_t *uid, pid_t pid, int proof);

#endif
