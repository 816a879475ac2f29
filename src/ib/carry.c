/* SPDX-License-Identifier: BSD-2-Clause */
/* carry.c - executes requests that a target QP of another process has passed on, here in
 * the process of the SRQ that they name; see relay.c and docs/dev/xrc.md.
 *
 * For each such QP there is a stand-in, which keeps the state between the packets of a
 * message: the receive under way, the place of a WRITE.  It has no PSNs and answers
 * nothing to the peer: the target QP does. */
#include <stdlib.h>
#include <string.h>

#include "core/mr.h"
#include "core/xrc.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/xrc_msg.h"
#include "sys/log.h"

/* Limits for each other process, so that one cannot use up another's share.  A QP of that
 * process waits for one answer at most. */
enum {
	STAND_INS_MAX = 4096,
	LATE_MAX = QPN_INDICES, /* answers that a full connection refused */
};

struct stand_in {
	struct list node; /* ib->xrc.stand_ins */
	uint16_t slot;	  /* of the target QP's process */
	uint32_t qpn;
	uint32_t life, epoch, next;
	uint32_t asked; /* send XRC_DONE when `next` reaches this */
	bool stopped;	/* a request was refused: the rest of this epoch is ignored */
	bool untold;	/* a full connection refused `said` */
	struct xrc_done said;
	struct xrcd none;
	struct qp qp;
	struct ib_qp q;
};

/* An answer that a full connection refused and that no stand-in keeps: a part of a READ
 * response, or an XRC_DONE sent because no stand-in could be made. */
struct late {
	struct list node; /* ib->xrc.late */
	uint16_t slot;
	bool is_done;
	union {
		struct xrc_fetch fetch;
		struct xrc_done done;
	};
};

/* --- stand-ins ----------------------------------------------------------------- */

static struct list *bucket(struct ib *ib, uint32_t qpn)
{
	return &ib->xrc.stand_ins[qpn % XRC_BUCKETS];
}

static struct stand_in *find(struct ib *ib, uint16_t slot, uint32_t qpn)
{
	list_for(n, bucket(ib, qpn))
	{
		struct stand_in *s = container_of(n, struct stand_in, node);

		if (s->qpn == qpn && s->slot == slot)
			return s;
	}
	return NULL;
}

static void leave(struct ib *ib, struct stand_in *s, uint64_t now)
{
	turn_is_held(ib->core);
	s->q.rsp.target.have_recv = false; /* core flushes that receive */
	xrc_stand_down(ib->core, &s->qp, now);
	list_del(&s->node);
	ib->xrc.nstand_ins[s->slot]--;
	free(s);
}

static struct stand_in *make(struct ib *ib, uint16_t slot, const struct xrc_carry *m)
{
	struct stand_in *s;

	if (ib->xrc.nstand_ins[slot] == STAND_INS_MAX)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->slot = slot;
	s->qpn = m->head.qpn;
	s->life = m->life;
	s->epoch = m->epoch;
	turn_is_held(ib->core);
	xrc_stand_in(ib->core, &s->qp, &s->none);
	s->qp.qpn = m->head.qpn;
	s->q.qp = &s->qp;
	s->q.ib = ib;
	s->q.counter = ib->counter;
	s->q.service = IB_XRC;
	s->q.mtu = s->qp.path.mtu = m->mtu;
	list_add_tail(bucket(ib, s->qpn), &s->node);
	ib->xrc.nstand_ins[slot]++;
	return s;
}

/* --- a request ------------------------------------------------------------------- */

/* Copies the target QP's attributes from m: the program may modify that QP between any
 * two requests. */
static void be_like(struct stand_in *s, const struct xrc_carry *m)
{
	s->qp.attr.dest_qp_num = m->src_qpn;
	s->qp.attr.qp_access_flags = m->access;
	s->qp.path.sl = m->sl;
}

static enum refusal aim(struct ib_qp *q, const struct ib_pkt *pkt,
			const struct xrc_name *name) REQUIRES(q->qp->lock)
{
	if (rsp_lost_recv(q))
		return REFUSED_SRQ;
	return xrc_aim_by_name(q->qp, pkt->f.srqn, name);
}

