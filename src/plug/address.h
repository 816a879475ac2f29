/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - where a fabric listens. */
#ifndef PLUG_ADDRESS_H
#define PLUG_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* The address of UID:NAME, or of self's NAME, and whose it is.  0 or -EINVAL. */
int plug_address(const char *fabric, uid_t self, struct sockaddr_un *a, socklen_t *len,
		 uid_t *owner);

/* Who is at the other end, from the kernel. */
int plug_peer(int fd, uid_t *uid, pid_t *pid);

#endif
