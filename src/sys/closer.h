/* SPDX-License-Identifier: BSD-2-Clause */
/* closer.h - descriptors in which another user had a hand are closed by a thread of
 * their own: he can make close(2) last as long as he likes (docs/host.md). */
#ifndef SYS_CLOSER_H
#define SYS_CLOSER_H

#include <stdbool.h>

/* Close fd, at some time; -1: there is none.  Takes no time, whatever it is. */
void closer_put(int fd);

/* So many wait, since one of them takes its time, that the messages which bring them
 * are better left where they are. */
bool closer_is_full(void);

/* In the child of a fork, which has no such thread. */
void closer_forked(void);

#endif
