/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c - the transport as verbs and driver see it: a QP's states. */
#include "shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/shm_qp.h"
#include "sys/checks.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "wire/well_known.h"

static int open_qp(struct qp *qp)
{
	struct shm_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->qp = qp;
	q->src.timeout_at = NEVER;
	q->dst.odd = DST_CLOSED;
	q->lists.qp = qp;
	list_init(&q->lists.node);
	list_init(&q->lists.wait);
	list_init(&q->ack);
	list_init(&q->starved);
	qp->tp.state = q;
	return 0;
}

/* Finds what depends on the peer and on the path. */
static void meet(struct shm_qp *q)
{
	struct qp *qp = q->qp;
	const struct peer *p = q->peer;
	const bool words = p && peer_has_met(p) && qp->reliable;
	struct peer_route route;
	uint32_t pkey;

	q->word = words ? &p->executed[qpn_index(qp->qpn)] : NULL;
	q->answer = words ? &p->theirs[qpn_index(qp->attr.dest_qp_num)] : NULL;
	if (!p)
		return;
	/* Segments of other addresses, of another partition, or of another service are
	 * refused, as on a wire. */
	route = peer_route(&qp->path.addr);
	pkey = (qp_pkey(qp) & (PKEY_FULL - 1u)) | (qp->reliable ? 0 : PKEY_FULL);
	q->dest = qp->attr.dest_qp_num;
	q->route_in = route.in ^ pkey;
	q->head = (struct rec){
		.kind = REC_SEGMENT,
		.opcode = SEGMENT_ONLY,
		.life = q->head.life, /* the life: src_reset() */
		.dst = q->dest,
		.src = qp->qpn,
		.route = route.out ^ pkey,
	};
	way_meet(q);
}

static void leave(struct shm_qp *q) REQUIRES(q->qp->lock)
{
	dst_close(q);
	src_reset(q, 0);
	dst_reset(q);
	if (q->peer)
		peer_leave(q->peer, &q->lists);
	q->peer = NULL;
	q->word = NULL;
	q->answer = NULL;
	q->reaches = false;
	way_show(q);
}

static void close_qp(struct qp *qp)
{
	struct shm_qp *q = shm_qp(qp);

	qp_is_held(q->qp);
	leave(q);
	free(q);
	qp->tp.state = NULL;
}

void shm_stop(struct shm_qp *q)
{
	src_stop(q);
	dst_stop(q);
	way_show(q);
}

static int enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	struct shm_qp *q = shm_qp(qp);

	(void)now;
	qp_is_held(q->qp);
	switch (qp->state) {
	case IBV_QPS_RESET:
		leave(q);
		return 0;
	case IBV_QPS_RTR:
		meet(q);
		dst_open(q);
		break;
	case IBV_QPS_RTS:
		meet(q);
		if (from == IBV_QPS_RTR) {
			src_reset(q, qp->attr.sq_psn);
			src_open(q);
			if (checks_ends)
				end_say(q);
		}
		due_add(qp->core, qp);
		break;
	case IBV_QPS_SQD:
		due_add(qp->core, qp);
		break;
	case IBV_QPS_ERR:
		shm_stop(q);
		return 0;
	case IBV_QPS_INIT:
	case IBV_QPS_SQE:
	case IBV_QPS_UNKNOWN:
		return 0;
	}
	way_show(q);
	return 0;
}

void shm_connect(struct qp *qp, struct peer *p)
{
	struct shm_qp *q = shm_qp(qp);

	qp_is_held(q->qp);
	leave(q);
	q->peer = p;
	peer_join(p, &q->lists);
}

/* Nothing was sent yet, nor taken in. */
void shm_up(struct qp *qp, uint64_t now)
{
	lock_take(&qp->lock);
	(void)qp_enter_again(qp, now); /* enter() cannot fail */
	due_add(qp->core, qp);
	lock_give(&qp->lock);
}

static uint64_t run(struct qp *qp, uint64_t now)
{
	struct shm_qp *q = shm_qp(qp);
	uint64_t out, in;

	qp_is_held(q->qp);
	out = src_run(q, now);
	in = dst_run(q, now);
	return out < in ? out : in;
}

static void describe(const struct qp *qp, char *buf, size_t size)
{
	const struct shm_qp *q = shm_qp(qp);

	snprintf(buf, size,
		 "oldest PSN without an ACK {oldest_psn=%u}, next {next_psn=%u}, never "
		 "sent {new_psn=%u}; retries left {retries=%u}, RNR {rnr_retries=%u}; "
		 "expected PSN {expected_psn=%u}",
		 q->src.s.una, q->src.at.psn, q->src.at.max_psn, q->src.s.retry_left,
		 q->src.s.rnr_left, q->dst.expected);
}

static void describe_peer(const struct qp *qp, char *buf, size_t size)
{
	char to[PEER_TEXT];

	snprintf(buf, size, "%s, PSN %u", peer_text(qp, to), shm_qp(qp)->src.s.una);
}

const struct transport shm_transport = {
	.name = "local",
	.open = open_qp,
	.close = close_qp,
	.enter = enter,
	.stream = true,
	.output = shm_output,
	.at_once = way_at_once,
	.post = shm_post,
	.push = shm_push,
	.run = run,
	.describe = describe,
	.peer = describe_peer,
};
