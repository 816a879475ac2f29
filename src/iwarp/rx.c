/* SPDX-License-Identifier: BSD-2-Clause */
/* rx.c - cuts the stream, received in any pieces, into FPDUs (RFC 5044, 4, 6).
 *
 * Bytes are received into the NIC's buffer; an FPDU that is incomplete at its end waits
 * in the QP's stash, where the next bytes complete it. */
#include <string.h>

#include "iwarp/iw_qp.h"
#include "verbs/due.h"

/* The bytes of the stream that the FPDU at `at` takes, as far as its first n bytes tell:
 * more than n if that is not known yet. */
static size_t fpdu_need(const struct iw_qp *q, const uint8_t *at, size_t n)
{
	/* A marker may stand before the length, but never within it. */
	size_t skip = q->p.markers_in && q->pos == 0 ? MPA_MARKER_LEN : 0, len;

	if (n < skip + MPA_LEN_LEN)
		return skip + MPA_LEN_LEN;
	len = mpa_fpdu_len((size_t)at[skip] << 8 | at[skip + 1]);
	return q->p.markers_in ? mpa_marked_len(len, q->pos) : len;
}

static void bad_fpdu(struct iw_qp *q, enum rdmap_error error, uint64_t now)
	REQUIRES(q->qp->lock)
{
	iw_terminate(q, error, NULL, 0, NULL, IBV_EVENT_QP_REQ_ERR, now);
}

/* The first FPDU of an initiator shows that it is ready. */
static void first_fpdu(struct iw_qp *q)
{
	q->hold = false;
	iw_ready(q);
}

/* Takes in a complete FPDU of n bytes, markers included.  Returns false if it is to come
 * again, since its message waits for a receive. */
static bool take_fpdu(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock)
{
	uint32_t pos = q->pos;
	size_t ulpdu;

	q->pos = (pos + (uint32_t)n) % MPA_MARKER_EVERY;
	if (q->p.crc && !mpa_crc_is(mpa_crc(MPA_CRC_START, at, n - MPA_CRC_LEN),
				    at + n - MPA_CRC_LEN)) {
		bad_fpdu(q, TERM_MPA_CRC, now);
		return true;
	}
	if (q->p.markers_in) {
		ulpdu = pos == 0 ? MPA_MARKER_LEN : 0;
		ulpdu = (size_t)at[ulpdu] << 8 | at[ulpdu + 1];
		if (!mpa_unmark(q->iw->plain, at, mpa_fpdu_len(ulpdu), pos)) {
			bad_fpdu(q, TERM_MPA_MARKER, now);
			return true;
		}
		at = q->iw->plain;
	} else {
		ulpdu = (size_t)at[0] << 8 | at[1];
	}
	if (q->hold)
		first_fpdu(q);
	iw_rsp_segment(q, at + MPA_LEN_LEN, ulpdu, now);
	q->first = false;
	if (q->late.waits) {
		q->pos = pos;
		return false;
	}
	q->qp->tp.traffic.got++;
	q->qp->tp.traffic.got_bytes += n;
	iw_settle(q, now);
	return true;
}

/* Completes the FPDU in the stash with the bytes at `at`.  Returns how many it used. */
static size_t fill_stash(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock)
{
	size_t used = 0;

	for (;;) {
		size_t need = fpdu_need(q, q->stash, q->stash_len), take;

		if (need <= q->stash_len) {
			q->stash_len = 0;
			if (!take_fpdu(q, q->stash, need, now))
				q->stash_len = (uint32_t)need;
			return used;
		}
		take = need - q->stash_len < n - used ? need - q->stash_len : n - used;
		if (take == 0)
			return used;
		memcpy(q->stash + q->stash_len, at + used, take);
		q->stash_len += (uint32_t)take;
		used += take;
	}
}

static void take_all(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
	REQUIRES(q->qp->lock)
{
	if (q->stash_len > 0) {
		size_t used = fill_stash(q, at, n, now);

		at += used;
		n -= used;
	}
	while (n > 0 && q->life == LIFE_OPEN && !q->late.waits) {
		size_t need = fpdu_need(q, at, n);

		if (need > n) {
			memcpy(q->stash, at, n);
			q->stash_len = (uint32_t)n;
			return;
		}
		if (!take_fpdu(q, at, need, now)) {
			memcpy(q->stash, at, need);
			q->stash_len = (uint32_t)need;
		}
		at += need;
		n -= need;
	}
	if (q->late.waits)
		iw_late_keep(q, at, n);
}

void iw_take_in(struct iw_qp *q, const uint8_t *at, size_t n, uint64_t now)
{
	struct qp *qp = q->qp;

	take_all(q, at, n, now);
	if (q->c.resource != q->resources.tail || qp->sq.tail != qp->sq.head ||
	    q->life != LIFE_OPEN || qp->state == IBV_QPS_SQD)
		due_add(qp->core, qp);
}

unsigned iwarp_room(struct qp *qp, struct iovec iov[2])
{
	struct iw_qp *q = iw_qp(qp);
	struct iwarp *iw = q->iw;
	size_t need;

	if (q->life == LIFE_OPEN && q->stash_len > 0) {
		need = fpdu_need(q, q->stash, q->stash_len);
		iov[0] = (struct iovec){ q->stash + q->stash_len, need - q->stash_len };
		iov[1] = (struct iovec){ iw->in, IN };
		return 2;
	}
	iov[0] = (struct iovec){ iw->in, IN };
	return 1;
}

void iwarp_received(struct qp *qp, size_t n, uint64_t now)
{
	struct iw_qp *q = iw_qp(qp);
	struct iovec iov[2];

	qp_is_held(q->qp);
	if (q->life != LIFE_OPEN) /* no longer used */
		return;
	if (iwarp_room(qp, iov) == 2) {
		size_t into = n < iov[0].iov_len ? n : iov[0].iov_len;

		q->stash_len += (uint32_t)into;
		n -= into;
		if (n == 0 && fpdu_need(q, q->stash, q->stash_len) > q->stash_len)
			return;
	}
	iw_take_in(q, q->iw->in, n, now);
}
