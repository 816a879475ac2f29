/* SPDX-License-Identifier: BSD-2-Clause */
/* forwarder.h - another user's urnic, which has the UDP port and forwards what is
 * ours: it is found, and trusted or not. */
#ifndef NIC_FORWARDER_H
#define NIC_FORWARDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/conf.h"

struct host;

/* What holds for both address families. */
struct forwarding {
	struct host *host;
	uint16_t udp_port;
	enum conf_share share;
	bool warned; /* of this user: */
	uid_t warned_of;
};

struct forwarder {
	uint16_t slot; /* of one of that user's processes; 0: none is known */
	uid_t uid;
	bool said; /* that none will do */
};

/* The port is taken, in that address family: look for the urnic that has it, and
 * connect to it.  0; -EADDRINUSE: there is none, or it may not carry our traffic.
 * That is said in an error line, but not again. */
int forwarder_find(const struct forwarding *g, int family, bool again,
		   struct forwarder *f);

/* Tell the user, where that is to be told, that f reads what comes for this process. */
void forwarder_warn(struct forwarding *g, int family, const struct forwarder *f);

const char *forwarder_family(int family);

#endif
