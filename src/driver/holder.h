/* SPDX-License-Identifier: BSD-2-Clause */
/* holder.h - finds the process that holds a UDP port, as far as /proc shows. */
#ifndef DRIVER_HOLDER_H
#define DRIVER_HOLDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct holder {
	uid_t uid;
	unsigned long inode;
	pid_t pid; /* 0: not visible to us, or the kernel */
	char comm[32];
};

/* Finds the first socket that keeps `family` from binding port: user and inode. Returns
 * 0 or -ESRCH. */
int holder_find(int family, uint16_t port, struct holder *out);
/* Finds the n-th such socket, from 0; sharing processes may have one each. */
int holder_nth(int family, uint16_t port, unsigned n, struct holder *out);

/* "user 1000, process 4711 (name)".  Looks through all processes for it. */
void holder_text(struct holder *h, char *buf, size_t size);

/* Writes "user 0" or, if process pid has changed its user since it made the socket,
 * "user 0 (when it opened its device; user 1000 now)". pid 0: not known. */
void holder_user_text(uid_t uid, pid_t pid, char *buf, size_t size);

#endif
