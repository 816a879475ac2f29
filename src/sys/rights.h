/* SPDX-License-Identifier: BSD-2-Clause */
/* rights.h - descriptors that go along with messages over unix sockets (SCM_RIGHTS). */
#ifndef SYS_RIGHTS_H
#define SYS_RIGHTS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* The kernel itself closes what finds no room at the receiver's, and may take its
 * time: so there is room for as many as it lets anybody send (SCM_MAX_FD). */
enum { RIGHTS_MAX = 253, RIGHTS_ROOM = CMSG_SPACE(sizeof(int[RIGHTS_MAX])) };

/* n descriptors go along with m; at is the room for that. */
void rights_put(struct msghdr *m, struct cmsghdr *at, const int *fds, unsigned n);

/* Those that m has brought, of user uid: how many.  The first max are the caller's, -1
 * where there are fewer; the rest goes to closer_put(). */
unsigned rights_take(struct msghdr *m, uid_t uid, int *fds, unsigned max);

/* From now on the kernel lets nobody send descriptors to this unix socket (EPERM), nor
 * to those that are accepted by it.  False: it cannot (before Linux 6.16). */
bool rights_refuse(int fd);
void rights_allow(int fd);

#endif
