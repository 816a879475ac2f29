/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - where a fabric listens. */
#ifndef PLUG_ADDRESS_H
#define PLUG_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "plug/plug.h"

/* The address of UID:NAME, or of self's NAME, and whose it is.  0 or -EINVAL. */
int plug_address(const char *fabric, uid_t self, struct sockaddr_un *a, socklen_t *len,
		 uid_t *owner);

/* The adapter that a program asks for by URNIC_HCA, as the fabric is asked: "rank" is
 * #N, N being what the MPI launcher says.  0, -ENODEV (too long) or -EDESTADDRREQ. */
int plug_hca(const char *hca, char to[PLUG_HCA]);

/* Is that line of /proc/net/unix a fabric that listens, and what does self call it? */
enum { PLUG_LISTED = PLUG_NAME + 16 };
bool plug_listed(const char *line, uid_t self, char name[PLUG_LISTED]);

/* Who is at the other end, from the kernel. */
int plug_peer(int fd, uid_t *uid, pid_t *pid);
/* By a signal or a debugger.  False, too, where /proc does not show it. */
bool plug_is_stopped(pid_t pid);

#endif
