/* SPDX-License-Identifier: BSD-2-Clause */
/* fd.h - descriptors of ours keep out of the program's way. */
#ifndef SYS_FD_H
#define SYS_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Move fd to a high number, close-on-exec, below 1024 (programs may select()
 * on some of ours): programs that close or count the low ones do not meet it.
 * Returns the new number, or fd as it was where there is no such number; a
 * negative fd is handed through. */
int fd_raise(int fd);

/* socket(2) itself: librspreload.so puts another one before libc's, which makes
 * rsockets, and those need sockets of ours. */
int fd_socket(int domain, int type, int protocol);

/* Memory to be shared, of that many bytes, all 0, which can be sealed: a raised
 * descriptor, or -errno; -EFBIG: RLIMIT_FSIZE forbids it. */
int fd_memory(const char *name, size_t size);

/* What a descriptor leads to.  Programs close descriptors that are not theirs,
 * and what they open next may get the number: whoever writes to, reads from or
 * closes one of ours after the program has run looks first.  (Anonymous files,
 * such as eventfds and epoll sets, are all the same one.) */
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

/* Memory of size bytes that has all of these F_SEAL_*: who made it can do no
 * more than they leave. */
bool fd_is_sealed(int fd, size_t size, int seals);

#endif
