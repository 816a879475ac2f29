/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.h - messages between two processes of a host.
 *
 * The side that connects first sends a greeting, which the other side answers with its
 * own. Datagrams and messages of local/ follow, in both directions. Both ends run on one
 * machine, so integers are in its byte order. The sender may be hostile.
 */
#ifndef HOST_MSG_H
#define HOST_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"

enum { MSG_VERSION = 4, MSG_PAYLOAD_MAX = 65507 };
enum msg_type { MSG_HELLO = 1, MSG_DGRAM = 2, MSG_LOCAL = 3, MSG_PASSED = 4 };

/* Random bytes that a process drew when it took its slot. Nobody else could have sent
 * them before, and the kernel gives the sender's number, so a copy is useless to
 * others. */
struct msg_proof {
	uint8_t byte[16];
};

struct msg_hello {
	uint8_t version, type;
	uint16_t slot; /* the sender's, to be verified */
	uint8_t magic[4];
	struct msg_proof proof;
};

struct msg_dgram {
	uint8_t version, type, tclass, ttl;
	uint8_t from[16], to[16];
	uint16_t from_port, to_port;
	uint32_t ifindex;
	int32_t ip_id;
	uint8_t ip_id_exact, mad;
	uint16_t slot; /* the sender's, to be verified; 0: not given */
		       /* the payload follows, to the end of the message */
};

struct msg_local {
	uint8_t version, type, zero[2];
	/* the message of local/ or of host_pass() follows; descriptors may accompany
	 * it */
};

static_assert(sizeof(struct msg_local) == 4, "layout");
static_assert(sizeof(struct msg_hello) == 24, "layout");
static_assert(sizeof(struct msg_dgram) == 52, "layout");

void msg_put_hello(struct msg_hello *m, uint16_t slot, const struct msg_proof *proof);
/* Parses a greeting into the claimed slot and the proof. Returns 0, or -EPROTO for
 * garbage or another version. */
int msg_get_hello(const void *buf, size_t len, uint16_t *slot, struct msg_proof *proof);

void msg_put_dgram(struct msg_dgram *m, const struct dgram *d, uint16_t slot);
/* Parses a datagram; d's payload points into buf. Returns 0 or -EPROTO. */
int msg_get_dgram(void *buf, size_t len, struct dgram *d, uint16_t *slot);

#endif
