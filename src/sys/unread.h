/* SPDX-License-Identifier: BSD-2-Clause */
/* unread.h - what lies unread at a unix socket. */
#ifndef SYS_UNREAD_H
#define SYS_UNREAD_H

#include <stdbool.h>

/* Take away what lies unread at a unix socket, SOCK_SEQPACKET and connected, that has
 * been shut down for reading, but for descriptors.  True: nothing is left. */
bool unread_drop(int fd);

#endif
