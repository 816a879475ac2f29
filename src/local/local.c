/* SPDX-License-Identifier: BSD-2-Clause */
/* local.c - the same host as core and nic see it: states, records' way to
 * their QPs, turns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/board.h"
#include "core/device.h"
#include "core/due.h"
#include "core/event.h"
#include "core/transport.h"
#include "link/ip_addr.h"
#include "local/local_qp.h"
#include "sys/log.h"

enum { LOOKS = 16 }; /* rings that a turn looks at */

/* --- a QP's state -------------------------------------------------------- */

void local_publish(struct local_qp *q)
{
	const struct qp *qp = q->qp;
	bool open = q->peer && (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
				qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE);

	board_put_qp(qp->core, qp->qpn,
		     &(struct board_qp){
			     .open = open,
			     .pd = qp->pd->ibv.handle,
			     .access = qp->attr.qp_access_flags,
			     .dest_qp = qp->attr.dest_qp_num,
			     .path = q->path_in,
			     .reads = qp->attr.max_dest_rd_atomic,
			     .executed = q->rsp.epsn,
		     });
}

static int open_qp(struct qp *qp)
{
	struct local_qp *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->qp = qp;
	q->l = qp->core->local;
	list_init(&q->node);
	list_init(&q->full);
	qp->tp = q;
	lreq_reset(q, 0);
	return 0;
}

static void leave_peer(struct local_qp *q)
{
	struct peer *p = q->peer;

	list_del(&q->node);
	list_del(&q->full);
	q->peer = NULL;
	atomic_store(&q->qp->at_once, false);
	q->allowed.known = false;
	q->l->count.at_once += q->at_once;
	q->l->count.at_once_bytes += q->at_once_bytes;
	q->at_once = q->at_once_bytes = 0;
	if (p)
		peer_release(p);
}

static void close_qp(struct qp *qp)
{
	struct local_qp *q = local_qp(qp);

	leave_peer(q);
	local_publish(q);
	free(q->rsp.owed);
	free(q);
	qp->tp = NULL;
}

void local_connect(struct qp *qp, struct peer *p)
{
	struct local_qp *q = local_qp(qp);

	leave_peer(q);
	q->peer = p;
	list_add_tail(&p->qps, &q->node);
	atomic_store(&qp->at_once, p->mapped);
}

/* On a wire packets with other addresses would be dropped. */
static uint32_t path_of(const uint8_t *from, const uint8_t *to)
{
	uint32_t h = 2166136261u;

	for (int i = 0; i < 16; i++)
		h = (h ^ from[i]) * 16777619u;
	for (int i = 0; i < 16; i++)
		h = (h ^ to[i]) * 16777619u;
	return h;
}

static int enter_rtr(struct local_qp *q)
{
	struct qp *qp = q->qp;

	q->mtu = 128u << qp->attr.path_mtu;
	return lrsp_reset(q, qp->attr.rq_psn,
			  qp->type == IBV_QPT_RC ? caps.max_rd_atomic : 0);
}

static void enter_err(struct local_qp *q)
{
	lreq_stop(q);
	lrsp_stop(q);
}

/* core may have failed the QP, too: its CQ is overrun. */
static void settle(struct local_qp *q)
{
	if (q->qp->state != IBV_QPS_ERR)
		return;
	enter_err(q);
	local_publish(q);
}

static int change(struct local_qp *q, enum ibv_qp_state from)
{
	struct qp *qp = q->qp;

	switch (qp->state) {
	case IBV_QPS_RESET:
		leave_peer(q);
		lreq_reset(q, 0);
		return lrsp_reset(q, 0, 0);
	case IBV_QPS_RTR:
		return enter_rtr(q);
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR)
			lreq_reset(q, qp->attr.sq_psn);
		if (from == IBV_QPS_SQE)
			lreq_reset(q, q->req.psn);
		due_add(qp->core, qp);
		return 0;
	case IBV_QPS_SQD:
		due_add(qp->core, qp);
		return 0;
	case IBV_QPS_SQE:
		lreq_stop(q);
		return 0;
	case IBV_QPS_ERR:
		enter_err(q);
		return 0;
	case IBV_QPS_INIT:
	case IBV_QPS_UNKNOWN:
		return 0;
	}
	return 0;
}

static int enter(struct qp *qp, enum ibv_qp_state from, uint64_t now)
{
	struct local_qp *q = local_qp(qp);
	const struct ip_addr *way = ip_addr(&qp->path.addr);
	int rc = change(q, from);

	(void)now;
	q->path_out = path_of(way->from.ip, way->to.ip);
	q->path_in = path_of(way->to.ip, way->from.ip);
	local_publish(q);
	return rc;
}

void local_fail(struct local_qp *q, bool sq_only, int event, uint64_t now)
{
	lreq_stop(q);
	if (!sq_only)
		q->rsp.target.have_recv = false; /* core flushes it */
	qp_fail(q->qp, sq_only, event, now);
	local_publish(q);
}

