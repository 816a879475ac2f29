/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - the socket addresses of fabrics. */
#ifndef PLUG_ADDRESS_H
#define PLUG_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "plug/plug.h"

/* Makes the address of fabric UID:NAME, or of NAME of user self, and tells its owner.
 * Returns 0 or -EINVAL. */
int plug_address(const char *fabric, uid_t self, struct sockaddr_un *a, socklen_t *len,
		 uid_t *owner);

/* Writes the adapter that URNIC_HCA names in the form that the fabric knows: "rank"
 * becomes #N, where N comes from the MPI launcher. Returns 0, -ENODEV (too long) or
 * -EDESTADDRREQ (no rank). */
int plug_hca(const char *hca, char to[PLUG_HCA]);

/* Does that line of /proc/net/unix show a listening fabric? Also gives the name by which
 * user self calls it. */
enum { PLUG_LISTED = PLUG_NAME + 16 };
bool plug_listed(const char *line, uid_t self, char name[PLUG_LISTED]);

/* Asks the kernel for the process at the other end. */
int plug_peer(int fd, uid_t *uid, pid_t *pid);
/* Is the process stopped by a signal or a debugger? False, too, if /proc does not show
 * it. */
bool plug_is_stopped(pid_t pid);

#endif
