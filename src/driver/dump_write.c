/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_write.c - writes the objects of a NIC as text with marked values (sys/mark.h).
 *
 * It writes in pieces with other turns in between; objects destroyed meanwhile are left
 * out. QPs and connections stay while the turn is held. All other objects are found in
 * the table of live objects, which is locked for part of a piece. A lock that protects
 * an object's numbers is only tried, because its holder may wait for that table. It is
 * tried for some microseconds, and if a thread holds it longer, again after the other
 * objects, up to AGAIN times: by then another processor may have run that thread.
 */
#include <inttypes.h>
#include <stdio.h>

#include "driver/dump.h"
#include "raw/packet.h"
#include "shm/shm.h"
#include "sys/addr.h"
#include "sys/list.h"
#include "sys/live.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/qp_kind.h"
#include "verbs/qp_state.h"
#include "verbs/rq.h"
#include "verbs/transport.h"

enum {
	MOST = 1 << 16, /* objects of a kind: an asker accepts 128 MiB of text */
	PIECE = 32,	/* objects shown in a turn: about 0.1 ms */
	PIECE_QPS = 12, /* QPs, which have more lines */
	PLACES = 4096,	/* number of indices for QPs */
	TRIES = 200,	/* of a lock, some 10 us */
	AGAIN = 400,	/* rounds, with 50 us between them at least */
};

static bool room(struct dump_text *d)
{
	if (d->lines >= MOST) {
		d->more++;
		return false;
	}
	d->lines++;
	return true;
}

/* --- objects that are locked --------------------------------------------- */

/* In a round of looking again, is the object one of those? */
static bool is_wanted(const struct dump_text *d, const void *object)
{
	if (!d->again)
		return true;
	for (unsigned i = 0; i < d->nheld; i++)
		if (d->held[i] == object)
			return true;
	return false;
}

static void was_shown(struct dump_text *d, const void *object)
{
	for (unsigned i = 0; i < d->nheld; i++)
		if (d->held[i] == object)
			d->held[i] = d->held[--d->nheld];
}

/* The object's lock is taken. Returns true if it will be looked at again. */
static bool comes_again(struct dump_text *d, const void *object)
{
	if (d->again == AGAIN)
		return false;
	if (d->again)
		return true;
	if (d->nheld == DUMP_HELD)
		return false;
	d->held[d->nheld++] = object;
	return true;
}

static NO_TSA bool try_brief(struct brief_lock *l) TRY_ACQUIRES(true, *l)
{
	for (unsigned i = 0; i < TRIES; i++) {
		if (brief_try(l))
			return true;
		lock_pause();
	}
	return false;
}

static NO_TSA bool try_lock(struct lock *l) TRY_ACQUIRES(true, *l)
{
	for (unsigned i = 0; i < TRIES; i++) {
		if (lock_try(l))
			return true;
		lock_pause();
	}
	return false;
}

/* --- what is in the table of what lives ---------------------------------- */

static void show_pd(struct live *l, void *arg)
{
	const struct pd *pd = container_of(l, struct pd, live);
	struct dump_text *d = arg;

	if (pd->core == d->core && room(d))
		fprintf(d->out, "pd {handle=%u}: used by {users=%u} objects\n",
			pd->ibv.handle, atomic_load(&pd->users));
}

static void show_mr(struct live *l, void *arg)
{
	const struct mr *mr = container_of(l, struct mr, live);
	const struct mkey *k = &mr->mkey;
	struct dump_text *d = arg;

	if (mr->core == d->core && !mr->imported && room(d))
		fprintf(d->out,
			"mr key {key=0x%08x}: {length=%" PRIu64
			"} bytes at {address=0x%" PRIx64 "} (here {here=0x%" PRIxPTR
			"}), access {access=0x%x}, pd {pd=%u}, windows {windows=%u}\n",
			k->key, k->length, k->base, (uintptr_t)k->host,
			(unsigned)k->access, k->pd ? k->pd->ibv.handle : 0,
			atomic_load(&k->windows) & ~WINDOWS_NONE);
}

