/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket.h - the calls of <rdma/rsocket.h> by descriptor. They return 0, a count or a
 * descriptor, or -errno. -EBADF: fd is no rsocket. -EIO: it is a copy that a fork left in
 * the child, which can only be closed. */
#ifndef RSOCKET_RSOCKET_H
#define RSOCKET_RSOCKET_H

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

int rsocket_open(int domain, int type, int protocol);
int rsocket_bind(int fd, const struct sockaddr *a, socklen_t len);
int rsocket_listen(int fd, int backlog);
int rsocket_accept(int fd, struct sockaddr *a, socklen_t *len);
int rsocket_connect(int fd, const struct sockaddr *a, socklen_t len);
int rsocket_name(int fd, bool peer, struct sockaddr *a, socklen_t *len);
int rsocket_shutdown(int fd, int how);
int rsocket_close(int fd);

/* n: up to IOV_MAX, or RSOCKET_TOO_MANY for an array that is too long. */
enum { RSOCKET_TOO_MANY = INT_MAX };
ssize_t rsocket_send(int fd, const struct iovec *iov, int n, int flags,
		     const struct sockaddr *to, socklen_t tolen);
/* *flags: in: the flags of the call; out: those of the message. */
ssize_t rsocket_receive(int fd, const struct iovec *iov, int n, int *flags,
			struct sockaddr *from, socklen_t *fromlen);

int rsocket_set_option(int fd, int level, int name, const void *val, socklen_t len);
int rsocket_get_option(int fd, int level, int name, void *val, socklen_t *len);
/* cmd: F_GETFL, F_SETFL, F_GETFD or F_SETFD. */
int rsocket_fcntl(int fd, int cmd, int arg);

/* Sets *at to the offset at which the peer finds buf. */
int rsocket_map(int fd, void *buf, size_t len, int prot, off_t offset, off_t *at);
int rsocket_unmap(int fd, const void *buf, size_t len);
ssize_t rsocket_write_at(int fd, const void *buf, size_t count, uint64_t offset,
			 int flags);

/* --- rpoll() and rselect() ----------------------------------------------- */

/* As poll(2) and select(2), but an error is returned as -errno. */
int rsocket_poll(struct pollfd *fds, nfds_t n, int ms);
int rsocket_select(int n, fd_set *in, fd_set *out, fd_set *except,
		   const struct timeval *timeout);

#endif
