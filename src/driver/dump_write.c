/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_write.c - writes the objects of a NIC as text with marked values (sys/mark.h).
 *
 * It writes in pieces with other turns in between; objects destroyed meanwhile are left
 * out. QPs and connections stay while the turn is held. All other objects are found in
 * the table of live objects, which is locked for part of a piece. A lock that protects
 * an object's numbers is only tried, because its holder may wait for that table.
 */
#include <inttypes.h>
#include <stdio.h>

#include "driver/dump.h"
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
	PLACES = 4096,	/* number of indices for QPs */
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

static void end_kind(struct dump_text *d, const char *name)
{
	if (d->more)
		fprintf(d->out, "more: {count=%u} of {kind=%s}\n", d->more, name);
	d->lines = d->more = 0;
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

	if (cq->core != d->core || !room(d))
		return;
	fprintf(d->out, "cq {handle=%u}: ", cq->ex.handle);
	if (!brief_try(&cq->lock)) {
		fputs("{lock=busy}\n", d->out);
		return;
	}
	fprintf(d->out,
		"entries {entries=%u} of {size=%u}, armed {armed=%s}%s, "
		"used by {users=%u} work queues\n",
		cq->head - cq->tail, cq->cap, armed[cq_armed(cq)],
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

	if (srq->core != d->core || !room(d))
		return;
	fprintf(d->out, "srq {number=0x%06x}: ", srq->num);
	if (!lock_try(&srq->lock)) {
		fputs("{lock=busy}\n", d->out);
		return;
	}
	fprintf(d->out, "receives {receives=%u} of {size=%u}",
		srq_rq(srq)->head - srq_rq(srq)->tail, srq_rq(srq)->cap);
	not_returned(d, "not_returned", srq_rq(srq)->tail - srq_rq(srq)->returned);
	fprintf(d->out, ", limit {limit=%u}, pd {pd=%u}, used by {users=%u} QPs\n",
		srq->limit, srq->pd->ibv.handle, atomic_load(&srq->users));
	lock_give(&srq->lock);
}

static const struct {
	enum live_kind kind;
	void (*show)(struct live *l, void *arg);
	const char *name;
} kinds[] = {
	{ LIVE_PD, show_pd, "pd" }, { LIVE_MR, show_mr, "mr" },
	{ LIVE_MW, show_mw, "mw" }, { LIVE_AH, show_ah, "ah" },
	{ LIVE_CQ, show_cq, "cq" }, { LIVE_SRQ, show_srq, "srq" },
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

static void show_qp(struct dump_text *d, struct qp *qp)
{
	char ip[INET6_ADDRSTRLEN], text[640] = "";

	if (!room(d))
		return;
	fprintf(d->out, "qp {number=0x%06x}: ", qp->qpn);
	if (!lock_try(&qp->lock)) {
		fputs("{lock=busy}\n", d->out);
		return;
	}
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
	if (qp->transport->describe && qp->state >= IBV_QPS_RTR)
		qp->transport->describe(qp, text, sizeof(text));
	if (*text)
		fprintf(d->out, "    %s\n", text);
	lock_give(&qp->lock);
}

/* Returns false when all QPs have been shown. */
static bool show_qps(struct dump_text *d)
{
	const uint64_t end = d->at + PLACES < QPN_INDICES ? d->at + PLACES : QPN_INDICES;

	for (unsigned shown = 0; d->at < end && shown < PIECE; d->at++) {
		struct qp *qp = numbers_at(&d->core->qps, (uint32_t)d->at);

		if (!qp)
			continue;
		show_qp(d, qp);
		shown++;
	}
	return d->at < QPN_INDICES;
}

void dump_begin(struct dump_text *d, struct core *core, struct cm *cm, FILE *out)
{
	*d = (struct dump_text){ .core = core, .cm = cm, .out = out };
	fprintf(out, "slot {slot=%u}\n", core->slot);
}

bool dump_go_on(struct dump_text *d)
{
	const unsigned n = sizeof(kinds) / sizeof(kinds[0]);

	if (d->kind < n &&
	    live_next(kinds[d->kind].kind, &d->at, PIECE, kinds[d->kind].show, d))
		return true;
	if (d->kind == n && show_qps(d))
		return true;
	if (d->kind > n)
		return d->cm && cm_describe(d->cm, &d->place, d->out);
	end_kind(d, d->kind < n ? kinds[d->kind].name : "qp");
	d->kind++;
	d->at = 0;
	return true;
}
