/* SPDX-License-Identifier: BSD-2-Clause */
/* backlog.h - the connections of a listener that the program has not accepted. A request
 * waits, without QP or buffers, until the backlog has room; then it is being accepted;
 * then it is ready for raccept(). One lock guards the lists of all listeners. */
#ifndef RSOCKET_BACKLOG_H
#define RSOCKET_BACKLOG_H

#include <stdbool.h>

#include "rsocket/sock.h"
#include "sys/list.h"

enum { RSOCK_WAITING_MAX = 1024, RSOCK_BACKLOG_MAX = 1024 };

/* The part of a listener. */
struct rsock_backlog {
	struct list waiting, accepting, ready;
	int max;		   /* limit of accepting and ready together */
	struct rsock_entry *owner; /* the listener */
};

/* The part of a connection. */
struct rsock_child {
	struct list node;
	struct rsock_entry *owner; /* the connection */
	struct rsock_backlog *of;  /* NULL: of no listener */
	bool settled;		   /* it is ready, or the program has it */
};

void rsock_backlog_init(struct rsock_backlog *b, struct rsock_entry *owner);
void rsock_child_init(struct rsock_child *c, struct rsock_entry *owner);

void rsock_backlog_limit(struct rsock_backlog *b, int max);
/* May another request wait? */
bool rsock_backlog_has_room(struct rsock_backlog *b);
void rsock_backlog_add(struct rsock_backlog *b, struct rsock_child *c);
/* Moves the next request that the backlog allows to accepting, and counts its owner for
 * the caller; NULL: none waits, or the backlog is full. */
struct rsock_child *rsock_backlog_next(struct rsock_backlog *b);
bool rsock_backlog_any_ready(struct rsock_backlog *b);
/* Takes the first connection that is ready, for the program; NULL: none is ready. */
struct rsock_child *rsock_backlog_take(struct rsock_backlog *b);
/* Puts c back as the first that is ready: the program has no free descriptor for it. */
void rsock_backlog_give_back(struct rsock_backlog *b, struct rsock_child *c);
/* Moves all connections of b to the list `out`. */
void rsock_backlog_empty(struct rsock_backlog *b, struct list *out);

/* The connection has been made and becomes ready, or has failed and leaves its listener.
 * Returns false if no listener waits for that. *listener is counted for the caller, or
 * NULL if the listener is being freed. */
bool rsock_child_settle(struct rsock_child *c, bool made,
			struct rsock_backlog **listener);

/* Around a fork: the lock; see held_fork(). rsock_backlogs_forked() makes it anew, in the
 * child. */
bool rsock_backlogs_lock(void);
void rsock_backlogs_unlock(void);
void rsock_backlogs_forked(void);

#endif
