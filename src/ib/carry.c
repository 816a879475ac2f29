/* SPDX-License-Identifier: BSD-2-Clause */
/* carry.c - executes requests that a target QP of another process has passed on, here in
 * the process of the SRQ that they name; see relay.c and docs/dev/xrc.md.
 *
 * For each such QP there is a stand-in, which keeps the state between the packets of a
 * message: the receive under way, the place of a WRITE.  It has no PSNs and answers
 * nothing to the peer: the target QP does. */
#include <string.h>

#include "ib/ib.h"
#include "ib/relay.h"
#include "ib/xrc_msg.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "verbs/mr.h"
#include "verbs/xrc.h"

/* For each other process, so that one cannot use up another's share. */
enum { STAND_INS_MAX = 4096 };

struct stand_in {
	struct list node; /* xrc_of(ib)->stand_ins */
	uint16_t slot;	  /* of the target QP's process */
	uint32_t qpn, life;
	struct xrc_done said; /* the last answer, for a question that is put again */
	struct xrcd none;
	struct qp qp;
	struct ib_qp q;
};

/* --- stand-ins ----------------------------------------------------------------- */

static struct list *bucket(struct ib *ib, uint32_t qpn)
{
	return &xrc_of(ib)->stand_ins[qpn % XRC_BUCKETS];
}

static struct stand_in *find_stand_in(struct ib *ib, uint16_t slot, uint32_t qpn)
{
	list_for(n, bucket(ib, qpn))
	{
		struct stand_in *s = container_of(n, struct stand_in, node);

		if (s->qpn == qpn && s->slot == slot)
			return s;
	}
	return NULL;
}

static void end_stand_in(struct ib *ib, struct stand_in *s, uint64_t now)
{
	turn_is_held(ib->core);
	s->q.rsp.target.have_recv = false; /* verbs flushes that receive */
	xrc_stand_down(ib->core, &s->qp, now);
	list_del(&s->node);
	xrc_of(ib)->nstand_ins[s->slot]--;
	turn_free(s);
}

