/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h - one message over a connection, and a descriptor that goes along. */
#ifndef PLUG_MESSAGE_H
#define PLUG_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

/* head and body are one message; pass: a descriptor that goes along, or -1.
 * 0; -EAGAIN: there is no room, and dont_wait; -EIO: nobody is there. */
int message_send(int fd, const void *head, size_t head_len, const void *body,
		 size_t body_len, int pass, bool dont_wait);

/* Without waiting: the length of the message, of which size bytes at most are in
 * msg.  -EWOULDBLOCK: there is none; -EIO: the connection is at its end.  *passed:
 * a descriptor that came along, the caller's, or -1; NULL: is closed. */
long message_recv(int fd, void *msg, size_t size, int *passed, int flags);

#endif
