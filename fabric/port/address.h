/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h - the unix socket address on which a fabric listens, and its owner. */
#ifndef FABRIC_PORT_ADDRESS_H
#define FABRIC_PORT_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "fabric/port/plug.h"

/* Makes the socket address of the fabric UID:NAME, or of NAME for the user `self`; *owner
 * is the user.  Returns 0 or -EINVAL. */
int plug_address(const char *fabric, uid_t self, struct sockaddr_un *a, socklen_t *len,
		 uid_t *owner);

/* Translates the value of URNIC_HCA into an adapter's name for the fabric: "rank" becomes
 * #N, where N is this process's rank according to the MPI launcher.  Returns 0, -ENODEV
 * (too long) or -EDESTADDRREQ (no launcher has set a rank). */
int plug_hca(const char *hca, char to[PLUG_HCA]);

/* Is the line of /proc/net/unix that of a listening fabric?  name: what the user `self`
 * calls it. */
enum { PLUG_LISTED = PLUG_NAME + 16 };
bool plug_listed(const char *line, uid_t self, char name[PLUG_LISTED]);

/* Is the process stopped by a signal or a debugger?  False also if /proc does not show
 * the process. */
bool plug_is_stopped(pid_t pid);

#endif