static struct stand_in *make_stand_in(struct ib *ib, uint16_t slot,
				      const struct xrc_carry *m)
{
	struct stand_in *s;

	if (xrc_of(ib)->nstand_ins[slot] == STAND_INS_MAX)
		return NULL;
	s = turn_alloc(sizeof(*s));
	if (!s)
		return NULL;
	s->slot = slot;
	s->qpn = m->head.qpn;
	s->life = m->head.life;
	s->said.head.id = m->head.id - 1;
	turn_is_held(ib->core);
	xrc_stand_in(ib->core, &s->qp, &s->none);
	s->qp.qpn = m->head.qpn;
	s->q.qp = &s->qp;
	s->q.ib = ib;
	s->q.counter = ib->counter;
	s->q.service = IB_XRC;
	s->q.mtu = s->qp.path.mtu = m->mtu;
	list_add_tail(bucket(ib, s->qpn), &s->node);
	xrc_of(ib)->nstand_ins[slot]++;
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
	if (xrc_lost_recv(q))
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

static void refuse_carried(struct ib_qp *q, const struct ib_pkt *pkt, enum refusal why,
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
		refuse_carried(q, pkt, why, now);
	else
		q->rsp.prev = pkt->op;
	return q->qp->state == IBV_QPS_ERR ? XRC_OVERRUN : why;
}

/* --- questions -------------------------------------------------------------------- */

int xrc_pass(struct ib *ib, uint16_t slot, const struct iovec *part, unsigned n)
{
	return xrc_of(ib)->pass(xrc_of(ib)->arg, slot, part, n);
}

/* A full connection may refuse the answer: then the question is put again. */
static void answer_owner(struct ib *ib, uint16_t slot, const struct xrc_done *d)
{
	const struct iovec part = { (void *)(uintptr_t)d, sizeof(*d) };

	(void)xrc_pass(ib, slot, &part, 1);
}

static bool is_mtu(uint32_t n)
{
	return n >= 256 && n <= 4096 && (n & (n - 1)) == 0;
}

/* The packets of an XRC_CARRY. */
struct run {
	unsigned n;
	struct ib_pkt pkt[XRC_RUN_MAX];
};

static bool parse_run(struct run *run, const struct xrc_carry *m, const uint8_t *at,
		      size_t len)
{
	const size_t head = offsetof(struct xrc_packet, bytes);
	uint32_t n;

	for (run->n = 0; len; at += head + n, len -= head + n) {
		struct ib_pkt *pkt = &run->pkt[run->n];

		if (run->n == XRC_RUN_MAX || len < head)
			return false;
		memcpy(&n, at, sizeof(n));
		if (n > len - head || ib_parse(pkt, at + head, n) != 0 ||
		    ib_service(pkt->f.opcode) != IB_XRC || !ib_is_request(pkt->op) ||
		    pkt->f.dest_qp != m->head.qpn || pkt->payload_len > m->mtu)
			return false;
		run->n++;
	}
	return run->n > 0;
}

/* The stand-in that m is for.  NULL: none could be made, or m belongs to an earlier
 * life. */
static struct stand_in *stand_in_of(struct ib *ib, uint16_t slot,
				    const struct xrc_carry *m, uint64_t now)
{
	struct stand_in *s = find_stand_in(ib, slot, m->head.qpn);

	if (s && (int32_t)(m->head.life - s->life) > 0) {
		end_stand_in(ib, s, now);
		s = NULL;
	}
	if (!s)
		return make_stand_in(ib, slot, m);
	return s->life == m->head.life ? s : NULL;
}

static void execute(struct stand_in *s, const struct xrc_carry *m, const struct run *run,
		    uint64_t now)
{
	struct xrc_done *d = &s->said;
	uint32_t why = ACCEPTED;
	unsigned i;

	*d = (struct xrc_done){ .head = m->head };
	d->head.what = XRC_DONE;
	lock_take(&s->qp.lock);
	qp_is_held(s->q.qp);
	be_like(s, m);
	for (i = 0; i < run->n && !why; i++)
		why = request(&s->q, &run->pkt[i], &m->name, &d->orig, now);
	lock_give(&s->qp.lock);
	d->done = i - (why && why != XRC_OVERRUN);
	d->refused = why;
}

static void carry(struct ib *ib, uint16_t slot, const void *buf, size_t len, uint64_t now)
{
	struct stand_in *s;
	struct xrc_carry m;
	struct run run;

	memcpy(&m, buf, sizeof(m));
	if (!is_mtu(m.mtu) ||
	    !parse_run(&run, &m, (const uint8_t *)buf + sizeof(m), len - sizeof(m)))
		return;
	/* Where there is no room for a stand-in, nothing is answered: the question is put
	 * again.  An answer could cross it, and make the packets another question. */
	s = stand_in_of(ib, slot, &m, now);
	if (!s || (int32_t)(m.head.id - s->said.head.id) < 0)
		return;
	if (m.head.id != s->said.head.id)
		execute(s, &m, &run, now);
	answer_owner(ib, slot, &s->said);
}

static void end_carried(struct ib *ib, uint16_t slot, const struct xrc_head *m,
			uint64_t now)
{
	struct stand_in *s = find_stand_in(ib, slot, m->qpn);

	if (s && (int32_t)(m->life - s->life) >= 0)
		end_stand_in(ib, s, now);
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
static void send_read_part(struct ib *ib, uint16_t slot, const void *buf)
{
	struct xrc_data data = { 0 };
	struct iovec part[2] = { { &data, sizeof(data) } };
	struct xrc_fetch m;
	uint8_t *host = NULL;

	memcpy(&m, buf, sizeof(m));
	if (m.len == 0 || m.len > XRC_BYTES_MAX)
		return;
	data.head = m.head;
	data.head.what = XRC_DATA;
	data.refused = look_up(ib, &m, &host);
	part[1] = (struct iovec){ host, m.len };
	if (!data.refused && xrc_pass(ib, slot, part, 2) == -EFAULT)
		data.refused = REFUSED_MEMORY;
	if (data.refused)
		(void)xrc_pass(ib, slot, part, 1);
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
	else if (head.what == XRC_END && len == sizeof(head))
		end_carried(ib, slot, &head, now);
	else if (head.what == XRC_FETCH && len == sizeof(struct xrc_fetch))
		send_read_part(ib, slot, buf);
}

/* slot 0: of all */
void carry_gone(struct ib *ib, uint16_t slot, uint64_t now)
{
	for (unsigned i = 0; i < XRC_BUCKETS; i++)
		list_for_safe(n, &xrc_of(ib)->stand_ins[i])
		{
			struct stand_in *s = container_of(n, struct stand_in, node);

			if (slot == 0 || s->slot == slot)
				end_stand_in(ib, s, now);
		}
}

void carry_close(struct ib *ib)
{
	carry_gone(ib, 0, 0);
}
