/* SPDX-License-Identifier: BSD-2-Clause */
/* user.h - whether another process is this user's.
 *
 * Whose a process is, is settled once, when it opens its first device or begins to
 * serve a fabric: setuid() later changes nothing, here or for others.  Inside a user
 * namespace the kernel shows every user that has no number there as one and the same, the
 * overflow uid (65534 as a rule).  There that number says nothing.
 */
#ifndef SYS_USER_H
#define SYS_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	uid_t uid;
	uid_t hidden; /* stands for users that cannot be told
		       * apart; -1: none does */
};

void user_open(struct user *u);

/* The users that a process sees, from the text of /proc/self/uid_map (NULL: not
 * there): is any without a number of its own? */
bool user_map_hides(const char *map);

/* May uid stand for several users, who cannot be told apart? */
bool user_is_hidden(const struct user *u, uid_t uid);

/* Is a process that the kernel shows as this one, this user's? */
bool user_is_ours(const struct user *u, uid_t uid, pid_t pid);

/* The same, of two that were shown with these numbers. */
bool user_is_same(const struct user *u, uid_t a, uid_t b);

/* Is a process that the kernel shows as this one owner's, this user or another? */
bool user_is_of(const struct user *u, uid_t owner, uid_t uid, pid_t pid);

/* The effective user of a process now, whatever it was when it opened.  -1: that cannot
 * be said. */
uid_t user_of_now(pid_t pid);

#endif