/* --- output -------------------------------------------------------------- */

static struct rec *fill_in(struct local_qp *q, enum rec_op op, struct rec *r)
{
	struct peer *p = q->peer;

	if (!r) {
		if (list_empty(&q->full))
			list_add_tail(&p->full, &q->full);
		peer_wrote(p);
		return NULL;
	}
	r->op = (uint8_t)op;
	r->flags = q->qp->type == IBV_QPT_UC ? REC_UC : 0;
	r->code = r->zero = 0;
	r->dst = q->qp->attr.dest_qp_num;
	r->src = q->qp->qpn;
	r->imm = 0;
	r->path = q->path_out;
	return r;
}

struct rec *rec_new(struct local_qp *q, enum rec_op op, uint32_t head, uint32_t len)
{
	return fill_in(q, op, ring_reserve(&q->peer->out, head + len));
}

struct rec *rec_new_answer(struct local_qp *q, enum rec_op op)
{
	return fill_in(q, op, ring_reserve_answer(&q->peer->out));
}

void rec_send(struct local_qp *q, struct rec *r, uint32_t head, uint32_t len)
{
	ring_publish(&q->peer->out, r, head + len);
	q->req.written = q->peer->out.head;
	peer_wrote(q->peer);
	q->l->count.out++;
	q->l->count.out_bytes += len;
	q->l->core->spent += len / 4096 + 1;
}

