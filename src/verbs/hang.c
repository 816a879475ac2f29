/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.c - see hang.h. */
#include "verbs/hang.h"

#include "sys/log.h"
#include "verbs/timeout.h"
#include "verbs/wr_op.h"

/* What ends earlier, or happens less often, is no hang; what pauses longer is another
 * one. */
enum { HANG_NS = 1000000000, HANG_LEAST = 3, HANG_PAUSES = 4 };

bool hang_seen(struct hang *h, uint32_t at, uint64_t now)
{
	if (!h->n || h->at != at || now - h->last > (uint64_t)HANG_PAUSES * HANG_NS)
		*h = (struct hang){ .at = at, .since = now, .said = h->said };
	h->n++;
	h->last = now;
	if (h->said || h->n < HANG_LEAST || now - h->since < HANG_NS)
		return false;
	h->said = true;
	return true;
}

void hang_tell_rnr(const struct qp *qp, uint32_t psn, const char *peer)
{
	log_hint("QP 0x%06x: for 1 s the peer has had no receive for PSN %u (RNR), and "
		 "%u send requests wait here: does %s post receives?",
		 qp->qpn, psn, qp->sq.head - qp->sq.tail, peer);
}

void hang_tell_silence(struct qp *qp, uint32_t psn, const char *peer)
{
	log_hint("QP 0x%06x: for 1 s nothing has come from %s, to which a request (%s, "
		 "PSN %u) was sent again and again: does its process run, and are QP "
		 "number, address and PSNs right?%s",
		 qp->qpn, peer, wr_op(sq_at(&qp->sq, qp->sq.tail)->opcode)->name, psn,
		 ack_timeout_ns(qp) ? "" : " (timeout 0: this QP never gives up)");
}

void hang_tell_no_recv(const struct qp *qp, uint32_t psn, const char *peer)
{
	log_hint("QP 0x%06x: for 1 s there has been no receive here for a message (PSN "
		 "%u, answered with RNR) from %s: post receives",
		 qp->qpn, psn, peer);
}

void hang_tell_number(const struct qp *qp, uint32_t expected, uint32_t got,
		      const char *peer)
{
	log_hint("QP 0x%06x: for 1 s PSNs have been refused: %u is expected here, and %u "
		 "came from %s: is rq_psn here the peer's sq_psn?",
		 qp->qpn, expected, got, peer);
}
