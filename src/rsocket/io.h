/* SPDX-License-Identifier: BSD-2-Clause */
/* io.h - send and receive on a stream: functions of struct rsock_kind. */
#ifndef RSOCKET_IO_H
#define RSOCKET_IO_H

#include "rsocket/conn.h"

ssize_t rsock_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
		   const struct sockaddr *to, socklen_t tolen);
ssize_t rsock_receive(struct rsock *rs, const struct iovec *iov, int n, int *flags,
		      struct sockaddr *from, socklen_t *fromlen);

#endif
