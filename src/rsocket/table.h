/* SPDX-License-Identifier: BSD-2-Clause */
/* table.h - finds the object behind a descriptor. Objects are counted: a caller holds a
 * count while it uses one, and the last to let go frees it. */
#ifndef RSOCKET_TABLE_H
#define RSOCKET_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

/* The first member of an object in the table. */
struct rsock_entry {
	/* An eventfd that nothing is written to, which only keeps the number taken; -1:
	 * none yet. */
	int fd;
	_Atomic unsigned refs;
	/* The process's count of forks when this entry was made. */
	unsigned forks;
	void (*free)(struct rsock_entry *e); /* called with no lock held */
};

/* Sets a count of 1, and no descriptor yet. */
void rsock_entry_init(struct rsock_entry *e, void (*free)(struct rsock_entry *e));
/* Gives e the lowest free descriptor, as librspreload.so and select() rely on low
 * numbers. The table then has the caller's count, and another thread may withdraw e at
 * once. Returns the descriptor, or -errno. */
int rsock_entry_publish(struct rsock_entry *e);
/* Returns the entry of fd, counted for the caller, or NULL. */
struct rsock_entry *rsock_entry_find(int fd);
/* Takes the entry of fd out of the table and closes fd. The table's count passes to the
 * caller. */
struct rsock_entry *rsock_entry_withdraw(int fd);
bool rsock_entry_hold(struct rsock_entry *e); /* false: e is being freed */
void rsock_entry_put(struct rsock_entry *e);
/* Is e a copy that a fork left in the child? */
bool rsock_entry_forked(const struct rsock_entry *e);
/* Calls call() for each entry with a descriptor, except copies from before a fork. */
void rsock_entry_each(void (*call)(struct rsock_entry *e));

/* Around a fork: the table's lock; see held_fork(). rsock_table_forked(), in the child,
 * makes it anew, and marks all entries as copies. */
bool rsock_table_lock(void);
void rsock_table_unlock(void);
void rsock_table_forked(void);

#endif
