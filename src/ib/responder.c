/* SPDX-License-Identifier: BSD-2-Clause */
/* responder.c - requests that come in on an RC QP (IBTA vol. 1, 9.7.4). */
#include "core/due.h"
#include "core/event.h"
#include "core/mr.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "wire/aeth.h"

/* --- answers ------------------------------------------------------------- */

void rsp_nak(struct ib_qp *q, unsigned code, int event, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;

	s->nak = aeth_syndrome(AETH_NAK, code);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	ib_fail(q, false, event, now);
	due_add(q->qp->core, q->qp);
}

static void refused(const struct ib_qp *q, const struct ib_pkt *pkt, const char *why)
{
	log_info("QP 0x%06x: %s from QP 0x%06x, PSN %u, %zu bytes: %s", q->qp->qpn,
		 pkt->op->name, q->qp->attr.dest_qp_num, get_be24(pkt->bth->psn),
		 pkt->payload_len, why);
}

static void nak_invalid(struct ib_qp *q, uint64_t now)
{
	if (q->rsp.have_recv)
		rsp_complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID, now);
	rsp_nak(q, NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR, now);
}

/* C9-68 and others: the request breaks the rules. */
static void invalid(struct ib_qp *q, const struct ib_pkt *pkt, const char *why,
		    uint64_t now)
{
	refused(q, pkt, why);
	nak_invalid(q, now);
}

static void rnr(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	s->nak = aeth_syndrome(AETH_RNR_NAK, q->qp->attr.min_rnr_timer);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	s->out_of_order = true; /* what follows is no gap */
	due_add(q->qp->core, q->qp);
}

static void out_of_order(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	count(q, IB_RX_OUT_OF_ORDER);
	if (s->out_of_order) /* C9-112: one NAK for a gap */
		return;
	s->out_of_order = true;
	s->nak = aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE);
	s->nak_psn = s->epsn;
	s->nak_due = true;
	due_add(q->qp->core, q->qp);
}

/* The request with the expected PSN was carried out. */
static void accept(struct ib_qp *q, const struct ib_pkt *pkt, uint32_t npkts)
{
	struct ib_rsp *s = &q->rsp;

	s->epsn = psn_add(s->epsn, npkts);
	s->prev = pkt->op;
	if (pkt->op->place == IB_LAST || pkt->op->place == IB_ONLY)
		s->msn = psn_add(s->msn, 1);
	/* A gap that is told only now begins here. */
	if (s->nak_due && s->nak == aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE))
		s->nak_psn = s->epsn;
}

/* --- receives ------------------------------------------------------------ */

const struct pd *rsp_pd(const struct ib_qp *q)
{
	return q->qp->srq ? q->qp->srq->pd : q->qp->pd;
}

bool rsp_take_recv(struct ib_qp *q)
{
	struct ib_rsp *s = &q->rsp;

	if (!s->have_recv)
		s->have_recv = qp_pop_recv(q->qp, &s->recv);
	s->filled = 0;
	return s->have_recv;
}

void rsp_complete(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	bool write = pkt->op->kind == IB_WRITE;
	struct cqe cqe = {
		.now = now,
		.status = IBV_WC_SUCCESS,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = (uint32_t)(write ? s->write.len : s->filled),
		.src_qp = q->qp->attr.dest_qp_num,
		.sl = q->qp->av.sl,
	};

	if (pkt->immdt) {
		cqe.flags = IBV_WC_WITH_IMM;
		memcpy(&cqe.imm, pkt->immdt, sizeof(cqe.imm));
	} else if (pkt->ieth) {
		cqe.flags = IBV_WC_WITH_INV;
		cqe.imm = get_be32(pkt->ieth->rkey);
	}
	s->have_recv = false;
	rq_complete(q->qp, &s->recv, &cqe, bth_solicited(pkt->bth));
}

