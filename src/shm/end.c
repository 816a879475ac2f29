/* SPDX-License-Identifier: BSD-2-Clause */
/* end.c - a QP tells its peer's process how it was set up, for the check of ends that do
 * not fit (sys/checks.h): once in RTS.  Who hears it before he is ready does not
 * compare; he tells of himself later. */
#include <assert.h>
#include <string.h>

#include "shm/shm_qp.h"
#include "sys/checks.h"
#include "verbs/qp.h"

static_assert(sizeof(struct check_end) == 32, "the format of the payload");

/* Without room nothing is said. */
void end_say(struct shm_qp *q)
{
	struct peer *p = q->peer;
	struct check_end end;
	struct rec *r;

	if (!p || p->state != PEER_UP || p == p->l->self || !q->qp->reliable ||
	    !checks->end(q->qp->qpn, &end))
		return;
	peer_lock(p);
	r = ring_reserve(&p->out, REC_HEAD + sizeof(end));
	if (r) {
		memcpy(r, &q->head, REC_HEAD);
		r->kind = REC_END;
		memcpy((uint8_t *)r + REC_HEAD, &end, sizeof(end));
		ring_publish(&p->out, r, REC_HEAD + sizeof(end));
	}
	peer_unlock(p);
	peer_wrote(p);
}

/* Is it from the QP's peer, and was it written since this end is ready (as target.c
 * judges segments)? */
static bool is_for(const struct shm_qp *q, const struct peer *p, const struct rec *r)
{
	return q->peer == p && q->dest == r->src &&
	       (q->qp->state == IBV_QPS_RTR || q->qp->state == IBV_QPS_RTS) &&
	       q->dst.stale - p->in.tail - 1 >= RING_SLOTS;
}

bool end_take(struct peer *p, const struct rec *r, const uint8_t *payload, uint32_t len)
{
	struct core *core = p->l->core;
	struct check_end end;
	struct qp *qp;

	turn_is_held(core);
	qp = qp_find(core, r->dst);
	if (len != sizeof(end))
		return false;
	memcpy(&end, payload, sizeof(end));
	if (!checks_ends || !qp || qp->transport != &shm_transport || !shm_lock(qp))
		return true;
	if (is_for(shm_qp(qp), p, r))
		checks->meets(qp->qpn, r->src, &end);
	lock_give(&qp->lock);
	return true;
}
