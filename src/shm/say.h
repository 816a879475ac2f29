/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - messages between two processes, over the one connection of host/ that they
 * have; for handshake.c. */
#ifndef SHM_SAY_H
#define SHM_SAY_H

#include "host/host.h"
#include "shm/peer.h"

/* The kinds of message (docs/dev/peers.md).  A refusal has the same form in all versions.
 */
enum say {
	SAY_NOTHING,
	SAY_ASK,
	SAY_OFFER,
	SAY_ANSWER,
	SAY_CONFIRM,
	SAY_KICK,
	SAY_ASK_GATE,
	SAY_GATE,
	SAY_ASK_MAP,
	SAY_MAP,
};

struct pipe_msg {
	uint8_t version, what, yes, zero;
	uint32_t bytes;	    /* size of the offered memory */
	struct nonce nonce; /* at == 0: its memory must not be copied directly */
};

/* A SAY_ASK_MAP sets only lent.key and, in head.nonce.value, the proof that lies in the
 * other's page (reach_prove()). */
struct map_msg {
	struct pipe_msg head;
	struct lent lent;
};

static_assert(sizeof(struct pipe_msg) == HOST_PIPE_LEN &&
		      sizeof(struct map_msg) == HOST_MAP_LEN,
	      "as host's table has them");

/* May slot's process, if it is of another user, send an OFFER?  Its descriptors are
 * refused otherwise. */
void say_take_offer(struct peers *l, uint16_t slot, bool yes);
/* Sends a message now, or as soon as the connection has room.  Returns 0 or -errno;
 * -ESRCH: no process has the slot. */
int say_surely(struct peer *p, enum say what, bool yes);
/* Sends a SAY_MAP now, without repeating it.  Returns 0 or -errno; -EAGAIN: no room. */
int say_map(struct peer *p, const struct lent *lent, int fd);

#endif
