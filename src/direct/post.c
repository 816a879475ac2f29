/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - see post.h: how such requests are counted and how they end. */
#include "direct/post.h"

#include <inttypes.h>

#include "direct/once.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/draft.h"
#include "verbs/transport.h"

enum { PEER_LEN = 128 };

/* What one call has executed and not yet counted. */
struct tally {
	uint32_t n;
	uint64_t bytes;
};

/* Leaves the peer's memory and counts what was executed, before anything that takes
 * longer or looks at the queue. */
static inline void count_all(const struct poster *p, struct visit *v, struct tally t)
	REQUIRES(p->by.qp->lock)
{
	visit_end(v);
	sq_count_at_once(p->by.qp, t.n, t.bytes);
	p->at->cur += t.n;
	p->at->fresh += t.n;
}

static inline bool is_signaled(const struct qp *qp, const struct ibv_send_wr *wr)
{
	return wr->send_flags & IBV_SEND_SIGNALED || qp->sig_all;
}

static void log_lost(const struct qp *qp, const struct ibv_send_wr *wr)
{
	char to[PEER_LEN] = "";

	if (qp->transport->peer)
		qp->transport->peer(qp, to, sizeof(to));
	log_info("QP 0x%06x: work request 0x%" PRIx64 " to %s: the memory was "
		 "taken back under an atomic, which may have been done or not",
		 qp->qpn, wr->wr_id, to);
}

/* Ends a request that was executed, but not simply; everything before it is counted.
 * some: so many bytes of it were executed.  Returns false if the next one has to wait. */
__attribute__((noinline)) static bool end_rarely(const struct poster *p,
						 const struct ibv_send_wr *wr,
						 uint32_t len, uint32_t some,
						 enum reach_did did)
	REQUIRES(p->by.qp->lock)
{
	struct qp *qp = p->by.qp;
	uint64_t now = clock_ns();

	qp_is_held(qp);
	if (did == REACH_SOME) {
		*p->part = some;
		sq_post_begun(qp, wr);
		return false;
	}
	if (did == REACH_DONE) {
		sq_end_at_once(qp, wr, len, IBV_WC_SUCCESS, VERR_NONE, now);
		return qp->state == IBV_QPS_RTS && qp->sq.head == p->at->cur;
	}
	if (did == REACH_LOST) {
		log_lost(qp, wr);
		sq_end_at_once(qp, wr, len, IBV_WC_RETRY_EXC_ERR, VERR_TIMEOUT, now);
	} else {
		sq_end_at_once(qp, wr, len, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_FAULT, now);
	}
	qp_fail(qp, false, -1, now); /* the engine drops the protocol state */
	return false;
}

static inline bool tell_completion(struct qp *qp, const struct ibv_send_wr *wr,
				   uint32_t len) REQUIRES(qp->lock)
{
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		return sq_told_at_once(qp, wr, IBV_WC_RDMA_WRITE, 0);
	return sq_told_at_once(qp, wr, wr_op(wr->opcode)->wc, len);
}

/* Ends a request that succeeded. False: call end_rarely(). */
static inline bool ended(struct qp *qp, const struct ibv_send_wr *wr, uint32_t len)
	REQUIRES(qp->lock)
{
	if (is_signaled(qp, wr))
		return tell_completion(qp, wr, len);
	qp->sq.uncovered++;
	return true;
}

struct ibv_send_wr *reach_post(const struct poster *p, struct ibv_send_wr *wr)
{
	struct visit v = { .by = p->by, .allowed = p->allowed };
	struct qp *qp = p->by.qp;
	struct tally t = { 0, 0 };
	uint64_t most = POST_AT_ONCE;
	enum reach_did did;
	uint32_t len;
	int32_t room;

	qp_is_held(qp);
	room = (int32_t)(sq_end(&qp->sq) - qp->sq.head);
	if (room <= 0)
		return wr;
	do {
		if (post_is_simple(wr) && wr->sg_list->length - 1 < PIECE) {
			len = wr->sg_list->length;
			did = reach_once(&v, wr);
		} else {
			len = post_bytes(qp, wr);
			did = reach_at_once(&v, wr, len);
		}
		if (did == REACH_NOT)
			break;
		if (__builtin_expect(did == REACH_SOME, 0)) {
			t.bytes += v.done;
		} else {
			t.n++;
			t.bytes += len;
		}
		if (__builtin_expect(did != REACH_DONE, 0) || !ended(qp, wr, len)) {
			count_all(p, &v, t);
			most -= t.bytes < most ? t.bytes : most;
			t = (struct tally){ 0, 0 };
			if (!end_rarely(p, wr, len, v.done, did))
				return wr->next;
		}
		wr = wr->next;
	} while (wr && --room > 0 && t.bytes < most && !lock_is_awaited(&qp->lock));
	count_all(p, &v, t);
	return wr;
}
