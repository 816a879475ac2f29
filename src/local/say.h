/* SPDX-License-Identifier: BSD-2-Clause */
/* say.h - messages from one process to another, over the one connection of host/ that
 * the two have; for handshake.c. */
#ifndef LOCAL_SAY_H
#define LOCAL_SAY_H

#include "local/peer.h"

/* What one says to the other (docs/local.md).  Any version says no the same
 * way. */
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
	uint32_t bytes;	    /* of the offered memory */
	struct nonce nonce; /* at 0: its memory is its own */
};

/* SAY_ASK_MAP: key alone. */
struct map_msg {
	struct pipe_msg head;
	struct lent lent;
};

/* May the process of slot, of another user, say OFFER?  Its descriptors are not taken
 * otherwise. */
void say_take_offer(struct local *l, uint16_t slot, bool yes);
/* Now, or as soon as the connection takes it.  -ESRCH: nobody is there. */
int say_surely(struct peer *p, enum say what, bool yes);
/* Now or never.  0 or -errno. */
int say_map(struct peer *p, enum say what, const struct lent *lent, int fd);

#endif
