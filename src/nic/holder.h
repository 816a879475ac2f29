/* SPDX-License-Identifier: BSD-2-Clause */
/* holder.h - which process has a UDP port, as far as /proc tells. */
#ifndef NIC_HOLDER_H
#define NIC_HOLDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct holder {
	uid_t uid;
	unsigned long inode;
	pid_t pid; /* 0: not ours to see, or the kernel */
	char comm[32];
};

/* The first socket that keeps family from binding port: its user and inode.
 * 0 or -ESRCH. */
int holder_find(int family, uint16_t port, struct holder *out);
/* The n-th of them, from 0: a port may be shared. */
int holder_nth(int family, uint16_t port, unsigned n, struct holder *out);

/* "user 1000, process 4711 (name)".  Looks through all processes for it. */
void holder_text(struct holder *h, char *buf, size_t size);

/* "user 0", or, where process pid has become another user's since it made the
 * socket, "user 0 (when it opened its device; user 1000 now)".  pid 0: not known. */
void holder_user_text(uid_t uid, pid_t pid, char *buf, size_t size);

#endif
