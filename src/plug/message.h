/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h - one message over a connection, and a descriptor that goes along. */
#ifndef PLUG_MESSAGE_H
#define PLUG_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* head and body are one message; pass: a descriptor that goes along, or -1.
 * 0; -EAGAIN: there is no room, and dont_wait, or the other side does not take
 * descriptors yet; -EIO: nobody is there. */
int message_send(int fd, const void *head, size_t head_len, const void *body,
		 size_t body_len, int pass, bool dont_wait);

/* Without waiting: the length of the message of user uid, of which size bytes at most
 * are in msg.  -EWOULDBLOCK: there is none; -EIO: the connection is at its end.  *passed:
 * a descriptor that came along, for closer_put(), or -1; NULL: is closed. */
long message_recv(int fd, uid_t uid, void *msg, size_t size, int *passed, int flags);

/* A message that is too long for a connection lies in a sealed memfd, which goes
 * along with its first bytes. */
enum { MESSAGE_LONG = 65536, MESSAGE_HEAD = 320 };

/* As message_send(), by memfd where that is needed; -ENOMEM ... */
int message_send_any(int fd, const void *head, size_t head_len, const void *body,
		     size_t body_len, bool dont_wait);

/* The length of what lies in a descriptor that came along; -EPROTO: it is not
 * memory that its sender cannot change any more. */
long message_length(int passed);
/* Takes that many bytes out of it.  0 or -EPROTO. */
int message_read(int passed, void *to, size_t len);

#endif
