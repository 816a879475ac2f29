/* SPDX-License-Identifier: BSD-2-Clause */
/* closer.h - descriptors in which another user had a hand are closed by a thread of
 * their own: he can make close(2) last as long as he likes (docs/host.md). */
#ifndef SYS_CLOSER_H
#define SYS_CLOSER_H

#include <stdbool.h>
#include <sys/types.h>

/* Of one user so many wait for the thread before nothing more is taken from that user,
 * and of all users together before nobody is let in.  One message brings up to 253: one
 * user alone leaves room for another. */
enum { CLOSER_EACH = 64, CLOSER_ALL = 384 };

/* Close fd, which user uid has sent, at some time; -1: there is none.  Takes no time,
 * whatever it is. */
void closer_put(uid_t uid, int fd);

/* Close a connected unix socket: here, where no descriptor lies in it.  Its other end
 * sees the end at once in any case. */
void closer_hang_up(int fd);

/* So many of uid's wait, since one descriptor takes its time, that the messages which
 * bring them are better left where they are. */
bool closer_is_full_of(uid_t uid);
bool closer_is_full(void); /* .. of all users' together */

/* Where the thread could not be started, try that again.  False: it cannot yet, so call
 * this again later. */
bool closer_try_again(void);

/* In the child of a fork, which has no such thread. */
void closer_forked(void);

#endif