static enum refusal atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t *orig)
	REQUIRES(q->qp->lock)
{
	uint64_t *at;
	enum refusal why = rsp_check_atomic(q, pkt, &at);

	return why ? why : rsp_atomic(q, pkt, at, orig);
}

static enum refusal atomic_write(struct ib_qp *q, const struct ib_pkt *pkt)
	REQUIRES(q->qp->lock)
{
	uint64_t *at;
	enum refusal why = rsp_check_atomic_write(q, pkt, &at);

	return why ? why : target_atomic_write(q->qp, pkt->f.rkey, at, pkt->payload);
}

static enum refusal carry_out(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t *orig,
			      uint64_t now) REQUIRES(q->qp->lock)
{
	if (!ib_may_follow(q->rsp.prev, pkt->op))
		return REFUSED_PLACE;
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND:
	case IB_WRITE:
		return rsp_message(q, pkt, now);
	case IB_READ:
		return rsp_check_read(q, pkt); /* its response is fetched later */
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		return atomic(q, pkt, orig);
	case IB_ATOMIC_WRITE:
		return atomic_write(q, pkt);
	case IB_FLUSH:
		return rsp_flush(q, pkt);
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		break;
	}
	return REFUSED_OPERATION;
}

static void refuse(struct ib_qp *q, const struct ib_pkt *pkt, enum refusal why,
		   uint64_t now) REQUIRES(q->qp->lock)
{
	char text[TARGET_WHY_LEN];

	if (why == REFUSED_NO_RECV)
		return;
	log_info("%s for SRQ 0x%06x, %zu bytes, received by QP 0x%06x of "
		 "another process: %s",
		 pkt->op->name, pkt->f.srqn, pkt->payload_len, q->qp->qpn,
		 target_why(&q->rsp.target, why, text));
	target_fail_recv(q->qp, &q->rsp.target, why, now);
}

/* Executes one request.  Returns enum refusal, or XRC_OVERRUN. */
static uint32_t request(struct ib_qp *q, const struct ib_pkt *pkt,
			const struct xrc_name *name, uint64_t *orig, uint64_t now)
	REQUIRES(q->qp->lock)
{
	enum refusal why = aim(q, pkt, name);

	if (!why)
		why = carry_out(q, pkt, orig, now);
	if (why)
		refuse(q, pkt, why, now);
	else
		q->rsp.prev = pkt->op;
	return q->qp->state == IBV_QPS_ERR ? XRC_OVERRUN : why;
}

/* --- messages to other processes
 * ----------------------------------------------------- */

int xrc_pass(struct ib *ib, uint16_t slot, const void *head, size_t len,
	     const struct iovec *body, unsigned n)
{
	struct iovec part[4] = { { (void *)(uintptr_t)head, len } };

	assert(n < 4);
	if (!ib->xrc.pass)
		return -ESRCH;
	for (unsigned i = 0; i < n; i++)
		part[i + 1] = body[i];
	return ib->xrc.pass(ib->xrc.arg, slot, part, n + 1);
}

static void tell(struct ib *ib, struct stand_in *s)
{
	int rc = xrc_pass(ib, s->slot, &s->said, sizeof(s->said), NULL, 0);

	s->untold = rc == -EAGAIN;
	if (s->untold)
		xrc_again(ib);
}

static bool is_mtu(uint32_t n)
{
	return n >= 256 && n <= 4096 && (n & (n - 1)) == 0;
}

static bool is_request(const struct ib_pkt *pkt, const struct xrc_carry *m)
{
	return ib_service(pkt->f.opcode) == IB_XRC && ib_is_request(pkt->op) &&
	       pkt->f.dest_qp == m->head.qpn && pkt->payload_len <= m->mtu;
}

/* The stand-in that m is for.  NULL: none could be made, or m belongs to an earlier life
 * or epoch. */
static struct stand_in *stand_in_of(struct ib *ib, uint16_t slot,
				    const struct xrc_carry *m, uint64_t now)
{
	struct stand_in *s = find(ib, slot, m->head.qpn);

	if (s && (int32_t)(m->life - s->life) < 0)
		return NULL;
	if (s && s->life != m->life) {
		leave(ib, s, now);
		s = NULL;
	}
	if (!s)
		s = make(ib, slot, m);
	if (s && (int32_t)(m->epoch - s->epoch) < 0)
		return NULL;
	if (s && s->epoch != m->epoch) {
		s->epoch = m->epoch;
		s->next = s->asked = 0;
		s->stopped = false;
	}
	return s;
}