void rsp_complete_error(struct ib_qp *q, enum ibv_wc_status status, enum verr verr,
			uint64_t now)
{
	struct cqe cqe = {
		.now = now,
		.status = (uint8_t)status,
		.opcode = IBV_WC_RECV,
		.vendor_err = verr,
		.src_qp = q->qp->attr.dest_qp_num,
	};

	q->rsp.have_recv = false;
	rq_complete(q->qp, &q->rsp.recv, &cqe, true);
}

void rsp_give_up(struct ib_qp *q, uint64_t now)
{
	if (q->rsp.have_recv && q->qp->srq && q->qp->state != IBV_QPS_ERR)
		rsp_complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID, now);
}

/* --- SEND ---------------------------------------------------------------- */

bool rsp_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	size_t n = pkt->payload_len;

	switch ((enum ib_place)pkt->op->place) {
	case IB_FIRST:
	case IB_MIDDLE:
		return n == q->mtu;
	case IB_LAST:
		return n > 0 && n <= q->mtu;
	case IB_ONLY:
		return n <= q->mtu;
	case IB_PLACES:
		break;
	}
	return false;
}

static void rc_send(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	struct qp *qp = q->qp;
	int rc;

	if (!rsp_length_ok(q, pkt)) {
		invalid(q, pkt, "the length does not fit its place", now);
		return;
	}
	if ((pkt->op->place == IB_FIRST || pkt->op->place == IB_ONLY) &&
	    !rsp_take_recv(q)) {
		rnr(q);
		return;
	}
	if (pkt->payload_len > s->recv.length - s->filled) {
		refused(q, pkt, "longer than the receive that is posted");
		rsp_complete_error(q, IBV_WC_LOC_LEN_ERR, VERR_LOCAL_LENGTH, now);
		rsp_nak(q, NAK_INVALID_REQUEST, -1, now);
		return;
	}
	rc = scatter(qp, rsp_pd(q), s->recv.sge, s->recv.num_sge, s->filled, pkt->payload,
		     (uint32_t)pkt->payload_len);
	if (rc) {
		rsp_complete_error(q, IBV_WC_LOC_PROT_ERR, verr_of(rc), now);
		rsp_nak(q, NAK_REMOTE_OPERATIONAL, -1, now);
		return;
	}
	s->filled += pkt->payload_len;
	if (pkt->ieth &&
	    mkey_invalidate(qp->core, get_be32(pkt->ieth->rkey), qp->pd, qp->qpn) != 0) {
		refused(q, pkt, "the rkey cannot be invalidated");
		rsp_complete_error(q, IBV_WC_REM_INV_REQ_ERR, VERR_INVALIDATE, now);
		rsp_nak(q, NAK_REMOTE_ACCESS, -1, now);
		return;
	}
	accept(q, pkt, 1);
	ack_ask(q, pkt, now);
	if (pkt->op->place == IB_LAST || pkt->op->place == IB_ONLY)
		rsp_complete(q, pkt, now);
}

/* --- WRITE, READ and atomics --------------------------------------------- */

enum mr_why rsp_check(struct ib_qp *q, uint32_t rkey, uint64_t va, uint64_t len,
		      int access, uint8_t **host)
{
	return request_check(q->qp, q->rsp.epsn, rkey, va, len, access, host);
}

static void access_error(struct ib_qp *q, uint64_t now)
{
	if (q->rsp.have_recv)
		rsp_complete_error(q, IBV_WC_LOC_ACCESS_ERR, VERR_REQUEST_ACCESS, now);
	rsp_nak(q, NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR, now);
}

/* 9.7.4.1.5: what the QP does not allow is an invalid request; what the
 * region does not, an access error. */
static bool qp_allows(struct ib_qp *q, const struct ib_pkt *pkt, int access, uint64_t now)
{
	if ((q->qp->attr.qp_access_flags & (unsigned)access) == (unsigned)access)
		return true;
	invalid(q, pkt, "not among the QP's qp_access_flags", now);
	return false;
}

