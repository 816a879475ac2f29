/* SPDX-License-Identifier: BSD-2-Clause */
/* unread.h - discards messages that lie unread at a unix socket. */
#ifndef SYS_UNREAD_H
#define SYS_UNREAD_H

#include <stdbool.h>

/* Discards unread messages at fd, a connected SOCK_SEQPACKET socket that was shut down
 * for reading, up to the first one with descriptors.  Returns true if nothing is left. */
bool unread_drop(int fd);

#endif
