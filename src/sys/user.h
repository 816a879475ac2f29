/* SPDX-License-Identifier: BSD-2-Clause */
/* user.h - does another process belong to this user?
 *
 * The owner of a process is settled once, when it opens its first device or begins to
 * serve a fabric: a later setuid() changes nothing, neither here nor for others.  Inside
 * a user namespace the kernel shows all users that have no number there as the same one,
 * the overflow uid (usually 65534), so that number identifies nobody. */
#ifndef SYS_USER_H
#define SYS_USER_H

#include <stdbool.h>
#include <sys/types.h>

struct user {
	uid_t uid;
	uid_t hidden; /* stands for users that cannot be told apart; -1: no number does */
};

void user_open(struct user *u);

/* Does the text of /proc/self/uid_map (NULL: there is none) leave users of the system
 * without a number of their own? */
bool user_map_hides(const char *map);

/* May uid stand for several users that cannot be told apart? */
bool user_is_hidden(const struct user *u, uid_t uid);

/* Does a process that the kernel shows with this uid and pid belong to this user? */
bool user_is_ours(const struct user *u, uid_t uid, pid_t pid);

/* Are two processes that were shown with these uids the same user's? */
bool user_is_same(const struct user *u, uid_t a, uid_t b);

/* Does a process that the kernel shows with this uid and pid belong to owner, who may be
 * this user or another? */
bool user_is_of(const struct user *u, uid_t owner, uid_t uid, pid_t pid);

/* Who opened the other end of the connected or listening Unix socket fd: the user and the
 * process then, as the kernel shows them here.  Returns 0 or -errno. */
int user_of_peer(int fd, uid_t *uid, pid_t *pid);

/* The effective user of a process now, whoever it was when it opened its device.  -1:
 * unknown. */
uid_t user_of_now(pid_t pid);

#endif
