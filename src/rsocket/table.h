/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h - from a descriptor to the object behind it, which is counted: a caller
 * that uses it holds a count, and the last to let go frees it. */
#ifndef RSOCKET_TABLE_H
#define RSOCKET_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

/* The first member of what the table leads to. */
struct rsock_entry {
	int fd; /* an eventfd that nothing is written to: it
		 * only keeps a number taken; -1: none yet */
	_Atomic unsigned refs;
	unsigned forks;			     /* of the process, before this was made */
	void (*free)(struct rsock_entry *e); /* called with no lock held */
};

/* With a count of 1, and no descriptor yet. */
void rsock_entry_init(struct rsock_entry *e, void (*free)(struct rsock_entry *e));
/* Gives it the lowest descriptor that is free: librspreload.so and select() count
 * on low numbers.  The table has the caller's count from then on, and another thread
 * may withdraw the entry at once.  The descriptor, or -errno. */
int rsock_entry_publish(struct rsock_entry *e);
/* The entry of fd, counted for the caller; NULL: there is none. */
struct rsock_entry *rsock_entry_find(int fd);
/* Takes it out of the table and closes fd: the table's count is the caller's. */
struct rsock_entry *rsock_entry_withdraw(int fd);
bool rsock_entry_hold(struct rsock_entry *e); /* false: it is being freed */
void rsock_entry_put(struct rsock_entry *e);
/* It is the copy that a fork left in the child. */
bool rsock_entry_forked(const struct rsock_entry *e);
/* Calls call for each entry that has a descriptor and is no copy of a fork's. */
void rsock_entry_each(void (*call)(struct rsock_entry *e));

/* Around a fork: the table's lock; then, in the child, what is there is a copy. */
void rsock_table_lock(void);
void rsock_table_unlock(void);
void rsock_table_forked(void);

#endif