static bool output(struct qp *qp, struct batch *b, uint64_t now)
{
	struct local_qp *q = local_qp(qp);
	bool more;

	qp_is_held(q->qp);
	(void)b;
	if (!q->peer || q->peer->state != PEER_UP)
		return false;
	switch (qp->state) {
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		/* The ACK first: a program that receives an answer may rely on
		 * its own SEND being complete. */
		more = lrsp_output(q, now);
		if (list_empty(&q->full))
			return lreq_output(q, now) || more;
		lreq_blocked(q, now);
		return false;
	case IBV_QPS_RTR:
	case IBV_QPS_SQE:
		return lrsp_output(q, now);
	case IBV_QPS_ERR:
		return lrsp_owes(q) && lrsp_output(q, now);
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return false;
}

static uint64_t run(struct qp *qp, uint64_t now)
{
	struct local_qp *q = local_qp(qp);
	uint64_t next, ack;

	qp_is_held(q->qp);
	next = lreq_run(q, now);
	settle(q);
	ack = lrsp_deadline(q);
	return ack < next ? ack : next;
}

static void describe(const struct qp *qp, char *buf, size_t size)
{
	const struct local_qp *q = local_qp((struct qp *)qp);

	snprintf(buf, size,
		 "oldest PSN without an ACK %u, next %u; retries left %u, RNR %u; "
		 "expected PSN %u; process %d in slot %u",
		 q->req.una, q->req.psn, q->req.retry_left, q->req.rnr_left, q->rsp.epsn,
		 q->peer ? (int)q->peer->reach.pid : 0, q->peer ? q->peer->slot : 0);
}

const struct transport local_transport = {
	.name = "local",
	.open = open_qp,
	.close = close_qp,
	.enter = enter,
	.output = output,
	.at_once = lreq_at_once,
	.run = run,
	.describe = describe,
};

/* --- input --------------------------------------------------------------- */

static bool may_receive(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

static void established(struct local_qp *q) /* 12.9.7.1 */
{
	if (q->qp->state != IBV_QPS_RTR || q->rsp.comm_est)
		return;
	q->rsp.comm_est = true;
	async_raise(q->qp->ctx, IBV_EVENT_COMM_EST, &q->qp->ex.qp_base);
}

static bool is_for(const struct local_qp *q, const struct peer *p, const struct rec *r)
{
	const struct qp *qp = q->qp;

	return q->peer == p && r->src == qp->attr.dest_qp_num && r->path == q->path_in &&
	       may_receive(qp) && !(r->flags & REC_UC) == (qp->type == IBV_QPT_RC);
}

/* Nobody takes it: on a wire it would be lost, and sent again. */
static void not_ready(struct peer *p, const struct rec *r)
{
	unsigned i = p->not_ready_n;

	if (!rec_is_request(r) || r->flags & REC_UC || i == NOT_READY_MAX)
		return;
	/* Of a QP's records the oldest alone counts, which need not come first:
	 * some that were sent before may be in front of those sent again. */
	for (unsigned j = 0; j < i; j++)
		if (p->not_ready[j].dst == r->src) {
			if (psn_off(r->psn, p->not_ready[j].psn) >= PSN_WINDOW)
				p->not_ready[j].psn = r->psn;
			return;
		}
	log_info("QP 0x%06x: a request from QP 0x%06x, PSN %u, finds no such QP, or one "
		 "that is not connected to it or in no state to take it",
		 r->dst, r->src, r->psn);
	p->l->count.not_ready++;
	p->not_ready[i].dst = r->src;
	p->not_ready[i].src = r->dst;
	p->not_ready[i].psn = r->psn;
	p->not_ready[i].path = r->path;
	p->not_ready_n++;
}

static void say_not_ready(struct peer *p)
{
	for (; p->not_ready_n; p->not_ready_n--) {
		unsigned i = p->not_ready_n - 1;
		struct rec *r = ring_reserve_answer(&p->out);

		if (!r)
			break;
		*r = (struct rec){
			.op = REC_NAK,
			.code = REC_NOT_READY,
			.dst = p->not_ready[i].dst,
			.src = p->not_ready[i].src,
			.psn = p->not_ready[i].psn,
			.path = ~p->not_ready[i].path,
		};
		ring_publish(&p->out, r, REC_HEAD);
		peer_wrote(p);
	}
}

void peer_admit(struct peer *p)
{
	say_not_ready(p);
	if (!peer_waits(p) || !ring_has_room(&p->out))
		return;
	say_not_ready(p);
	list_for_safe(n, &p->full)
	{
		struct local_qp *q = container_of(n, struct local_qp, full);

		list_del(&q->full);
		due_add(p->l->core, q->qp);
	}
}

static void deliver(struct local *l, struct peer *p, const struct rec *r,
		    const uint8_t *payload, uint32_t len, uint64_t now)
{
	struct local_qp *q;
	struct qp *qp;

	turn_is_held(l->core);
	qp = qp_find(l->core, r->dst);
	if (!qp || qp->transport != &local_transport) {
		not_ready(p, r);
		return;
	}
	/* exit() may have come in a call that holds the lock. */
	if (!l->core->leaving)
		lock_take(&qp->lock);
	else if (!lock_try(&qp->lock))
		return;
	q = local_qp(qp);
	qp_is_held(q->qp);
	if (is_for(q, p, r)) {
		established(q);
		if (rec_is_request(r)) {
			l->one_sided |= r->op != REC_SEND;
			lrsp_request(q, r, payload, len, now);
		} else if (qp->type == IBV_QPT_RC)
			lreq_response(q, r, payload, len, now);
		settle(q);
	} else if (r->op == REC_NAK && r->code == REC_NOT_READY && q->peer == p &&
		   r->src == qp->attr.dest_qp_num && r->path == ~q->path_out) {
		lreq_response(q, r, payload, len, now);
		settle(q);
	} else {
		not_ready(p, r);
	}
	lock_give(&qp->lock);
}

static unsigned serve(struct local *l, struct peer *p, uint64_t now)
{
	const uint8_t *payload;
	struct rec rec;
	uint32_t len;
	unsigned n = 0;
	bool kick;
	int rc = 0;

	while (n < SERVE && (rc = ring_next(&p->in, &rec, &payload, &len)) > 0) {
		l->count.in_bytes += len;
		if (rec.op == REC_DGRAM)
			dgram_input(p, payload, len, now);
		else
			deliver(l, p, &rec, payload, len, now);
		ring_release(&p->in, &rec);
		n++;
	}
	l->count.in += n;
	if (rc < 0) {
		peer_broken(p, "what no urnic writes is in its ring");
		return n;
	}
	kick = n && ring_tell(&p->in);
	peer_admit(p);
	if (kick && !peer_looks(p))
		peer_kick(p);
	return n;
}

void peer_drain(struct peer *p)
{
	for (unsigned n = 0; n <= RING_SLOTS && p->state == PEER_UP; n += SERVE)
		if (!serve(p->l, p, p->l->now))
			return;
}

unsigned local_loopback(struct local *l, uint64_t now)
{
	if (!l->self || ring_empty(&l->self->in))
		return 0;
	return serve(l, l->self, now);
}

/* The first `looks` rings of the list; those go to its end.  Returns how many
 * rings were looked at. */
static unsigned look_at(struct local *l, struct list *rings, unsigned looks, uint64_t now,
			struct local_got *got)
{
	unsigned n = 0;
	struct list *last = rings->prev;

	while (n < looks && !list_empty(rings)) {
		struct list *first = rings->next;
		struct peer *p = container_of(first, struct peer, node_up);

		n++;
		got->records += serve(l, p, now);
		if (first == last || list_empty(rings))
			break;
		if (rings->next == first) {
			list_del(first);
			list_add_tail(rings, first);
		}
	}
	return n;
}

struct local_got local_input(struct local *l, uint64_t now)
{
	struct local_got got = { .records = local_loopback(l, now) };
	unsigned looks;

	l->now = now;
	l->one_sided = false;
	looks = look_at(l, &l->hot, LOOKS, now, &got);
	if (looks < LOOKS)
		look_at(l, &l->cold, LOOKS - looks, now, &got);
	got.one_sided = l->one_sided;
	if (!list_empty(&l->dead))
		local_bury(l);
	return got;
}
