/* SPDX-License-Identifier: BSD-2-Clause */
/* host_own.h - a process's place on the host and its connections; inside host/ only. */
#ifndef HOST_HOST_OWN_H
#define HOST_HOST_OWN_H

#include "host/msg.h"
#include "host/reserve.h"
#include "net/dgram.h"
#include "sys/list.h"
#include "sys/user.h"
#include "wire/qpn.h"

enum {
	SLOTS = 1 << QPN_SLOT_BITS,
	AGAIN_NS = 1000000, /* ns, at least, between two tries to reach one slot */
};

/* The names of service.h. */
struct services {
	struct list list;
	int epfd;  /* -1: no name was bound yet */
	int tx_fd; /* -1: nothing was sent yet */
};

/* What cannot be judged yet: a greeting, or a datagram for a service. */
struct host_wait {
	struct list node;	/* host->waiting */
	struct host_conn *conn; /* whose greeting it is; NULL: a datagram */
	uint64_t since;		/* ns; when it came in */
	uint64_t at;		/* ns; judge it no earlier */
	unsigned tries;
};

struct host_conn {
	struct list node; /* host->conns, ->strangers or ->dead */
	int fd;
	uint16_t slot; /* slot of the other process; 0: not known */
	bool greeted;  /* the greeting is done; datagrams follow */
	bool foreign;  /* the other process is another user's */
	bool stranger; /* foreign, and its slot is not yet proven */
	/* foreign: descriptors from it were accepted for a while, see host_take_fds() */
	bool took_fds;
	bool unheard; /* foreign: not read for now, see host_stop_hearing() */
	unsigned fds; /* foreign: descriptors that came */
	uid_t uid;    /* of a process with a slot: its user when it took the slot */
	pid_t pid;
	/* The greeting of the other process, while it waits for a verdict: */
	uint16_t claimed; /* slot claimed by the greeting; 0: none */
	struct host_wait wait;
	pid_t greeter; /* sender of the greeting, from the kernel */
	/* `proof` is known: as the process of slot sent it, or as claimed */
	bool answered;
	struct msg_proof proof;
};

struct host {
	const struct host_ops *ops;
	void *arg;
	uint16_t slot;
	struct user user;
	struct msg_proof proof;
	int epfd, listen_fd;
	/* closed to accept and refuse a connection when there are no descriptors left */
	int spare_fd;
	int alarm_fd;	   /* timerfd; greetings are judged when it expires */
	uint64_t alarm_at; /* ns; NEVER: none waits */
	uid_t holders[2];  /* other users whose datagrams are accepted */
	unsigned nholders;
	/* connections of this user's processes, and */
	unsigned nown, nforeign, foreign_max;
	/* of others, proven (nforeign) and not (nstrangers) */
	unsigned nstrangers;
	/* connections, except those of strangers */
	struct list conns;
	struct list strangers;
	/* closed ones, to be freed later: epoll events may still point to them */
	struct list dead;
	struct list waiting;		  /* for a judgement, see greet.c */
	struct host_conn *by_slot[SLOTS]; /* connections to send by */
	bool takes_fds[SLOTS];
	/* reads neither new connections nor services, see host_stop_hearing() */
	bool deaf;
	struct {
		int rc;
		uint64_t until;
		/* result of the last failed connect to each slot, valid until then */
	} unreached[SLOTS];
	uint64_t said_full, said_garbage, said_fds, said_claim, said_stranger;
	struct reserve reserve;
	struct services services;
	struct host_stats stats;
	_Alignas(8) uint8_t buf[MSG_AT_ONCE_MAX]; /* the body of a message */
};

/* --- conn.c ---------------------------------------------------------------------- */

void host_conns_init(struct host *h);
/* Adds a connection that we made to slot, or that another process made to us (slot 0).
 * Takes fd over, and closes it if it returns NULL. */
struct host_conn *host_conn_new(struct host *h, int fd, uint16_t slot);
/* The kernel has shown that c's process owns slot, and took it as user uid. Returns
 * false if that user has too many connections. */
