/* SPDX-License-Identifier: BSD-2-Clause */
/* way.c - which way a WRITE, READ or atomic goes (docs/dev/shm.md, "The way of a
 * request"): by memory of the peer that is mapped here, by a copy that the kernel makes
 * (process_vm_*), or as segments through the ring.
 *
 * What is done in the peer's memory takes no number.  So that it overtakes nothing, all
 * that was sent before must have been executed. */
#include <string.h>

#include "direct/post.h"
#include "shm/shm_qp.h"
#include "verbs/round.h"

enum {
	/* Requests by threads that post after which direct/ hears that a region is used,
	 * for the first time and later. */
	USES = 16,
	USES_TOLD = 1024,
	BEHIND = 16, /* see choose() */
	ALONE = 32,
	UNIT = 4096, /* bytes that count as one datagram of a turn's work */
};

static struct by by_of(const struct shm_qp *q)
{
	return (struct by){ &q->peer->reach, q->qp, q->head.route };
}

void way_show(struct shm_qp *q)
{
	const struct qp *qp = q->qp;
	const bool open =
		q->peer && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
			    qp->state == IBV_QPS_SQD);

	if (!open && !q->shown)
		return;
	q->shown = open;
	exports_put_qp(qp->core, qp->qpn,
		       &(struct exported_qp){
			       .open = open,
			       .pd = qp->pd->ibv.handle,
			       .access = qp->attr.qp_access_flags,
			       .dest_qp = qp->attr.dest_qp_num,
			       .path = q->route_in,
			       .reads = qp->attr.max_dest_rd_atomic,
		       });
}

/* Nobody tells a UC QP what was executed. */
static bool can_reach(const struct shm_qp *q)
{
	const struct reach *r = &q->peer->reach;

	return q->qp->reliable && (r->vm || r->shut_out);
}

void way_meet(struct shm_qp *q)
{
	q->reaches = can_reach(q);
	q->allowed = (struct allowed){ .known = false };
}

/* --- the choice ------------------------------------------------------------- */

static bool is_atomic(unsigned opcode)
{
	return WR_ATOMICS >> opcode & 1;
}

static bool is_mapped(const struct shm_qp *q, uint32_t key)
{
	const struct by by = by_of(q);

	return reach_is_mapped(&by, key);
}

/* Threads that post have no turn, so they count by themselves.  What was told is told
 * again now and then, since a region may change and keep its key. */
static void count_use(struct shm_qp *q, uint32_t key)
{
	q->src.way.key = key;
	q->src.way.uses++;
}

bool way_has_uses(const struct shm_qp *q)
{
	return q->src.way.uses >= (q->src.way.key == q->src.way.told ? USES_TOLD : USES);
}

static void use(struct shm_qp *q, uint32_t key)
{
	struct reach *r = &q->peer->reach;

	if (r->vm && reach_used(r, key))
		peer_ask_map(q->peer, key);
}

void way_tell_uses(struct shm_qp *q)
{
	q->src.way.uses = 0;
	q->src.way.told = q->src.way.key;
	for (int i = 0; i < USES; i++)
		use(q, q->src.way.key);
}

/* What src_is_idle() has completed may have overrun its CQ.  Then all was flushed. */
static bool has_failed(const struct shm_qp *q)
{
	return q->qp->state == IBV_QPS_ERR;
}

/* Nothing is outstanding.  A copy by the kernel needs no help by the peer, which may
 * sleep; for many requests the ring is faster, and both processes work.  So a request
 * that is alone is copied: one whose predecessors' completions have all been polled.  Of
 * requests without completions the first goes by the ring; if the peer has executed it
 * when the next one is posted, these are alone, too, and so may the next ALONE be. */
static enum request_way choose_idle(struct shm_qp *q, bool more)
{
	const struct sq *sq = &q->qp->sq;

	if (more)
		return WAY_RING;
	if (atomic_load_explicit(&sq->returned, memory_order_relaxed) == sq->tail)
		return WAY_DIRECT;
	if (q->src.way.rang)
		q->src.way.alone = ALONE;
	q->src.way.rang = !q->src.way.alone;
	if (q->src.way.rang)
		return WAY_RING;
	q->src.way.alone--;
	return WAY_DIRECT;
}

/* The way of the request that is, or is to be, at the cursor; more: others were posted
 * with it.  Mapped memory is the best way, but requests that go by the ring keep those
 * behind them there; after BEHIND of them, with no SEND in between, one waits. */