static bool begin_write(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib_rsp *s = &q->rsp;
	uint8_t *host;

	s->write.va = get_be64(pkt->reth->va);
	s->write.rkey = get_be32(pkt->reth->rkey);
	s->write.len = s->write.left = get_be32(pkt->reth->len);
	if (!qp_allows(q, pkt, IBV_ACCESS_REMOTE_WRITE, now))
		return false;
	if (s->write.len > IB_MAX_DMA) {
		invalid(q, pkt, "longer than 2^31 bytes", now);
		return false;
	}
	if (s->write.len > 0 && rsp_check(q, s->write.rkey, s->write.va, s->write.len,
					  IBV_ACCESS_REMOTE_WRITE, &host) != MR_OK) {
		access_error(q, now);
		return false;
	}
	return true;
}

static bool write_length_ok(const struct ib_qp *q, const struct ib_pkt *pkt)
{
	bool last = pkt->op->place == IB_LAST || pkt->op->place == IB_ONLY;
	uint32_t left = q->rsp.write.left;

	return rsp_length_ok(q, pkt) &&
	       (last ? pkt->payload_len == left : pkt->payload_len < left);
}

/* The bytes of one packet.  False: the QP has failed. */
static bool place_write(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	uint32_t n = (uint32_t)pkt->payload_len;
	struct ib_rsp *s = &q->rsp;
	uint8_t *host;

	if (n == 0)
		return true;
	/* Again for every packet: the region may be gone meanwhile. */
	if (rsp_check(q, s->write.rkey, s->write.va, n, IBV_ACCESS_REMOTE_WRITE, &host) !=
	    MR_OK) {
		access_error(q, now);
		return false;
	}
	if (mr_write(q->qp->core, s->write.rkey, host, pkt->payload, n) != 0) {
		refused(q, pkt, "the region's memory is not mapped");
		rsp_nak(q, NAK_REMOTE_OPERATIONAL, IBV_EVENT_QP_ACCESS_ERR, now);
		return false;
	}
	s->write.va += n;
	s->write.left -= n;
	return true;
}

static void rc_write(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	if (pkt->reth && !begin_write(q, pkt, now))
		return;
	if (!write_length_ok(q, pkt)) {
		invalid(q, pkt, "the length is not what the RETH says", now);
		return;
	}
	if (pkt->immdt && !rsp_take_recv(q)) {
		rnr(q);
		return;
	}
	if (!place_write(q, pkt, now))
		return;
	accept(q, pkt, 1);
	ack_ask(q, pkt, now);
	if (pkt->immdt)
		rsp_complete(q, pkt, now);
}

static bool too_many(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	if (rsp_owing(&q->rsp) < q->qp->attr.max_dest_rd_atomic) {
		/* Full of duplicates: not the peer's fault; it will ask again. */
		if (q->rsp.resources == RD_MAX)
			count(q, IB_RX_STALE);
		return q->rsp.resources == RD_MAX;
	}
	invalid(q, pkt, "more READs and atomics than max_dest_rd_atomic", now);
	return true;
}

static void rc_read(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	struct resource t = {
		.psn = q->rsp.epsn,
		.va = get_be64(pkt->reth->va),
		.rkey = get_be32(pkt->reth->rkey),
		.len = get_be32(pkt->reth->len),
		.msn = psn_add(q->rsp.msn, 1),
	};
	uint8_t *host;

	if (!qp_allows(q, pkt, IBV_ACCESS_REMOTE_READ, now))
		return;
	if (t.len > IB_MAX_DMA || pkt->payload_len > 0) {
		invalid(q, pkt, "longer than 2^31 bytes, or with payload", now);
		return;
	}
	if (t.len > 0 &&
	    rsp_check(q, t.rkey, t.va, t.len, IBV_ACCESS_REMOTE_READ, &host) != MR_OK) {
		access_error(q, now);
		return;
	}
	t.npkts = t.len ? (t.len - 1) / q->mtu + 1 : 1;
	if (too_many(q, pkt, now))
		return;
	rsp_owe(q, &t);
	accept(q, pkt, t.npkts);
}

