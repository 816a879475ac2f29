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
#include "sys/clock.h"
#include "verbs/draft.h"
#include "verbs/round.h"

enum {
	/* Requests by threads that post after which direct/ hears that a region is used,
	 * for the first time and later. */
	USES = 16,
	USES_TOLD = 1024,
	BEHIND = 16, /* see should_wait() */
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

static void use_key(struct shm_qp *q, uint32_t key)
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
		use_key(q, q->src.way.key);
}

/* A request whose way is asked for. */
struct asked {
	unsigned opcode;
	uint32_t key;
	uint32_t len; /* bytes */
	bool more;    /* others were posted with it */
	uint64_t now; /* 0: a clock must be read */
};

static struct quicker *quicker_of(struct shm_qp *q, unsigned opcode)
{
	return &q->src.way.quicker[opcode == IBV_WR_RDMA_READ];
}

/* What src_is_idle() has completed may have overrun its CQ.  Then all was flushed. */
static bool has_failed(const struct shm_qp *q)
{
	return q->qp->state == IBV_QPS_ERR;
}

/* Of memory that is not mapped: is the ring better?  A copy by the kernel needs no help
 * by the peer, which may sleep; by the ring both processes work, but the peer must look.
 * Nobody knows beforehand which is quicker, so both are tried (quicker.h).  What is
 * longer than a segment is copied once by the kernel, and twice by the ring. */
static bool is_better_by_ring(struct quicker *t, const struct asked *a)
{
	if (a->more)
		return true;
	if (a->len > RING_CHUNK)
		return false;
	if (quicker_is_due(t))
		quicker_look(t, a->now ? a->now : clock_ns());
	return t->second;
}

/* Nothing is outstanding. */
static enum request_way choose_idle(struct shm_qp *q, const struct asked *a)
{
	if (is_mapped(q, a->key))
		return WAY_DIRECT;
	return is_better_by_ring(quicker_of(q, a->opcode), a) ? WAY_RING : WAY_DIRECT;
}

/* Requests that went by the ring are outstanding, and keep those behind them there.
 * Should one wait for them, as there is a better way?  Where memory is mapped after
 * BEHIND of them, with no SEND in between; else when the ring has just shown to be slow.
 */
static bool should_wait(struct shm_qp *q, const struct asked *a) REQUIRES(q->qp->lock)
{
	struct quicker *t = quicker_of(q, a->opcode);

	if (t->second && a->len <= RING_CHUNK && !is_better_by_ring(t, a))
		return true;
	if (!is_direct(sq_at(&q->qp->sq, q->src.at.cur - 1)->opcode))
		q->src.way.behind = 0;
	if (++q->src.way.behind < BEHIND)
		return false;
	q->src.way.behind = 0;
	return is_mapped(q, a->key);
}

/* The way of the request that is, or is to be, at the cursor. */
static enum request_way choose(struct shm_qp *q, const struct asked *a)
	REQUIRES(q->qp->lock)
{
	bool idle;

	if (!q->reaches)
		return WAY_RING;
	count_use(q, a->key);
	if (is_atomic(a->opcode))
		return WAY_RING;
	idle = src_is_idle(q);
	if (has_failed(q))
		return WAY_NONE;
	if (idle)
		return choose_idle(q, a);
	if (!should_wait(q, a))
		return WAY_RING;
	q->src.way.one_by_one = true;
	return WAY_WAIT;
}

static bool decide(struct shm_qp *q, const struct asked *a) REQUIRES(q->qp->lock)
{
	q->src.way.of = q->src.at.cur;
	q->src.way.is = choose(q, a);
	return q->src.way.is == WAY_RING;
}

bool way_is_ring(struct shm_qp *q, const struct ibv_send_wr *wr)
{
	const struct asked a = {
		.opcode = wr->opcode,
		.key = is_atomic(wr->opcode) ? wr->wr.atomic.rkey : wr->wr.rdma.rkey,
		.len = post_bytes(q->qp, wr),
		.more = wr->next,
	};

	q->src.way.one_by_one = false;
	return decide(q, &a);
}

bool way_is_ring_for(struct shm_qp *q, const struct swqe *w, uint64_t now)
{
	const uint32_t cur = q->src.at.cur;
	const bool last = q->qp->sq.head - cur <= 1;
	const struct asked a = {
		.opcode = w->opcode,
		.key = w->rkey,
		.len = w->length,
		.more = !last && !q->src.way.one_by_one,
		.now = now,
	};

	if (q->src.way.of == cur)
		return q->src.way.is == WAY_RING;
	if (last)
		q->src.way.one_by_one = false;
	return decide(q, &a);
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
	use_key(q, w->rkey);
	q->peer->past.direct++;
	q->peer->past.direct_bytes += len;
	q->qp->past.copied++;
	q->qp->past.copied_bytes += len;
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
	if (!q->src.way.part && way_is_ring_for(q, w, now))
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
