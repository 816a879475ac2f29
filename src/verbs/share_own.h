/* SPDX-License-Identifier: BSD-2-Clause */
/* share_own.h - what the two ends of an opened XRC target QP share: the QP's process
 * (shared.c) and the processes that opened it (opened.c). Inside verbs/ only; see
 * docs/dev/xrc.md. Everything is under the turn unless it says otherwise.
 */
#ifndef VERBS_SHARE_OWN_H
#define VERBS_SHARE_OWN_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "sys/list.h"
#include "sys/lock.h"
#include "verbs/core.h"
#include "verbs/share_ops.h"
#include "verbs/xrc.h"

enum share_what {
	SHARE_ASK = 32, /* from a handle to the QP; lower values are ib's */
	SHARE_ANSWER,	/* the QP's answer to SHARE_ASK */
	SHARE_TELL,	/* to a handle: events of the QP */
};

enum share_op { SHARE_OPEN = 1, SHARE_MODIFY, SHARE_QUERY, SHARE_CLOSE };

#define SHARE_ENDED (1u << 31) /* among the events: there is no QP any more */

/* Sent between processes of one machine, so integers are in host byte order. The
 * sender runs as this user, but no field is trusted unchecked. */
struct share_msg {
	uint8_t what, op, zero[2];
	uint32_t qpn;
	uint32_t id;	 /* the handle's, assigned by its process */
	uint32_t seq;	 /* number of the question */
	int32_t mask;	 /* SHARE_MODIFY */
	int32_t rc;	 /* SHARE_ANSWER: 0 or -errno */
	uint32_t events; /* SHARE_TELL: 1 << enum ibv_event_type, SHARE_ENDED */
	uint32_t zero2;
	uint64_t domain; /* for use within one process, if the domain has no name */
	struct xrc_name name;
	struct ibv_qp_attr attr;
};

struct share {
	const struct share_ops *ops;
	void *arg;
	struct list openers;		       /* openers of this process's QPs:
						* shared.c */
	struct list opened;		       /* handles of this process: opened.c */
	uint16_t nopeners[1 << QPN_SLOT_BITS]; /* openers per process, by slot */
	uint32_t ids;			       /* the last id given to a handle */
	uint64_t at; /* when unanswered or undelivered messages are sent again;
		      * NEVER: none */
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

/* Sends m to the process with this slot, which may be this one. Returns 0, -EAGAIN or
 * -ESRCH. */
static inline int share_pass(struct core *core, uint16_t slot, const struct share_msg *m)
{
	const struct iovec part = { (void *)(uintptr_t)m, sizeof(*m) };
	struct share *s = core->xrc.share;
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