static int execute(struct core *core, const struct ib_pkt *pkt, uint64_t *at,
		   uint64_t *orig)
{
	uint64_t swap_add = get_be64(pkt->atomiceth->swap_add);
	uint32_t rkey = get_be32(pkt->atomiceth->rkey);

	if (pkt->op->kind == IB_FETCH_ADD)
		return mr_fetch_add(core, rkey, at, swap_add, orig);
	return mr_cmp_swap(core, rkey, at, get_be64(pkt->atomiceth->compare), swap_add,
			   orig);
}

static void rc_atomic(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	uint64_t va = get_be64(pkt->atomiceth->va);
	struct resource t = {
		.psn = q->rsp.epsn,
		.npkts = 1,
		.atomic = true,
		.msn = psn_add(q->rsp.msn, 1),
	};
	uint8_t *host;

	if (!qp_allows(q, pkt, IBV_ACCESS_REMOTE_ATOMIC, now))
		return;
	if (va & 7 || pkt->payload_len > 0) { /* 9.4.5 */
		invalid(q, pkt, "not aligned to 8 bytes, or with payload", now);
		return;
	}
	if (rsp_check(q, get_be32(pkt->atomiceth->rkey), va, 8, IBV_ACCESS_REMOTE_ATOMIC,
		      &host) != MR_OK) {
		access_error(q, now);
		return;
	}
	if ((uintptr_t)host & 7) { /* an iova that is skewed */
		invalid(q, pkt, "not aligned to 8 bytes in memory", now);
		return;
	}
	if (too_many(q, pkt, now))
		return;
	if (execute(q->qp->core, pkt, (uint64_t *)(void *)host, &t.orig) != 0) {
		refused(q, pkt, "the region's memory is not mapped");
		rsp_nak(q, NAK_REMOTE_OPERATIONAL, IBV_EVENT_QP_ACCESS_ERR, now);
		return;
	}
	rsp_save_atomic(q, t.psn, t.orig);
	rsp_owe(q, &t);
	accept(q, pkt, 1);
}

/* --- */

static void expected(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	q->rsp.healed |= q->rsp.out_of_order;
	q->rsp.out_of_order = false;
	if (q->rsp.nak_due && aeth_type(q->rsp.nak) == AETH_RNR_NAK)
		q->rsp.nak_due = false;
	if (!ib_may_follow(q->rsp.prev, pkt->op)) {
		invalid(q, pkt, "out of place in its message", now);
		return;
	}
	switch ((enum ib_kind)pkt->op->kind) {
	case IB_SEND:
		rc_send(q, pkt, now);
		return;
	case IB_WRITE:
		rc_write(q, pkt, now);
		return;
	case IB_READ:
		rc_read(q, pkt, now);
		return;
	case IB_CMP_SWAP:
	case IB_FETCH_ADD:
		rc_atomic(q, pkt, now);
		return;
	case IB_ATOMIC_WRITE:
	case IB_FLUSH:
		invalid(q, pkt, "an operation that is not supported", now);
		return;
	case IB_READ_RESP:
	case IB_ATOMIC_RESP:
	case IB_ACK:
	case IB_CONGESTION:
	case IB_KINDS:
		return;
	}
}

void rc_request(struct ib_qp *q, const struct ib_pkt *pkt, uint64_t now)
{
	int32_t ahead = psn_diff(get_be24(pkt->bth->psn), q->rsp.epsn);

	if (ahead > 0)
		out_of_order(q);
	else if (ahead < 0)
		rsp_duplicate(q, pkt);
	else
		expected(q, pkt, now);
}

void rc_reserved(struct ib_qp *q, const struct bth *bth, uint64_t now)
{
	if (get_be24(bth->psn) != q->rsp.epsn)
		return;
	log_info("QP 0x%06x: opcode 0x%02x from QP 0x%06x, PSN %u: it is reserved",
		 q->qp->qpn, bth->opcode, q->qp->attr.dest_qp_num, q->rsp.epsn);
	nak_invalid(q, now);
}