bool host_conn_prove(struct host *h, struct host_conn *c, uint16_t slot, uid_t uid);
void host_conn_close(struct host *h,
		     struct host_conn *c);   /* c moves to the list `dead` */
void host_conn_hang_up(struct host_conn *c); /* closes only c's descriptor */
/* frees the connections in `dead` */
void host_bury(struct host *h);
/* c's slot may be another process's from now on. */
void host_let_slot_go(struct host *h, const struct host_conn *c);
/* Is the other end closed? Messages sent before may still be unread. */
bool host_conn_has_ended(const struct host_conn *c);
/* Adds fd to what makes host_fd() readable, or removes it. Returns false if epoll
 * refuses. */
bool host_watch(struct host *h, int fd, void *who, bool on);
/* Starts or stops reading c. Returns false if epoll refuses. */
bool host_conn_watch(struct host *h, struct host_conn *c, bool on);
/* Descriptors arrive faster than they can be closed: stops reading for a while from c's
 * user, who sent them, or, if c is NULL, from sources that may be any user's. */
void host_stop_hearing(struct host *h, struct host_conn *c);
/* Ends what host_stop_hearing() began, when its time is over. */
void host_hear_again(struct host *h);
enum { UNHEARD_NS = 100000000 };
/* Finds or makes the connection to send to slot by. Returns 0, -EAGAIN, -ESRCH. */
int host_conn_get(struct host *h, uint16_t slot, struct host_conn **out);

/* --- owner.c --------------------------------------------------------------------- */

/* Connects to the current owner of slot, according to the kernel. Returns the
 * descriptor, -ESRCH, -EAGAIN ... */
int host_reach(struct host *h, uint16_t slot);

/* Does slot belong to the process that the kernel shows as *uid and pid? Returns 0: yes,
 * and *uid becomes its user when it took the slot; -EPERM, -ESRCH: no; -EAGAIN: cannot
 * be told now.
 *
 * After setuid() the numbers of a process prove nothing, because a program that had the
 * same numbers before may have made the connection. Then `said` (NULL if that process
 * sent no proof) must match the proof that the owner sends. For a slot of the reserve,
 * the owner at time `since` or later counts.
 */
int host_owns(struct host *h, uint16_t slot, uint64_t since, uid_t *uid, pid_t pid,
	      const struct msg_proof *said);

/* --- greet.c --------------------------------------------------------------------- */

/* Handles c's first message. */
void host_greeted(struct host *h, struct host_conn *c, const struct msg *m);
/* Handles a later greeting. Returns false if it is no answer to ours. */
bool host_answered(struct host *h, struct host_conn *c, const struct msg *m);
/* Sends our greeting on fd. Returns 0 or -errno. */
int host_greet(struct host *h, int fd);
void host_set_alarm(struct host *h, uint64_t at);
/* The alarm expired: judges what waits for it. */
void host_judge(struct host *h);
/* An owner has answered: what waits may be judged now. */
void host_judge_soon(struct host *h);
/* Handles the body of a HOST_SERVICE, sent by process pid of uid. */
void host_take_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len);
/* Frees the datagrams that wait, at the end. */
void host_later_free(struct host *h);

/* --- service.c ------------------------------------------------------------------- */

void services_init(struct services *s);
/* Closes all descriptors: at the end, and in the child of a fork. */
void services_forked(struct services *s);
/* Releases the names, at the end. */
void services_let_go(struct services *s);
/* Handles datagrams that have come in, a bounded number in one call. */
void services_run(struct host *h);

/* --- receive.c ------------------------------------------------------------------- */

/* c's process sent a message that no urnic sends. */
void host_garbage(struct host *h, struct host_conn *c);
/* Judges the body of a HOST_SERVICE that came in at time `since`. Returns 0: delivered or
 * refused; -EAGAIN: cannot be told now. */
int host_judge_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len,
		     uint64_t since);

#endif
