/* SPDX-License-Identifier: BSD-2-Clause */
/* fd.h - keeps our descriptors out of the program's way. */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Moves fd to a high number, close-on-exec, so that programs which close or count the low
 * numbers do not meet it; below 1024, since programs may select() on some of ours.
 * Returns the new number, or fd itself if no such number is free.  A negative fd is
 * returned as it is. */
int fd_raise(int fd);

/* socket(2) itself.  librspreload.so has a socket() before libc's, which makes rsockets,
 * and rsockets need sockets from us. */
int fd_socket(int domain, int type, int protocol);

/* Makes shared memory of size bytes, all 0, that can be sealed.  Returns a raised
 * descriptor or -errno; -EFBIG: RLIMIT_FSIZE forbids it. */
int fd_memory(const char *name, size_t size);

/* Takes a token from an eventfd without blocking, whatever its O_NONBLOCK.  Returns 0;
 * -EAGAIN: it has none; -EOPNOTSUPP: the kernel is older than 5.8. */
int fd_try_token(int fd);

/* The file that a descriptor leads to.  A program may close descriptors of ours, and the
 * next file that it opens may get the number.  So code that writes to, reads from or
 * closes one of ours after the program has run compares the file first. (Anonymous files,
 * such as eventfds and epoll sets, all have the same id.) */
struct fd_id {
	dev_t dev;
	ino_t ino;
};

static inline bool fd_same(const struct fd_id *a, const struct fd_id *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

int fd_identify(int fd, struct fd_id *out); /* 0 or -errno */
bool fd_is(int fd, const struct fd_id *id);

/* Is fd memory that has all of these F_SEAL_*, and is of size bytes?  Then its maker
 * cannot change it beyond what the seals allow.  The kernel alone answers, no file
 * system. */
bool fd_has_seals(int fd, int seals);
bool fd_is_sealed(int fd, size_t size, int seals);

#endif
