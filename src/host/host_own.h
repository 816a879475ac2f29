/* SPDX-License-Identifier: BSD-2-Clause */
/* host_own.h - a process's place on the host and its connections; inside host/ only. */
#ifndef HOST_HOST_OWN_H
#define HOST_HOST_OWN_H

#include "host/msg.h"
#include "host/reserve.h"
#include "host/services.h"
#include "host/stats.h"
#include "link/dgram.h"
#include "sys/list.h"
#include "sys/qpn.h"
#include "sys/user.h"

enum {
	SLOTS = 1 << QPN_SLOT_BITS,
	BUF = MSG_PAYLOAD_MAX + sizeof(struct msg_dgram) + 1,
	AGAIN_NS = 1000000, /* between two tries to reach one slot, at least */
};

struct conn {
	struct list node; /* host->conns, ->strangers or ->dead */
	int fd;
	uint16_t slot; /* whose; 0: not known */
	bool greeted;  /* what comes now are datagrams */
	bool foreign;  /* another user's */
	bool stranger; /* .. and not proven yet */
	bool took_fds; /* .. whose descriptors were taken for a while: see host_take_fds()
			*/
	bool unheard;  /* .. see host_stop_hearing() */
	unsigned fds;  /* .. so many came */
	uid_t uid;     /* of a slot's process: when it took the slot */
	pid_t pid;
	/* Its greeting, while it waits for a verdict: */
	uint16_t claimed;  /* 0: there is none */
	struct list wait;  /* host->waiting */
	uint64_t since;	   /* .. when it came in */
	uint64_t judge_at; /* .. not before */
	unsigned tries;
	pid_t greeter; /* .. who said it, as the kernel has it */
	bool answered; /* proof is known: of slot's process, or as claimed */
	struct msg_proof proof;
};

struct host {
	const struct host_ops *ops;
	void *arg;
	uint16_t slot;
	struct user user;
	struct msg_proof proof;
	int epfd, listen_fd;
	int spare_fd;	   /* given up to refuse a connection when
			    * there are no descriptors left */
	int alarm_fd;	   /* greetings are judged then */
	uint64_t alarm_at; /* NEVER: none waits */
	uid_t holders[2];  /* other users whose datagrams are taken */
	unsigned nholders;
	unsigned nown, nforeign, foreign_max; /* connections: this user's, and */
	unsigned nstrangers;		      /* others', proven and not */
	struct list conns;		      /* but those of strangers: */
	struct list strangers;
	struct list dead; /* closed; events may still point to them */
	struct list waiting;
	struct list later;	     /* see later.c */
	struct conn *by_slot[SLOTS]; /* to send through */
	bool takes_fds[SLOTS];
	bool deaf; /* to those who connect, and services: see host_stop_hearing() */
	struct {
		int rc;
		uint64_t until;
	} unreached[SLOTS]; /* what the last try to connect has said */
	uint64_t said_full, said_garbage, said_fds, said_claim, said_stranger;
	struct reserve reserve;
	struct services services;
	struct host_stats stats;
	uint8_t buf[BUF];
};

/* --- conn.c ---------------------------------------------------------------------- */

void host_conns_init(struct host *h);
/* A connection that we made to slot, or that somebody made to us (0).  Takes fd
 * over, also when it fails: NULL. */
struct conn *host_conn_new(struct host *h, int fd, uint16_t slot);
/* It is slot's, the kernel says, whose process took it as user uid.  False: that
 * user has too many. */
bool host_conn_prove(struct host *h, struct conn *c, uint16_t slot, uid_t uid);
void host_conn_close(struct host *h, struct conn *c); /* is now among the dead */
void host_conn_hang_up(struct conn *c);		      /* its descriptor alone */
void host_bury(struct host *h);			      /* free the dead */
/* Its other end is closed, though what was said before may lie here unread. */
bool host_conn_has_ended(const struct conn *c);
/* What comes in through c is to be taken in, or stays where it is.  False: that
 * cannot be. */
bool host_conn_watch(struct host *h, struct conn *c, bool on);
/* Descriptors cannot be closed as fast as they come: what c's user says, who has sent
 * them, stays where it is for a while; with NULL what may be of anybody. */
void host_stop_hearing(struct host *h, struct conn *c);
/* .. the while is over. */
void host_hear_again(struct host *h);
enum { UNHEARD_NS = 100000000 };
/* The connection to send to slot through.  0, -EAGAIN, -ESRCH. */
int host_conn_get(struct host *h, uint16_t slot, struct conn **out);

/* --- owner.c --------------------------------------------------------------------- */

/* Connect to the owner of slot, as the kernel has it now.  The descriptor, -ESRCH,
 * -EAGAIN ... */
int host_reach(struct host *h, uint16_t slot);

/* A process that the kernel shows as *uid and pid says that slot is its own.  0: it
 * is, and *uid is now the user that it was when it took the slot; -EPERM, -ESRCH: it
 * is not; -EAGAIN: that cannot be said now.  After setuid() the numbers of a process
 * prove nothing, since another program of the same number may have had the connection
 * before: then said, which is NULL unless that process said it, has to be what the
 * owner itself says.  Of the reserve the owner at time since or later counts. */
int host_owns(struct host *h, uint16_t slot, uint64_t since, uid_t *uid, pid_t pid,
	      const struct msg_proof *said);

/* --- greet.c --------------------------------------------------------------------- */

/* c's first message, said by process by. */
void host_greeted(struct host *h, struct conn *c, const void *buf, size_t len, pid_t by);
/* It answers our greeting.  False: it is something else. */
bool host_answered(struct host *h, struct conn *c, const void *buf, size_t len);
/* Greet at the other end of fd.  0 or -errno. */
int host_greet(struct host *h, int fd);
void host_set_alarm(struct host *h, uint64_t at);
/* The alarm went off: judge the greetings that wait for it. */
void host_judge(struct host *h);

/* --- later.c --------------------------------------------------------------------- */

void host_later_now(struct host *h);   /* an owner has answered */
void host_later_judge(struct host *h); /* the alarm went off */
void host_later_free(struct host *h);

/* --- receive.c ------------------------------------------------------------------- */

/* c's process sent what no urnic sends. */
void host_garbage(struct host *h, struct conn *c);
/* A datagram for a service, as host_take_dgram(), that came in at time since.  0: it was
 * delivered or refused; -EAGAIN: that cannot be said now. */
int host_judge_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len,
		     uint64_t since);

#endif