static void show_mw(struct live *l, void *arg)
{
	const struct mw *mw = container_of(l, struct mw, live);
	const struct mkey *k = &mw->mkey;
	struct dump_text *d = arg;

	if (mw->core != d->core || !room(d))
		return;
	fprintf(d->out, "mw key {key=0x%08x}: type {type=%d}", k->key, (int)mw->ibv.type);
	if (k->valid)
		fprintf(d->out,
			", {length=%" PRIu64 "} bytes at {address=0x%" PRIx64
			"}, access {access=0x%x}, QP {qp=0x%06x}\n",
			k->length, k->base, (unsigned)k->access, k->qpn);
	else
		fputs(", not bound\n", d->out);
}

static void show_ah(struct live *l, void *arg)
{
	const struct ah *ah = container_of(l, struct ah, live);
	char ip[INET6_ADDRSTRLEN];
	struct dump_text *d = arg;

	if (ah->pd->core == d->core && room(d))
		fprintf(d->out,
			"ah {handle=%u}: to {to=%s}, sgid_index {sgid_index=%u}, pd {pd=%u}\n",
			ah->ibv.handle, addr_text(ah->attr.grh.dgid.raw, ip),
			ah->attr.grh.sgid_index, ah->pd->ibv.handle);
}

static void show_cq(struct live *l, void *arg)
{
	static const char *const armed[] = { "no", "for solicited", "yes" };
	struct cq *cq = container_of(l, struct cq, live);
	struct dump_text *d = arg;

	if (cq->core != d->core || !is_wanted(d, cq))
		return;
	if (!try_brief(&cq->lock)) {
		if (!comes_again(d, cq) && room(d))
			fprintf(d->out, "cq {handle=%u}: {lock=busy}\n", cq->ex.handle);
		return;
	}
	was_shown(d, cq);
	if (!room(d)) {
		brief_give(&cq->lock);
		return;
	}
	fprintf(d->out,
		"cq {handle=%u}: entries {entries=%u} of {size=%u}, armed {armed=%s}%s, "
		"used by {users=%u} work queues\n",
		cq->ex.handle, cq->head - cq->tail, cq->cap, armed[cq_armed(cq)],
		cq->overrun ? ", {state=overrun}" : "", atomic_load(&cq->users));
	brief_give(&cq->lock);
}

/* Requests that still occupy places although they are executed: docs/dev/queues.md. */
static void not_returned(struct dump_text *d, const char *name, uint32_t n)
{
	if (n)
		fprintf(d->out, " ({%s=%u} more not returned)", name, n);
}

static void show_srq(struct live *l, void *arg)
{
	struct srq *srq = container_of(l, struct srq, live);
	struct dump_text *d = arg;

	if (srq->core != d->core || !is_wanted(d, srq))
		return;
	if (!try_lock(&srq->lock)) {
		if (!comes_again(d, srq) && room(d))
			fprintf(d->out, "srq {number=0x%06x}: {lock=busy}\n", srq->num);
		return;
	}
	was_shown(d, srq);
	if (!room(d)) {
		lock_give(&srq->lock);
		return;
	}
	fprintf(d->out, "srq {number=0x%06x}: receives {receives=%u} of {size=%u}",
		srq->num, srq_rq(srq)->head - srq_rq(srq)->tail, srq_rq(srq)->cap);
	not_returned(d, "not_returned", srq_rq(srq)->tail - srq_rq(srq)->returned);
	fprintf(d->out, ", limit {limit=%u}, pd {pd=%u}, used by {users=%u} QPs\n",
		srq->limit, srq->pd->ibv.handle, atomic_load(&srq->users));
	lock_give(&srq->lock);
}

