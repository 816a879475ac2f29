/* SPDX-License-Identifier: BSD-2-Clause */
/* name.h - the name of a slot up to SLOT_NAMED, or of a claim for another
 * (reserve.h): an abstract SOCK_SEQPACKET address. */
#ifndef HOST_NAME_H
#define HOST_NAME_H

#include <stdint.h>
#include <sys/types.h>

/* Listen as slot.  The descriptor; -EADDRINUSE: somebody has the name. */
int name_listen(uint16_t slot);

/* Connect to slot.  The descriptor; -ESRCH: nobody listens there; -EAGAIN: its
 * backlog is full, or descriptors have run out; -EACCES ... */
int name_connect(uint16_t slot);

/* Close the descriptor of one that listens: its name is free at once. */
void name_let_go(int fd);

/* The same for an abstract name. */
enum { NAME_MAX_LEN = 40 };
int name_listen_at(const char *name);
int name_connect_to(const char *name);

/* Of what comes in the kernel tells who says it (SCM_CREDENTIALS): at sockets that
 * listen, and those accepted there.  Not any more. */
void name_hide_senders(int fd);

/* Who is at the other end, from the kernel.  0 or -errno. */
int name_cred(int fd, uid_t *uid, pid_t *pid);

#endif
