/* SPDX-License-Identifier: BSD-2-Clause */
/* share_own.h - what both ends of a target QP of XRC that several handles name share: its
 * process (shared.c) and those that have opened it (opened.c).  Inside core/ only;
 * docs/xrc.md is the page.  Under the turn, but where it says otherwise.
 */
#ifndef CORE_SHARE_OWN_H
#define CORE_SHARE_OWN_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "core/core.h"
#include "core/share_ops.h"
#include "core/xrc.h"
#include "sys/list.h"
#include "sys/lock.h"

enum share_what {
	SHARE_ASK = 32, /* from a handle to the QP; those below are ib's */
	SHARE_ANSWER,	/* ... and back */
	SHARE_TELL,	/* to a handle: events of the QP */
};

enum share_op { SHARE_OPEN = 1, SHARE_MODIFY, SHARE_QUERY, SHARE_CLOSE };

#define SHARE_ENDED (1u << 31) /* among the events: there is no QP any more */

/* Between processes of one machine, so integers are in its byte order.  The sender is one
 * of this user's, and is believed in nothing. */
struct share_msg {
	uint8_t what, op, zero[2];
	uint32_t qpn;
	uint32_t id;	 /* of the handle, given by its process */
	uint32_t seq;	 /* of the question */
	int32_t mask;	 /* SHARE_MODIFY */
	int32_t rc;	 /* SHARE_ANSWER: 0 or -errno */
	uint32_t events; /* SHARE_TELL: 1 << enum ibv_event_type, SHARE_ENDED */
	uint32_t zero2;
	uint64_t domain; /* within a process, where it may have no name */
	struct xrc_name name;
	struct ibv_qp_attr attr;
};

struct share {
	const struct share_ops *ops;
	void *arg;
	struct list openers;		       /* of this process's QPs: shared.c */
	struct list opened;		       /* handles of this process: opened.c */
	uint16_t nopeners[1 << QPN_SLOT_BITS]; /* of each process */
	uint32_t ids;			       /* given to handles */
	uint64_t at; /* what was not taken or answered is said again; NEVER */
	struct lock_cond answered;
	void (*hear)(struct core *core, uint16_t slot, const struct share_msg *m);
};

static inline void share_again(struct share *s, uint64_t after)
{
	uint64_t at = s->ops->now() + after;

	if (at < s->at)
		s->at = at;
}

enum { SHARE_FULL_NS = 1000000, SHARE_UNANSWERED_NS = 100 * 1000000 };

/* To the process that has the slot, perhaps this one.  0, -EAGAIN, -ESRCH. */
static inline int share_pass(struct core *core, uint16_t slot, const struct share_msg *m)
{
	const struct iovec part = { (void *)(uintptr_t)m, sizeof(*m) };
	struct share *s = core->share;
	int rc;

	if (slot == core->slot) {
		s->hear(core, slot, m);
		return 0;
	}
	rc = s->ops->pass ? s->ops->pass(s->arg, slot, &part, 1) : -ESRCH;
	if (rc == -EAGAIN)
		share_again(s, SHARE_FULL_NS);
	return rc;
}

#endif
