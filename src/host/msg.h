/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.h - what the processes of a host say to each other; sys/msg.h carries it.
 *
 * The side that connects first sends a greeting, which the other side answers with its
 * own. All others follow, in both directions.
 */
#ifndef HOST_MSG_H
#define HOST_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "net/dgram.h"
#include "sys/msg.h"

enum { MSG_VERSION = 5, MSG_PAYLOAD_MAX = 65507, MSG_SERVICE_MAX = 2048 };

/* The table in msg.c has the lengths of the bodies, and how many descriptors may go
 * along. */
enum host_type {
	HOST_HELLO = 1, /* a greeting: the sender's slot */
	HOST_DGRAM,	/* a datagram that came to the wrong process */
	HOST_SERVICE,	/* the same, for the owner of a name (service.h) */
	HOST_PIPE,	/* of local/: struct pipe_msg */
	HOST_MAP,	/* of local/: struct map_msg */
	HOST_DUMP_ASK,	/* of `urnic dump', without a body */
	HOST_DUMP_TEXT, /* the answer: an errno (int32_t) and the text */
	HOST_XRC,	/* of XRC, only between processes of one user */
	HOST_TYPES
};

/* Bytes of the bodies that other rooms define. */
enum {
	HOST_PIPE_LEN = 32,
	HOST_MAP_LEN = 64,
	HOST_DUMP_MAX = 128 << 20,
	HOST_XRC_MAX = 64000,
};

extern const struct msg_table host_table;

/* Counts of messages. */
struct host_stats {
	uint64_t forwarded, received;
	uint64_t dropped_full; /* the receiver is slow */
	uint64_t dropped_gone; /* no process has the slot */
	uint64_t refused;      /* garbage, from strangers, or too many */
};

/* Random bytes that a process drew when it took its slot. Nobody else could have sent
 * them before, and the kernel gives the sender's number, so a copy is useless to
 * others. */
struct msg_proof {
	uint8_t byte[16];
};

/* Whose a slot is, to be verified: all of HOST_HELLO, and the beginning of
 * HOST_SERVICE. */
struct msg_hello {
	uint16_t slot;
	uint8_t zero[6];
	struct msg_proof proof;
};

struct msg_dgram {
	uint8_t from[16], to[16];
	uint16_t from_port, to_port;
	uint32_t ifindex;
	int32_t ip_id;
	uint8_t tclass, ttl, ip_id_exact, mad;
	/* the payload follows, to the end of the message */
};

static_assert(sizeof(struct msg_hello) == 24, "layout");
static_assert(sizeof(struct msg_dgram) == 48, "layout");

void msg_put_hello(struct msg_hello *m, uint16_t slot, const struct msg_proof *proof);
/* Takes a claimed slot and its proof from the len bytes at buf. Returns 0 or -EPROTO. */
int msg_get_hello(const void *buf, size_t len, uint16_t *slot, struct msg_proof *proof);

void msg_put_dgram(struct msg_dgram *m, const struct dgram *d);
/* Takes a datagram; d's payload points into buf. Returns 0 or -EPROTO. */
int msg_get_dgram(void *buf, size_t len, struct dgram *d);

#endif
