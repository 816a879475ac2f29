/* SPDX-License-Identifier: BSD-2-Clause */
/* closer.h - a thread that closes descriptors which another user has sent: that user can
 * make close(2) take as long as he likes (docs/dev/host.md). */
#ifndef SYS_CLOSER_H
#define SYS_CLOSER_H

#include <stdbool.h>
#include <sys/types.h>

/* The limits of descriptors that wait for the thread.  Above CLOSER_EACH for one user, no
 * more messages are taken from that user; above CLOSER_ALL for all users together, no new
 * process is let in.  One message brings up to 253 descriptors, so one user alone cannot
 * use up the room of another. */
enum { CLOSER_EACH = 64, CLOSER_ALL = 384 };

/* Closes fd, which user uid has sent, some time later; -1: does nothing.  Returns at
 * once, whatever fd is. */
void closer_put(uid_t uid, int fd);

/* Closes a connected unix socket: at once if no descriptor lies unread in it, else by the
 * thread.  The other end sees the end at once in both cases. */
void closer_hang_up(int fd);

/* Do so many of uid's descriptors wait that no more messages should be taken from uid?
 * That happens if closing one of them takes long. */
bool closer_is_full_of(uid_t uid);
bool closer_is_full(void); /* of all users together */

/* Starts the thread, if it could not be started before.  Returns false if it still
 * cannot: call again later. */
bool closer_try_again(void);

/* For the child of a fork, in which the thread does not exist. */
void closer_forked(void);

#endif
