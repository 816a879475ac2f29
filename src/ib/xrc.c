/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - what QPs of XRC do that others do not: each request names its SRQ, which may be
 * another process's (relay.c).  See docs/dev/xrc.md. */
#include "ib/xrc.h"

#include <stdlib.h>

#include "ib/relay.h"
#include "verbs/xrc.h"

/* --- a QP ---------------------------------------------------------------- */

bool xrc_lost_recv(struct ib_qp *q)
{
	struct target *t = &q->rsp.target;
	bool lost = t->have_recv && !q->qp->recv.held;

	if (lost)
		t->have_recv = false;
	return lost;
}

/* A message that began in one process must end there: its packets must not change between
 * an SRQ here and one of another process. */
enum refusal xrc_follows(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	const struct ib_rsp *s = &q->rsp;

	if (!ib_may_follow(s->prev, pkt->op))
		return REFUSED_PLACE;
	return !ib_begins(pkt->op) && s->srqn != pkt->f.srqn &&
			       (is_abroad(q, s->srqn) || is_abroad(q, pkt->f.srqn))
		       ? REFUSED_SRQ
		       : ACCEPTED;
}

/* Makes the QP use the SRQ that the request names, and that SRQ's PD. */
static enum refusal aim(struct ib_qp *q, const struct ib_pkt *pkt)
{
	const uint32_t srqn = rsp_srqn(pkt);
	enum refusal why;

	qp_is_held(q->qp);
	if (xrc_lost_recv(q) || xrc_follows(q, pkt) == REFUSED_SRQ)
		return REFUSED_SRQ;
	/* A message that waits is of the QP's present SRQ; if the peer now names another,
	 * that is another message. */
	if (q->rsp.late.wait.until && q->qp->srq && q->qp->srq->num != srqn)
		rnr_end(q);
	why = xrc_aim(q->qp, srqn);
	if (!why)
		q->rsp.srqn = srqn;
	return why;
}

static int bytes(struct ib_qp *q, unsigned i, uint64_t now, struct rsp_bytes *out,
		 enum refusal *why)
{
	const struct resource *t = &q->rsp.resource[i];

	*why = REFUSED_KEY;
	if (!is_abroad(q, t->srqn))
		return xrc_reach(q->qp, t->srqn) ? -EACCES : rsp_bytes(q, t, out, why);
	if (i > 0) /* fetches one READ at a time */
		return -ENOBUFS;
	return relay_bytes(q, t, now, out, why);
}

static void sent(struct ib_qp *q)
{
	if (is_abroad(q, q->rsp.resource[0].srqn))
		relay_read_done(q);
}

const struct ib_hooks xrc_hooks = {
	.takes = relay_takes,
	.aim = aim,
	.bytes = bytes,
	.sent = sent,
	.waits = relay_waits,
	.run = relay_run,
	.stop = relay_stop,
	.close = relay_free,
};

/* --- the NIC ------------------------------------------------------------- */

struct room_key ib_xrc_key;

int ib_xrc_open(struct core *core,
		int (*pass)(void *arg, uint16_t slot, const struct iovec *part,
			    unsigned n),
		void *arg, uint32_t lives)
{
	struct ib_xrc *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->pass = pass;
	x->arg = arg;
	x->lives = lives;
	x->again_at = NEVER;
	list_init(&x->ends);
	for (unsigned i = 0; i < XRC_BUCKETS; i++)
		list_init(&x->stand_ins[i]);
	room_put(core, &ib_xrc_key, x);
	return 0;
}

void ib_xrc_close(struct core *core)
{
	carry_close(ib_of(core));
	relays_close(ib_of(core));
	free(xrc_of(ib_of(core)));
	room_put(core, &ib_xrc_key, NULL);
}

void ib_xrc_heard(struct core *core, uint16_t slot, const void *buf, size_t len,
		  uint64_t now)
{
	if (len < 2 * sizeof(uint64_t)) /* shorter than any message */
		return;
	carry_heard(ib_of(core), slot, buf, len, now);
	relay_heard(ib_of(core), slot, buf, len, now);
}

void ib_xrc_gone(struct core *core, uint16_t slot, uint64_t now)
{
	carry_gone(ib_of(core), slot, now);
	relay_gone(ib_of(core), slot, now);
}

uint64_t ib_xrc_deadline(struct core *core, uint64_t now)
{
	enum { AGAIN_NS = 1000000 };
	struct ib_xrc *x = xrc_of(ib_of(core));

	if (!x->again_at)
		x->again_at = now + AGAIN_NS;
	return x->again_at;
}

void ib_xrc_run(struct core *core)
{
	struct ib *ib = ib_of(core);

	xrc_of(ib)->again_at = NEVER;
	if (!core->leaving) /* else QPs may stay locked */
		relays_end(ib);
}
