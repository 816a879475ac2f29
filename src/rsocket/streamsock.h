/* SPDX-License-Identifier: BSD-2-Clause */
/* streamsock.h - what a program does with a SOCK_STREAM socket: send and receive, direct
 * placement (riomap() and the like), options; and the socket's struct rsock_kind. */
#ifndef RSOCKET_STREAMSOCK_H
#define RSOCKET_STREAMSOCK_H

#include <sys/types.h>

#include "rsocket/sock.h"
#include "rsocket/streamep.h"

/* --- sending and receiving ----------------------------------------------- */

/* These two are functions of struct rsock_kind. */
ssize_t rsock_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
		   const struct sockaddr *to, socklen_t tolen);
ssize_t rsock_receive(struct rsock *rs, const struct iovec *iov, int n, int *flags,
		      struct sockaddr *from, socklen_t *fromlen);

/* --- direct placement ---------------------------------------------------- */

/* All under the socket's lock; functions return 0, a count, or -errno. */

/* Maps buf at an offset (-1: any), and sets *at to the offset. */
int rsock_direct_map(struct rsock_stream *st, void *buf, size_t len, int prot,
		     off_t offset, off_t *at);
int rsock_direct_unmap(struct rsock_stream *st, const void *buf, size_t len);
ssize_t rsock_direct_write(struct rsock_stream *st, const void *buf, size_t count,
			   uint64_t offset, int flags);

/* --- the kind ------------------------------------------------------------ */

/* Makes a socket without a descriptor. Returns 0 or -errno. */
int rsock_streamsock_new(int domain, struct rsock **out);

#endif
