/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h - direct placement (riomap() and the like): buffers of the program that the
 * peer writes to. All under the socket's lock; functions return 0, a count, or -errno. */
#ifndef RSOCKET_DIRECT_H
#define RSOCKET_DIRECT_H

#include <sys/types.h>

#include "rsocket/conn.h"

/* Maps buf at an offset (-1: any), and sets *at to the offset. */
int rsock_direct_map(struct rsock_stream *st, void *buf, size_t len, int prot,
		     off_t offset, off_t *at);
int rsock_direct_unmap(struct rsock_stream *st, const void *buf, size_t len);
ssize_t rsock_direct_write(struct rsock_stream *st, const void *buf, size_t count,
			   uint64_t offset, int flags);

#endif