static const struct {
	enum live_kind kind;
	void (*show)(struct live *l, void *arg);
	const char *name;
} of_kind[] = {
	[DUMP_PD] = { LIVE_PD, show_pd, "pd" },
	[DUMP_MR] = { LIVE_MR, show_mr, "mr" },
	[DUMP_MW] = { LIVE_MW, show_mw, "mw" },
	[DUMP_AH] = { LIVE_AH, show_ah, "ah" },
	[DUMP_CQ] = { LIVE_CQ, show_cq, "cq" },
	[DUMP_SRQ] = { LIVE_SRQ, show_srq, "srq" },
};

/* --- queue pairs --------------------------------------------------------- */

static void show_queues(struct dump_text *d, const struct qp *qp)
{
	if (!qp->send_cq) {
		fputs("    receives: the SRQ that a request names\n", d->out);
		return;
	}
	fprintf(d->out, "    send queue: {sends=%u} of {send_size=%u}",
		qp->sq.head - qp->sq.tail, qp->sq.cap);
	not_returned(d, "sends_not_returned", qp->sq.tail - qp->sq.returned);
	if (qp->srq) {
		fprintf(d->out, "; receives: srq {srq=0x%06x}", qp->srq->num);
	} else {
		fprintf(d->out, "; receive queue: {receives=%u} of {receive_size=%u}",
			qp->rq.head - qp->rq.tail, qp->rq.cap);
		not_returned(d, "receives_not_returned", qp->rq.tail - qp->rq.returned);
	}
	fprintf(d->out, "; pd {pd=%u}, cq {send_cq=%u}", qp->pd->ibv.handle,
		qp->send_cq->ex.handle);
	if (qp->recv_cq)
		fprintf(d->out, " and {receive_cq=%u}", qp->recv_cq->ex.handle);
	fputc('\n', d->out);
}

/* What carries the QP's packets. */
static const char *carrier(const struct qp *qp)
{
	if (qp->transport == &shm_transport)
		return atomic_load(&qp->tp.at_once) ? "mapped" : "ring";
	if (qp->transport == &packet_transport)
		return qp->transport->name;
	switch (qp->dev->kind->id) {
	case KIND_ROCE:
		break;
	case KIND_IB:
		return "fabric";
	case KIND_IWARP:
		return "tcp";
	}
	return "udp";
}

static void show_counts(struct dump_text *d, struct qp *qp)
{
	struct qp_past *p = &qp->past;
	struct traffic all = p->traffic;
	const uint32_t received = qp->srq ? qp->recv.srqs : qp->rq.tail;

	traffic_add(&all, &qp->tp.traffic);
	fprintf(d->out,
		"    requests: posted {posted=%" PRIu64 "}, completed {completed=%" PRIu64
		"}; received {received=%" PRIu64 "}; by {by=%s}: sent {sent=%" PRIu64
		"} of {sent_bytes=%" PRIu64 "} bytes, came in {came=%" PRIu64
		"} of {came_bytes=%" PRIu64 "} bytes; mapped {mapped=%" PRIu64
		"} of {mapped_bytes=%" PRIu64 "} bytes, copies {copies=%" PRIu64
		"} of {copied_bytes=%" PRIu64 "} bytes\n",
		qp_posted(qp), qp_follow(&p->completed, qp->sq.tail),
		qp_follow(&p->received, received), carrier(qp), all.sent, all.sent_bytes,
		all.got, all.got_bytes, all.done, all.done_bytes, p->copied,
		p->copied_bytes);
	fprintf(d->out,
		"    sent again {sent_again=%" PRIu64 "}, timeouts {timeouts=%" PRIu64
		"}, RNR in {rnr_in=%" PRIu64 "} and out {rnr_out=%" PRIu64
		"}, NAK in {nak_in=%" PRIu64 "} and out {nak_out=%" PRIu64
		"}, came too early {early=%" PRIu64 "}, again {duplicates=%" PRIu64
		"}, out of order {out_of_order=%" PRIu64 "}\n",
		p->event[IB_TX_RETRANSMIT], p->event[IB_TX_TIMEOUT], p->event[IB_RX_RNR],
		p->event[IB_TX_RNR], p->event[IB_RX_NAK], p->event[IB_TX_NAK],
		p->event[IB_RX_LATE], p->event[IB_RX_DUPLICATE],
		p->event[IB_RX_OUT_OF_ORDER]);
}

