/* SPDX-License-Identifier: BSD-2-Clause */
/* option.h - the options that every socket has. Called under the socket's lock; functions
 * return 0 or -errno. */
#ifndef RSOCKET_OPTION_H
#define RSOCKET_OPTION_H

#include "rsocket/sock.h"

enum { RSOCK_KEEP_IDLE = 7200 }; /* seconds, as TCP's default */

int rsock_option_set(struct rsock *rs, int level, int name, const void *val,
		     socklen_t len);
int rsock_option_get(struct rsock *rs, int level, int name, void *val, socklen_t *len);

#endif
