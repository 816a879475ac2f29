/* SPDX-License-Identifier: BSD-2-Clause */
/* backlog.h - the connections of a listener that the program does not have yet.
 * A request waits, without QP or buffers, until the backlog allows to accept it;
 * then it is being accepted; then it is ready for raccept().  One lock guards the
 * lists of all listeners. */
#ifndef RSOCKET_BACKLOG_H
#define RSOCKET_BACKLOG_H

#include <stdbool.h>

#include "rsocket/table.h"
#include "sys/list.h"

enum { RSOCK_WAITING_MAX = 1024, RSOCK_BACKLOG_MAX = 1024 };

/* A listener's part. */
struct rsock_backlog {
	struct list waiting, accepting, ready;
	int max;		   /* of accepting and ready */
	struct rsock_entry *owner; /* the listener */
};

/* A connection's part. */
struct rsock_child {
	struct list node;
	struct rsock_entry *owner; /* the connection */
	struct rsock_backlog *of;  /* NULL: no listener's */
	bool settled;		   /* it is ready, or the program has it */
};

void rsock_backlog_init(struct rsock_backlog *b, struct rsock_entry *owner);
void rsock_child_init(struct rsock_child *c, struct rsock_entry *owner);

void rsock_backlog_limit(struct rsock_backlog *b, int max);
/* False: too many wait already. */
bool rsock_backlog_has_room(struct rsock_backlog *b);
void rsock_backlog_add(struct rsock_backlog *b, struct rsock_child *c);
/* The next to be accepted, its owner counted for the caller; NULL: none waits, or
 * may be accepted. */
struct rsock_child *rsock_backlog_next(struct rsock_backlog *b);
bool rsock_backlog_any_ready(struct rsock_backlog *b);
/* The first that is ready becomes the program's; NULL: none is. */
struct rsock_child *rsock_backlog_take(struct rsock_backlog *b);
/* The program has no descriptor left for it: it stays the first that is ready. */
void rsock_backlog_give_back(struct rsock_backlog *b, struct rsock_child *c);
/* All of them leave; they are put into the list `out`. */
void rsock_backlog_empty(struct rsock_backlog *b, struct list *out);

/* The connection has been made, and is ready; or it has come to nothing, and
 * leaves.  False: no listener waits for that.  *listener: its owner is counted for
 * the caller; NULL: it is being freed. */
bool rsock_child_settle(struct rsock_child *c, bool made,
			struct rsock_backlog **listener);

void rsock_backlogs_lock(void); /* around a fork */
void rsock_backlogs_unlock(void);

#endif
