/* SPDX-License-Identifier: BSD-2-Clause */
/* message.h - sends and receives one message over a connection, with one file
 * descriptor. */
#ifndef PLUG_MESSAGE_H
#define PLUG_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sends head and body as one message. pass: a descriptor to send along, or -1. Returns
 * 0; -EAGAIN: no room, with dont_wait, or the receiver takes no descriptors yet; -EIO:
 * nobody is there. */
int message_send(int fd, const void *head, size_t head_len, const void *body,
		 size_t body_len, int pass, bool dont_wait);

/* Receives a message of user uid without waiting, at most size bytes. Returns its
 * length; -EWOULDBLOCK: none; -EIO: the connection has ended. *passed: a descriptor that
 * came along, to be passed to closer_put(), or -1; with NULL it is closed. */
long message_recv(int fd, uid_t uid, void *msg, size_t size, int *passed, int flags);

/* A message too long for a connection is put into a sealed memfd, which is sent with its
 * first bytes. */
enum { MESSAGE_LONG = 65536, MESSAGE_HEAD = 320 };

/* Like message_send(), by memfd if the message is long; -ENOMEM ... */
int message_send_any(int fd, const void *head, size_t head_len, const void *body,
		     size_t body_len, bool dont_wait);

/* Returns the length of a message in a memfd that was received; -EPROTO if its sender
 * could still change it. */
long message_length(int passed);
/* Copies len bytes out of the memfd. Returns 0 or -EPROTO. */
int message_read(int passed, void *to, size_t len);

#endif
