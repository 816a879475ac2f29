/* SPDX-License-Identifier: BSD-2-Clause */
/* rights.h - sends and receives descriptors with messages over unix sockets
 * (SCM_RIGHTS). */
#ifndef SYS_RIGHTS_H
#define SYS_RIGHTS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The kernel itself closes descriptors that find no room at the receiver, and that may
 * take long: so there is room for as many as the kernel lets anybody send
 * (SCM_MAX_FD). */
enum { RIGHTS_MAX = 253, RIGHTS_ROOM = CMSG_SPACE(sizeof(int[RIGHTS_MAX])) };

/* Makes m carry n descriptors; at is the room for the control message. */
void rights_put(struct msghdr *m, struct cmsghdr *at, const int *fds, unsigned n);

/* Takes the descriptors that m has brought from user uid, and returns their number.  The
 * first max go to fds, filled up with -1; the rest goes to closer_put(). */
unsigned rights_take(struct msghdr *m, uid_t uid, int *fds, unsigned max);

/* From now on the kernel lets nobody send descriptors to this unix socket (EPERM), nor to
 * those accepted from it.  Returns false if the kernel cannot do that (before Linux
 * 6.16). */
bool rights_refuse(int fd);
void rights_allow(int fd);

#endif
