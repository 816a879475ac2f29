/* SPDX-License-Identifier: BSD-2-Clause */
/* forwarder.h - finds another user's urnic that holds the UDP port and forwards our
 * datagrams, and decides whether to trust it. */
#ifndef DRIVER_FORWARDER_H
#define DRIVER_FORWARDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/conf.h"

struct host;

/* State for both address families. */
struct forwarding {
	struct host *host;
	uint16_t udp_port;
	enum conf_share share;
	bool warned; /* per user: */
	uid_t warned_of;
};

struct forwarder {
	uint16_t slot; /* slot of one of that user's processes; 0: none is known */
	uid_t uid;
	bool said; /* the failure has been logged */
};

/* The port is taken in `family`: finds the urnic that holds it and connects to it.
 * Returns 0, or -EADDRINUSE if there is none or it may not carry our traffic; the reason
 * is logged unless `again`. */
int forwarder_find(const struct forwarding *g, int family, bool again,
		   struct forwarder *f);

/* Warns the user, if the configuration asks for it, that f's user can read the datagrams
 * for this process. */
void forwarder_warn(struct forwarding *g, int family, const struct forwarder *f);

const char *forwarder_family(int family);

#endif