/* Keeps an answer, to send it later.  Without memory, or above LATE_MAX, it is lost. */
static void keep(struct ib *ib, const struct late *what)
{
	struct late *l = NULL;

	if (ib->xrc.nlate[what->slot] < LATE_MAX)
		l = malloc(sizeof(*l));
	if (!l)
		return;
	*l = *what;
	list_add_tail(&ib->xrc.late, &l->node);
	ib->xrc.nlate[l->slot]++;
	xrc_again(ib);
}

/* No stand-in could be made: answers as if no receive were posted.  Only the first
 * request of an epoch is answered, since that answer ends the epoch.  The answer must not
 * be lost: the target QP waits for it, whatever its peer sends again. */
static void put_off(struct ib *ib, uint16_t slot, const struct xrc_carry *m)
{
	const struct late l = {
		.slot = slot,
		.is_done = true,
		.done = {
			.head = { .what = XRC_DONE, .qpn = m->head.qpn },
			.life = m->life,
			.epoch = m->epoch,
			.refused = REFUSED_NO_RECV,
		},
	};

	if (m->seq == 0 &&
	    xrc_pass(ib, slot, &l.done, sizeof(l.done), NULL, 0) == -EAGAIN)
		keep(ib, &l);
}

static void carry(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now)
{
	const struct ib_pkt *packet;
	struct stand_in *s;
	struct xrc_carry m;
	struct ib_pkt pkt;
	uint64_t orig = 0;
	uint32_t why;

	memcpy(&m, buf, sizeof(m));
	if (!is_mtu(m.mtu) ||
	    ib_parse(&pkt, (const uint8_t *)buf + sizeof(m), len - sizeof(m)) != 0 ||
	    !is_request(&pkt, &m))
		return;
	packet = &pkt;
	s = stand_in_of(ib, slot, &m, now);
	if (!s && !find(ib, slot, m.head.qpn))
		put_off(ib, slot, &m);
	if (!s || s->stopped)
		return;
	lock_take(&s->qp.lock);
	qp_is_held(s->q.qp);
	be_like(s, &m);
	/* A wrong seq: where two connections join the processes for a moment, an earlier
	 * request may come later.  It is refused, and the peer sends it again. */
	why = m.seq == s->next ? request(&s->q, packet, &m.name, &orig, now)
			       : REFUSED_NO_RECV;
	lock_give(&s->qp.lock);
	s->stopped = why != ACCEPTED;
	s->next += !why || why == XRC_OVERRUN;
	s->said = (struct xrc_done){
		.head = { .what = XRC_DONE, .qpn = s->qpn },
		.life = s->life,
		.epoch = s->epoch,
		.done = s->next,
		.refused = why,
		.orig = orig,
	};
	if (why || m.tell || s->next == s->asked)
		tell(ib, s);
}

/* The requests that m asks about may come after m, where two connections join the
 * processes: then carry() sends the answer. */
static void asked(struct ib *ib, uint16_t slot, const void *buf)
{
	struct stand_in *s;
	struct xrc_ask m;

	memcpy(&m, buf, sizeof(m));
	s = find(ib, slot, m.head.qpn);
	if (!s || s->life != m.life || s->epoch != m.epoch)
		return;
	s->asked = m.upto;
	if (s->next == m.upto)
		tell(ib, s);
}

static void end(struct ib *ib, uint16_t slot, const void *buf, uint64_t now)
{
	struct xrc_end m;
	struct stand_in *s;

	memcpy(&m, buf, sizeof(m));
	s = find(ib, slot, m.head.qpn);
	if (s && (int32_t)(m.life - s->life) >= 0)
		leave(ib, s, now);
}

/* --- a part of a READ's answer ------------------------------------------------------ */

static enum refusal look_up(struct ib *ib, const struct xrc_fetch *m, uint8_t **host)
{
	struct srq *srq;

