/* SPDX-License-Identifier: BSD-2-Clause */
/* rnr.c - a message that finds no receive (IBTA vol. 1, 9.7.5.2.8).  The responder waits
 * a little before it answers with an RNR NAK: programs that were written on an RNIC, and
 * whose receives come just in time there, would fail otherwise.
 *
 * The packet that needs the receive is kept, and those behind it are dropped as behind a
 * gap.  When a receive is posted (verbs/await.h), the kept packet is executed, and a NAK
 * asks for what was dropped. */
#include <string.h>

#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/alloc.h"
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

struct kept {
	struct ib_pkt pkt;
	uint8_t payload[4096]; /* the largest MTU */
};

static bool keep_packet(struct ib_qp *q, const struct ib_pkt *pkt)
{
	struct kept *k = q->kept;

	if (pkt->payload_len > sizeof(k->payload))
		return false;
	if (!k)
		k = q->kept = turn_alloc(sizeof(*k));
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

/* Has the peer heard RNR for the message? Then it need not be kept from that, and the
 * short wait costs it no retry whatever its timeout is. */
static bool is_refused(const struct ib_qp *q)
{
	const struct ib_late *l = &q->rsp.late;

	return l->refused && l->refused_psn == q->rsp.epsn;
}

void rnr_begin(struct ib_qp *q, const struct ib_pkt *pkt, struct recv_wait *w,
	       uint64_t now)
{
	const uint64_t ns = recv_wait_begin(w, q->qp, is_refused(q), now);
	struct ib_late *l = &q->rsp.late;
	char from[IB_PEER_LEN];

	count(q, IB_RX_LATE);
	if (!l->told)
		log_info("QP 0x%06x: %s from %s, PSN %u: no receive is posted; "
			 "waits %u us for one before it says RNR",
			 q->qp->qpn, pkt->op->name, ib_peer_text(q, from), pkt->f.psn,
			 (unsigned)(ns / 1000));
	l->told = true;
}

static void begin_late(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
	REQUIRES(q->qp->lock)
{
	struct ib_late *l = &q->rsp.late;

	rnr_begin(q, pkt, &l->wait, now);
	l->followed = false;
	l->last = now;
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
	return ++l->again >= URGED && now - l->wait.since < URGED_NS;
}

/* Is the time up for the message that waits? */
static bool is_over(struct ib_qp *q, uint64_t now) REQUIRES(q->qp->lock)
{
	return recv_wait_is_over(&q->rsp.late.wait, q->qp, is_refused(q), now);
}

void rnr_late(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_late *l = &q->rsp.late;

	if (l->wait.until ? is_over(q, now) || is_urged(q, pkt, now)
			  : !q->qp->core->recv_wait_ns || !qp_receives(q->qp) ||
				    !keep_packet(q, pkt)) {
		rnr_say(q, now);
		return;
	}
	if (!l->wait.until)
		begin_late(q, pkt, now);
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
	return now >= q->rsp.late.wait.until && qp_has_recv(q->qp);
}

uint64_t rnr_run(struct ib_qp *q, uint64_t now)
{
	const struct ib_late *l = &q->rsp.late;

	qp_is_held(q->qp);
	if (l->wait.until && (!qp_awaits_recv(q->qp) || is_left_one(q, now)))
		rsp_expected(q, &q->kept->pkt, now); /* a receive was posted */
	if (!l->wait.until)
		return NEVER;
	if (is_over(q, now)) {
		rnr_say(q, now);
		return NEVER;
	}
	return l->wait.until;
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
	if (!l->wait.until)
		return;
	l->wait.until = 0;
	qp_await_no_recv(q->qp);
}
