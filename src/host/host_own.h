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
	struct list node;		/* host->conns, or ->dead */
	int fd;
	uint16_t slot;			/* whose; 0: not known */
	bool greeted;			/* what comes now are datagrams */
	bool foreign;			/* another user's */
	uid_t uid;			/* of a slot's process: when it took the slot */
	pid_t pid;
};

struct host {
	const struct host_ops *ops;
	void *arg;
	uint16_t slot;
	struct user user;
	int epfd, listen_fd;
	int spare_fd;			/* given up to refuse a connection when
					 * there are no descriptors left */
	uid_t holders[2];		/* other users whose datagrams are taken */
	unsigned nholders;
	unsigned nconns, nforeign, foreign_max;
	struct list conns;
	struct list dead;		/* closed; events may still point to them */
	struct conn *by_slot[SLOTS];	/* to send through */
	uint64_t not_before[SLOTS];	/* nobody was there */
	uint64_t said_full, said_garbage, said_fds, said_claim, said_stranger;
	struct services services;
	struct host_stats stats;
	uint8_t buf[BUF];
};

/* Takes fd over, also when it fails. */
struct conn *host_conn_new(struct host *h, int fd);
void host_conn_close(struct host *h, struct conn *c);	/* is now among the dead */
void host_bury(struct host *h);				/* free the dead */

/* A process that the kernel shows as *uid and pid says that slot is its own.  True:
 * it is, and *uid is now the user that it was when it took the slot. */
bool host_owns(struct host *h, uint16_t slot, uid_t *uid, pid_t pid);

#endif
