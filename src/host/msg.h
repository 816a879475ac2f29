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

enum { MSG_VERSION = 6, MSG_PAYLOAD_MAX = 65507, MSG_SERVICE_MAX = 2048 };

/* The table in msg.c has the lengths of the bodies, and how many descriptors may go
 * along. */
enum host_type {
	HOST_HELLO = 1, /* a greeting: the sender's slot */
	HOST_DGRAM,	/* a datagram that came to the wrong process */
	HOST_SERVICE,	/* the same, for the owner of a name (service.h) */
	HOST_PIPE,	/* of shm/: struct pipe_msg */
	HOST_MAP,	/* of shm/: struct map_msg */
	HOST_ASK,	/* of `urnic dump' and the like: struct host_ask */
	HOST_ANSWER,	/* struct host_answer */
	HOST_XRC,	/* of XRC, only between processes of one user */
	HOST_TYPES
};

/* Bytes of the bodies that other rooms define. */
enum {
	HOST_PIPE_LEN = 32,
	HOST_MAP_LEN = 64,
	HOST_ASK_MAX = 16384,
	HOST_ANSWER_MAX = 128 << 20,
	HOST_ANSWER_AT_ONCE = 4096,
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

/* What a command asks of a process of its user (driver/asked.h). A process answers
 * -EOPNOTSUPP to a kind that it does not know, so a new kind needs no new version. */
enum ask_kind {
	ASK_DUMP,  /* for its objects, as text: nothing, or struct ask_dump */
	ASK_FAULT, /* "set SPEC", "clear" or "show" (driver/faults.h) */
	/* "begin" with a stream socket, for packets; or "end" (driver/captures.h) */
	ASK_CAPTURE,
	ASK_KINDS
};

struct host_ask {
	uint32_t kind;
	uint32_t serial; /* the answer has the same */
			 /* what the kind takes follows, up to HOST_ASK_MAX bytes */
};

/* Of these kinds of object; without a body, of all. */
struct ask_dump {
	uint32_t kinds; /* 1 << enum dump_kind */
};

enum dump_kind {
	DUMP_PD,
	DUMP_MR,
	DUMP_MW,
	DUMP_AH,
	DUMP_CQ,
	DUMP_SRQ,
	DUMP_QP,
	DUMP_CM, /* listeners and connections */
	DUMP_KINDS
};

struct host_answer {
	uint32_t serial;
	int32_t error; /* 0 or -errno */
		       /* what the kind gives follows, up to HOST_ANSWER_MAX bytes; of
			* an error, text for people that says more, or nothing */
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
static_assert(sizeof(struct host_ask) == 8, "layout");
static_assert(sizeof(struct host_answer) == 8, "layout");

void msg_put_hello(struct msg_hello *m, uint16_t slot, const struct msg_proof *proof);
/* Takes a claimed slot and its proof from the len bytes at buf. Returns 0 or -EPROTO. */
int msg_get_hello(const void *buf, size_t len, uint16_t *slot, struct msg_proof *proof);

void msg_put_dgram(struct msg_dgram *m, const struct dgram *d);
/* Takes a datagram; d's payload points into buf. Returns 0 or -EPROTO. */
int msg_get_dgram(void *buf, size_t len, struct dgram *d);

/* Take the head of HOST_ASK or HOST_ANSWER. Return 0 or -EPROTO. */
int msg_get_ask(const struct msg *m, struct host_ask *ask);
int msg_get_answer(const struct msg *m, struct host_answer *answer);

#endif
