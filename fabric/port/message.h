/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h - one message over a SOCK_SEQPACKET connection, with a descriptor. */
#ifndef FABRIC_PORT_MESSAGE_H
#define FABRIC_PORT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sends head and body as one message, and the descriptor `pass` with it (-1: none).
 * Returns 0; -EAGAIN: dont_wait is set and the socket has no room, or the other side does
 * not take descriptors yet; -EIO: the connection is broken. */
int message_send(int fd, const void *head, size_t head_len, const void *body,
		 size_t body_len, int pass, bool dont_wait);

/* Takes a message of user uid without waiting.  Returns its whole length, of which at
 * most size bytes are in msg.  -EWOULDBLOCK: there is no message; -EIO: the connection
 * has ended.  *passed: a descriptor that came along, for the caller to give to
 * closer_put(), or -1.  If passed is NULL, the descriptor is closed here.  flags: as of
 * recvmsg(). */
long message_recv(int fd, uid_t uid, void *msg, size_t size, int *passed, int flags);

/* A message with a body of more than MESSAGE_LONG bytes travels in a sealed memfd, which
 * is passed along with the first MESSAGE_HEAD bytes of the body. */
enum { MESSAGE_LONG = 65536, MESSAGE_HEAD = 320 };

/* As message_send(), but by memfd if the body is too long.  Also returns the errors of
 * making the memfd, such as -ENOMEM. */
int message_send_any(int fd, const void *head, size_t head_len, const void *body,
		     size_t body_len, bool dont_wait);

/* The length of the message in a passed memfd.  -EPROTO: the descriptor is not a memfd
 * that is sealed against changes by its sender. */
long message_length(int passed);
/* Reads the first len bytes of the passed memfd.  Returns 0 or -EPROTO. */
int message_read(int passed, void *to, size_t len);

#endif