	turn_is_held(ib->core);
	srq = xrc_find(ib->core, m->srqn, &m->name);
	if (!srq)
		return REFUSED_SRQ;
	return mr_check(ib->core, m->rkey, srq->pd, m->head.qpn, m->va, m->len,
			IBV_ACCESS_REMOTE_READ, host) == MR_OK
		       ? ACCEPTED
		       : REFUSED_KEY;
}

/* Sends a part of a READ response.  The kernel copies the payload from registered memory
 * and reports -EFAULT if it is unmapped. */
static int give(struct ib *ib, uint16_t slot, const struct xrc_fetch *m)
{
	struct xrc_data data = {
		.head = { .what = XRC_DATA, .qpn = m->head.qpn },
		.id = m->id,
	};
	struct iovec bytes = { .iov_len = m->len };
	uint8_t *host = NULL;
	int rc = 0;

	data.refused = look_up(ib, m, &host);
	bytes.iov_base = host;
	if (!data.refused)
		rc = xrc_pass(ib, slot, &data, sizeof(data), &bytes, 1);
	if (rc == -EFAULT)
		data.refused = REFUSED_MEMORY;
	return data.refused ? xrc_pass(ib, slot, &data, sizeof(data), NULL, 0) : rc;
}

static void fetch(struct ib *ib, uint16_t slot, const void *buf)
{
	struct late l = { .slot = slot };

	memcpy(&l.fetch, buf, sizeof(l.fetch));
	if (l.fetch.len > 0 && l.fetch.len <= XRC_FETCH_MAX &&
	    give(ib, slot, &l.fetch) == -EAGAIN)
		keep(ib, &l);
}

static void forget_late(struct ib *ib, struct late *l)
{
	list_del(&l->node);
	ib->xrc.nlate[l->slot]--;
	free(l);
}

static int give_late(struct ib *ib, const struct late *l)
{
	return l->is_done ? xrc_pass(ib, l->slot, &l->done, sizeof(l->done), NULL, 0)
			  : give(ib, l->slot, &l->fetch);
}

/* --- entry points
 * ----------------------------------------------------------------------- */

void carry_heard(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now)
{
	struct xrc_head head;

	memcpy(&head, buf, sizeof(head));
	if (qpn_slot(head.qpn) != slot) /* the sender does not own that QP number */
		return;
	if (head.what == XRC_CARRY && len > sizeof(struct xrc_carry))
		carry(ib, slot, buf, len, now);
	else if (head.what == XRC_END && len == sizeof(struct xrc_end))
		end(ib, slot, buf, now);
	else if (head.what == XRC_ASK && len == sizeof(struct xrc_ask))
		asked(ib, slot, buf);
	else if (head.what == XRC_FETCH && len == sizeof(struct xrc_fetch))
		fetch(ib, slot, buf);
}

/* Calls fn for each stand-in of this slot; 0: for all. */
static void each(struct ib *ib, uint16_t slot, uint64_t now,
		 void (*fn)(struct ib *ib, struct stand_in *s, uint64_t now))
{
	for (unsigned i = 0; i < XRC_BUCKETS; i++)
		list_for_safe(n, &ib->xrc.stand_ins[i])
		{
			struct stand_in *s = container_of(n, struct stand_in, node);

			if (slot == 0 || s->slot == slot)
				fn(ib, s, now);
		}
}

static void tell_again(struct ib *ib, struct stand_in *s, uint64_t now)
{
	(void)now;
	if (s->untold)
		tell(ib, s);
}

void carry_gone(struct ib *ib, uint16_t slot, uint64_t now)
{
	each(ib, slot, now, leave);
	list_for_safe(n, &ib->xrc.late)
	{
		struct late *l = container_of(n, struct late, node);

		if (l->slot == slot)
			forget_late(ib, l);
	}
}

void carry_again(struct ib *ib)
{
	unsigned full = 0; /* a slot whose connection is full */

	each(ib, 0, 0, tell_again);
	list_for_safe(n, &ib->xrc.late)
	{
		struct late *l = container_of(n, struct late, node);

		if (l->slot != full && give_late(ib, l) != -EAGAIN) {
			forget_late(ib, l);
			continue;
		}
		full = l->slot;
		xrc_again(ib);
	}
}

void carry_close(struct ib *ib)
{
	each(ib, 0, 0, leave);
	list_for_safe(n, &ib->xrc.late)
		forget_late(ib, container_of(n, struct late, node));
}