/* Returns false if its lock is taken: it is looked at again in the next piece. */
static bool show_qp(struct dump_text *d, struct qp *qp)
{
	char ip[INET6_ADDRSTRLEN], text[640] = "";

	if (!try_lock(&qp->lock)) {
		if (d->again++ < AGAIN)
			return false;
		d->again = 0;
		if (room(d))
			fprintf(d->out, "qp {number=0x%06x}: {lock=busy}\n", qp->qpn);
		return true;
	}
	d->again = 0;
	if (!room(d)) {
		lock_give(&qp->lock);
		return true;
	}
	fprintf(d->out, "qp {number=0x%06x}: ", qp->qpn);
	fprintf(d->out, "{type=%s} {state=%s} on {device=%s}, {way=%s}", qp->kind->name,
		qp_state_name(qp->state), qp->dev->ibv.name, qp->transport->name);
	if (qp->type != IBV_QPT_UD && qp->state >= IBV_QPS_RTR && qp->attr.dest_qp_num)
		fprintf(d->out, " to QP {peer_qp=0x%06x} at {peer=%s}",
			qp->attr.dest_qp_num,
			addr_text(qp->attr.ah_attr.grh.dgid.raw, ip));
	fputs(qp->builder.active ? ", {building=between ibv_wr_start and its end}\n"
				 : "\n",
	      d->out);
	show_queues(d, qp);
	show_counts(d, qp);
	if (qp->transport->describe && qp->state >= IBV_QPS_RTR)
		qp->transport->describe(qp, text, sizeof(text));
	if (*text)
		fprintf(d->out, "    %s\n", text);
	lock_give(&qp->lock);
	return true;
}

/* Returns false when all QPs have been shown. */
static bool show_qps(struct dump_text *d)
{
	const uint64_t end = d->at + PLACES < QPN_INDICES ? d->at + PLACES : QPN_INDICES;

	for (unsigned shown = 0; d->at < end && shown < PIECE_QPS; d->at++) {
		struct qp *qp = numbers_at(&d->core->qps, (uint32_t)d->at);

		if (!qp)
			continue;
		if (!show_qp(d, qp))
			return true;
		shown++;
	}
	return d->at < QPN_INDICES;
}

void dump_begin(struct dump_text *d, struct core *core, struct cm *cm, uint32_t kinds,
		FILE *out)
{
	*d = (struct dump_text){ .core = core, .cm = cm, .out = out, .kinds = kinds };
	fprintf(out, "slot {slot=%u}\n", core->slot);
}

static bool is_asked_for(const struct dump_text *d)
{
	return d->kinds >> d->kind & 1;
}

/* One piece of the present kind. Returns false at its end. */
static bool show_some(struct dump_text *d)
{
	if (d->kind == DUMP_CM)
		return d->cm && cm_describe(d->cm, &d->place, d->out);
	if (d->kind == DUMP_QP)
		return show_qps(d);
	if (live_next(of_kind[d->kind].kind, &d->at, PIECE, of_kind[d->kind].show, d))
		return true;
	if (!d->nheld || d->again == AGAIN)
		return false;
	d->again++;
	d->at = 0;
	return true;
}

static void end_kind(struct dump_text *d)
{
	if (d->more)
		fprintf(d->out, "more: {count=%u} of {kind=%s}\n", d->more,
			d->kind == DUMP_QP ? "qp" : of_kind[d->kind].name);
	d->lines = d->more = d->nheld = d->again = 0;
	d->at = 0;
}

bool dump_go_on(struct dump_text *d)
{
	if (d->kind < DUMP_KINDS && is_asked_for(d) && show_some(d))
		return true;
	if (d->kind < DUMP_CM)
		end_kind(d);
	do
		d->kind++;
	while (d->kind < DUMP_KINDS && !is_asked_for(d));
	return d->kind < DUMP_KINDS;
}
