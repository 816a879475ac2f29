/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.h - an interface that carries bytes in order to one peer and back, and knows
 * nothing of their meaning.
 *
 * A stream is a TCP connection, or for unit tests stream_loop.h. No call blocks. A
 * stream has one user at a time, which provides the locking.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct stream {
	const struct stream_ops {
		/* Sends bytes of at most 1024 pieces. Returns the number taken; 0 if
		 * full; -EFAULT if a piece is not mapped, with none taken; another
		 * -errno if the connection is lost. */
		ssize_t (*send)(struct stream *s, const struct iovec *iov, unsigned n,
				uint64_t now);
		/* Receives bytes into the pieces. Returns the number; 0 if none wait;
		 * -ESHUTDOWN after the peer's orderly end; another -errno if the
		 * connection is lost. */
		ssize_t (*recv)(struct stream *s, const struct iovec *iov, unsigned n,
				uint64_t now);
		/* Ends sending: the peer gets -ESHUTDOWN after the last byte. */
		void (*fin)(struct stream *s);
		/* Time in ns when send() or recv() has something to do although the
		 * descriptor does not say so; UINT64_MAX: never. */
		uint64_t (*deadline)(struct stream *s);
		void (*close)(struct stream *s);
	} * ops;
	int fd;	    /* to be polled; -1: none */
	size_t mss; /* bytes that travel in one segment */
	void *user; /* for the stream's user */
};

/* Makes a stream of connected TCP socket fd, which it renumbers and makes non-blocking
 * with TCP_NODELAY. Returns 0, -ENOMEM, or -errno if fd is unusable; after an error fd
 * is still the caller's. */
int stream_tcp_open(struct stream **out, int fd);

/* In the child of a fork: closes the descriptor without ending the connection. */
void stream_forked(struct stream *s);

#endif