static enum request_way choose(struct shm_qp *q, unsigned opcode, uint32_t key, bool more)
	REQUIRES(q->qp->lock)
{
	if (!q->reaches)
		return WAY_RING;
	count_use(q, key);
	if (is_atomic(opcode))
		return WAY_RING;
	if (src_is_idle(q))
		return is_mapped(q, key) ? WAY_DIRECT : choose_idle(q, more);
	if (has_failed(q))
		return WAY_NONE;
	q->src.way.alone = 0;
	if (!is_direct(sq_at(&q->qp->sq, q->src.at.cur - 1)->opcode))
		q->src.way.behind = 0;
	if (++q->src.way.behind < BEHIND)
		return WAY_RING;
	q->src.way.behind = 0;
	return is_mapped(q, key) ? WAY_WAIT : WAY_RING;
}

static enum request_way decide(struct shm_qp *q, unsigned opcode, uint32_t key, bool more)
	REQUIRES(q->qp->lock)
{
	q->src.way.of = q->src.at.cur;
	q->src.way.is = choose(q, opcode, key, more);
	return q->src.way.is;
}

bool way_is_ring(struct shm_qp *q, const struct ibv_send_wr *wr)
{
	const uint32_t key =
		is_atomic(wr->opcode) ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;

	return decide(q, wr->opcode, key, wr->next) == WAY_RING;
}

bool way_is_ring_for(struct shm_qp *q, const struct swqe *w)
{
	const uint32_t cur = q->src.at.cur;

	if (q->src.way.of != cur)
		(void)decide(q, w->opcode, w->rkey, q->qp->sq.head - cur > 1);
	return q->src.way.is == WAY_RING;
}

/* --- by the thread that posts ------------------------------------------------ */

struct ibv_send_wr *way_at_once(struct qp *qp, struct ibv_send_wr *wr)
{
	struct shm_qp *q = shm_qp(qp);
	const struct poster poster = { by_of(q), &q->allowed, &q->src.at,
				       &q->src.way.part };

	qp_is_held(poster.by.qp);
	qp_is_held(q->qp);
	if (!is_direct(wr->opcode) || q->src.at.cur != qp->sq.head || q->src.s.failed ||
	    q->src.s.rnr_until || !src_is_idle(q))
		return wr;
	return reach_post(&poster, wr);
}

/* --- by the holder of the turn ------------------------------------------------ */

static enum way_did by_ring(struct shm_qp *q)
{
	q->src.way.is = WAY_RING;
	q->src.way.part = 0;
	q->src.way.waits = false;
	return WAY_BY_RING;
}

/* Copies the next bytes of w.  Returns their number; 0: none could be. */
static uint32_t copy(struct shm_qp *q, const struct swqe *w, const struct span *span,
		     uint32_t most)
{
	const struct by by = by_of(q);
	const struct range there = { w->remote_addr, w->rkey, w->length };
	const uint32_t off = q->src.way.part, rest = w->length - off,
		       len = rest < most ? rest : most;

	if (!(w->opcode == IBV_WR_RDMA_READ ? reach_read(&by, &there, span, off, len)
					    : reach_write(&by, &there, span, off, len)))
		return 0;
	use(q, w->rkey);
	q->peer->direct++;
	q->peer->direct_bytes += len;
	q->qp->core->round.spent += len / UNIT + 1;
	return len;
}

static void end_copied(struct shm_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	q->src.way.part = 0;
	q->src.at.cur++;
	qp_is_held(q->qp);
	sq_complete(q->qp, IBV_WC_SUCCESS, VERR_NONE, now);
	shm_settle(q);
}

enum way_did way_step(struct shm_qp *q, struct swqe *w, struct wqe_memory *m,
		      unsigned *left, uint64_t now)
{
	struct reach *r = &q->peer->reach;
	const struct send_cursor *at = &q->src.at;
	uint32_t did;
	bool idle;

	if (!is_direct(w->opcode) || at->psn != w->psn || at->psn != at->max_psn ||
	    w->done)
		return WAY_BY_RING;
	q->reaches = can_reach(q);
	if (!q->src.way.part && way_is_ring_for(q, w))
		return WAY_BY_RING;
	idle = src_is_idle(q);
	if (has_failed(q))
		return WAY_WAITS;
	if (!r->vm || is_atomic(w->opcode) || !w->length) {
		if (r->shut_out)
			peer_ask_gate(q->peer, now);
		return by_ring(q);
	}
	q->src.way.waits = !idle && q->src.way.is == WAY_WAIT;
	if (!idle)
		return q->src.way.waits ? WAY_WAITS : by_ring(q);
	if (wqe_resolve(q->qp, at->cur, m))
		return by_ring(q);
	did = copy(q, w, &m->span, *left * RING_CHUNK);
	if (!did)
		return by_ring(q);
	q->src.way.part += did;
	*left -= (did - 1) / RING_CHUNK;
	if (q->src.way.part == w->length)
		end_copied(q, now);
	return WAY_COPIED;
}
