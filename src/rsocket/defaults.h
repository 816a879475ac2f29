/* SPDX-License-Identifier: BSD-2-Clause */
/* defaults.h - the options of a new socket, from the files of /etc/rdma/rsocket as
 * rdma-core reads them. */
#ifndef RSOCKET_DEFAULTS_H
#define RSOCKET_DEFAULTS_H

#include <stdint.h>

/* Sizes that can be chosen until the socket's buffers are made. */
struct rsock_sizes {
	uint32_t sndbuf, rcvbuf; /* bytes; half of what is allocated */
	uint16_t sq, rq;	 /* data messages: posted, received */
	uint32_t inline_size;	 /* bytes */
	uint32_t iomaps;	 /* entries that the peer may write */
};

enum {
	RSOCK_BUFFER_MAX = 1 << 28,
	RSOCK_QUEUE_MAX = 8192,
	RSOCK_INLINE_MAX = 256,
	RSOCK_IOMAPS_MAX = 0x7f00,
};

struct rsock_defaults {
	struct rsock_sizes sizes;
	uint32_t polling_us; /* how long a call polls before it sleeps */
};

/* Reads the files of a folder. */
void rsock_defaults_read(const char *folder, struct rsock_defaults *out);
/* Returns the values of /etc/rdma/rsocket, which are read once. */
const struct rsock_defaults *rsock_defaults(void);

#endif
