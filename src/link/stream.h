/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.h - carries bytes, in order, to one peer and back; knows nothing of
 * what they are.
 *
 * TCP reaches another host or process; stream_loop.h is for unit tests.  None
 * of the calls blocks.  A stream has one user at a time, which locks.
 */
#ifndef LINK_STREAM_H
#define LINK_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct stream {
	const struct stream_ops {
		/* Hand over bytes, at most 1024 pieces.  Returns how many were
		 * taken; 0: full; -EFAULT: a piece is not mapped, none was
		 * taken; another -errno: the connection is lost. */
		ssize_t (*send)(struct stream *s, const struct iovec *iov, unsigned n,
				uint64_t now);
		/* Fill the pieces with what has come.  Returns how many bytes;
		 * 0: none wait; -ESHUTDOWN: the peer sends no more, in order;
		 * another -errno: the connection is lost. */
		ssize_t (*recv)(struct stream *s, const struct iovec *iov, unsigned n,
				uint64_t now);
		/* No more is sent: the peer gets -ESHUTDOWN behind the last. */
		void (*fin)(struct stream *s);
		/* When send or recv has something to do although no descriptor
		 * says so; UINT64_MAX: never. */
		uint64_t (*deadline)(struct stream *s);
		void (*close)(struct stream *s);
	} * ops;
	int fd;	    /* to be polled; -1: none */
	size_t mss; /* bytes that travel together */
	void *user; /* its user's own */
};

/* A connected TCP socket, whose descriptor becomes the stream's: it gets another
 * number, is not blocking and sends at once (TCP_NODELAY).  0, -ENOMEM, or why
 * fd is none; it is the caller's then. */
int stream_tcp_open(struct stream **out, int fd);

/* In the child of a fork: close the descriptor, tell nobody. */
void stream_forked(struct stream *s);

#endif
