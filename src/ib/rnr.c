/* SPDX-License-Identifier: BSD-2-Clause */
/* rnr.c - a message that finds no receive (IBTA vol. 1, 9.7.5.2.8).  The responder waits
 * a little before it answers with an RNR NAK: programs that were written on an RNIC, and
 * whose receives come just in time there, would fail otherwise.
 *
 * The packet that needs the receive is kept, and those behind it are dropped as behind a
 * gap.  When a receive is posted (verbs/await.h), the kept packet is executed, and a NAK
 * asks for what was dropped. */
#include <stdlib.h>
#include <string.h>

#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/await.h"
#include "verbs/cq.h"
#include "verbs/due.h"
#include "verbs/timeout.h"
#include "wire/aeth.h"

/* The probes of a peer that is urnic come after 1, 3, 7, 15, 31 and 63 ms at the earliest
 * (retry.c). One that sends more often has a timer that is shorter than the wait. What
 * comes within one millisecond may have been in the socket while nobody took it in. */
enum { URGED = 6, URGED_NS = 60000000, APART_NS = 1000000 };

/* A program that has not polled what came before may not know that it has to post. The
 * wait goes on for it by MORE_NS at a time, up to MORE times the longest wait, and once
 * more when it has polled. */
enum { MORE_NS = 20000000, MORE = 4 };

struct kept {
	struct ib_pkt pkt;
	uint8_t payload[4096]; /* the largest MTU */
};

static bool keep(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct kept *k = q->kept;

	if (pkt->payload_len > sizeof(k->payload))
		return false;
	if (!k)
		k = q->kept = malloc(sizeof(*k));
	if (!k)
		return false;
	k->pkt = *pkt;
	k->pkt.payload = k->payload;
	memcpy(k->payload, pkt->payload, pkt->payload_len);
	return true;
}

void rnr_say(struct ib_qp *q, uint64_t now)
{
	hang_no_recv(q, now);
	q->rsp.late.refused = true;
	q->rsp.late.refused_psn = q->rsp.epsn;
	rnr_end(q);
	rsp_rnr(q);
}

/* Half of the QP's own ACK timeout: the peer's is as long as a rule, and must not expire
 * meanwhile. A peer that has heard RNR comes again: it need not be kept from that, and
 * the short time costs it no retry whatever its timeout is. */
static uint64_t patience(const struct ib_qp *q)
{
	const struct ib_late *l = &q->rsp.late;
	uint64_t ns = ack_timeout_ns(q->qp) / 2;

	if (ns < RECV_WAIT_NS || (l->refused && l->refused_psn == q->rsp.epsn))
		ns = RECV_WAIT_NS;
	return ns < q->ib->late_ns ? ns : q->ib->late_ns;
}

uint64_t rnr_begin(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct ib_late *l = &q->rsp.late;
	const uint64_t ns = patience(q);
	char from[IB_PEER_LEN];

	count(q, IB_RX_LATE);
	if (!l->told)
		log_info("QP 0x%06x: %s from %s, PSN %u: no receive is posted; "
			 "waits %u us for one before it says RNR",
			 q->qp->qpn, pkt->op->name, ib_peer_text(q, from), pkt->f.psn,
			 (unsigned)(ns / 1000));
	l->told = true;
	return ns;
}

static void begin(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct ib_late *l = &q->rsp.late;

	l->until = now + rnr_begin(q, pkt);
	l->followed = l->behind = false;
	l->since = l->last = now;
	l->again = 0;
	qp_await_recv(q->qp, false);
}

/* A message that waits has found no receive again. Has the peer sent it so often that
 * its timer must have expired? It is shorter than ours then, and the peer would give up,
 * although it may be willing to hear RNR without end. */
static bool is_urged(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_late *l = &q->rsp.late;

	if ((q->kept && pkt == &q->kept->pkt) || now - l->last < APART_NS)
		return false;
	l->last = now;
	return ++l->again >= URGED && now - l->since < URGED_NS;
}

/* Do earlier completions lie in the program's CQ? Its thread has had no processor since
 * they came, or is busy. (A borrowed CQ may be gone.) */
static bool is_behind(const struct ib_qp *q)
{
	return qp_has_receives(q->qp) && !cq_empty(q->qp->recv_cq);
}

/* Is the time up for the message that waits? */
static bool is_over(struct ib_qp *q, uint64_t now)
{
	struct ib_late *l = &q->rsp.late;
	const uint64_t ns = now - l->since;
	const bool was_behind = l->behind;

	if (now < l->until)
		return false;
	l->behind = is_behind(q);
	if (!(l->behind || was_behind) || ns >= MORE * q->ib->late_ns ||
	    ns + MORE_NS > ack_timeout_ns(q->qp) / 2 ||
	    (l->refused && l->refused_psn == q->rsp.epsn))
		return true;
	l->until = now + MORE_NS;
	return false;
}

void rnr_late(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_late *l = &q->rsp.late;

	if (l->until ? is_over(q, now) || is_urged(q, pkt, now)
		     : !q->ib->late_ns || !qp_receives(q->qp) || !keep(q, pkt)) {
		rnr_say(q, now);
		return;
	}
	if (!l->until)
		begin(q, pkt, now);
	else
		qp_await_recv(q->qp, true);
	q->rsp.out_of_order = true;  /* the packets that follow are dropped */
	due_add(q->qp->core, q->qp); /* sets the timer */
}

/* Asks the peer to send again from the expected PSN on, at no cost. */
static void ask_again(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	s->nak = aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	due_add(q->qp->core, q->qp);
}

/* The time is up. Has the QP not been called, although a receive is there? A QP that was
 * called for it may have ended, or its peer is slow to send again. */
static bool is_left_one(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	return now >= q->rsp.late.until && qp_has_recv(q->qp);
}

uint64_t rnr_run(struct ib_qp *q, uint64_t now)
{
	const struct ib_late *l = &q->rsp.late;

	qp_is_held(q->qp);
	if (l->until && (!qp_awaits_recv(q->qp) || is_left_one(q, now)))
		rsp_expected(q, &q->kept->pkt, now); /* a receive was posted */
	if (!l->until)
		return NEVER;
	if (is_over(q, now)) {
		rnr_say(q, now);
		return NEVER;
	}
	return l->until;
}

void rnr_came(struct ib_qp *q, bool accepted)
{
	const bool followed = q->rsp.late.followed;

	rnr_end(q);
	if (!accepted || !followed || !qp_receives(q->qp))
		return;
	q->rsp.out_of_order = true;
	ask_again(q);
}

void rnr_end(struct ib_qp *q)
{
	struct ib_late *l = &q->rsp.late;

	qp_is_held(q->qp);
	if (!l->until)
		return;
	l->until = 0;
	qp_await_no_recv(q->qp);
}
