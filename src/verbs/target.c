/* SPDX-License-Identifier: BSD-2-Clause */
/* target.c - see target.h. */
#include "verbs/target.h"

#include <stdio.h>

#include "sys/checks.h"
#include "verbs/core.h"
#include "verbs/failure.h"
#include "verbs/flush.h"
#include "verbs/order.h"
#include "verbs/qp.h"
#include "verbs/sgl.h"
#include "verbs/srq_hooks.h"

/* Per refusal: its text in the log; the completion status of the current receive
 * (SUCCESS: it is not completed); the event of an RC QP that fails by it, or -1; and the
 * NAK that such a QP answers with (IBTA table 60), or NAK_CODES: none. */
/* clang-format off */
static const struct {
	const char *why;
	enum ibv_wc_status status;
	enum verr verr;
	int event;
	enum nak_code nak;
} refusals[REFUSALS] = {
#define ROW(name, why, status, verr, event, nak) \
	[REFUSED_##name] = { why, IBV_WC_##status, verr, event, nak },
	ROW(NO_RECV,    "no receive is posted",                                SUCCESS,         VERR_NONE,            -1,                      NAK_CODES)
	ROW(RECV_SHORT, "longer than the receive that is posted",              LOC_LEN_ERR,     VERR_LOCAL_LENGTH,    -1,                      NAK_INVALID_REQUEST)
	ROW(RECV_SGE,   "the receive's own memory cannot be written to",       LOC_PROT_ERR,    VERR_LOCAL_KEY,       -1,                      NAK_REMOTE_OPERATIONAL)
	ROW(INVALIDATE, "the rkey cannot be invalidated",                      REM_INV_REQ_ERR, VERR_INVALIDATE,      -1,                      NAK_CODES)
	ROW(PLACE,      "the packet is out of place in its message",           REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(LENGTH,     "the length is not that of the operation",             REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(TOO_LONG,   "longer than 2^31 bytes",                              REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(OPERATION,  "not among the QP's qp_access_flags",                  REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(ALIGNMENT,  "the address is not aligned to 8 bytes",               REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(TOO_MANY,   "more READs and atomics than max_dest_rd_atomic",      REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
	ROW(KEY,        "the key does not allow the access",                   LOC_ACCESS_ERR,  VERR_REQUEST_ACCESS,  IBV_EVENT_QP_ACCESS_ERR, NAK_REMOTE_ACCESS)
	ROW(MEMORY,     "the region's memory is not mapped",                   LOC_ACCESS_ERR,  VERR_REQUEST_ACCESS,  IBV_EVENT_QP_ACCESS_ERR, NAK_REMOTE_OPERATIONAL)
	ROW(SRQ,        "the QP's domain has no SRQ of that number",           REM_INV_REQ_ERR, VERR_REQUEST_INVALID, IBV_EVENT_QP_REQ_ERR,    NAK_INVALID_REQUEST)
#undef ROW
};
/* clang-format on */

/* --- receives ------------------------------------------------------------ */

enum refusal target_take_recv(struct qp *qp, struct target *t)
{
	if (!t->have_recv)
		t->have_recv = qp_pop_recv(qp, &t->recv);
	t->filled = 0;
	return t->have_recv ? ACCEPTED : REFUSED_NO_RECV;
}

enum refusal target_begin_send(struct qp *qp, struct target *t, const void *data,
			       uint32_t n, bool whole, uint32_t *skip)
{
	*skip = 0;
	if (qp->hooks && !t->have_recv)
		return qp->hooks->begin(qp, t, data, n, whole, skip);
	return target_take_recv(qp, t);
}

enum refusal target_fill_recv(struct qp *qp, struct target *t, const void *data,
			      uint32_t len)
{
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	int rc;

	if (len > t->recv.length - t->filled)
		return REFUSED_RECV_SHORT;
	rc = scatter(qp, pd, t->recv.sge, t->recv.num_sge, t->filled, data, len);
	if (rc) {
		t->refused.verr = verr_of(rc);
		return REFUSED_RECV_SGE;
	}
	t->filled += len;
	return ACCEPTED;
}

/* A receive that refuses the message is the current one, so that target_fill_recv() says
 * why. */
bool target_take_shared(struct qp *qp, struct target *t, struct mr_found *into,
			const uint8_t *payload, uint32_t len, bool solicited,
			uint64_t now)
{
	const int access = IBV_ACCESS_LOCAL_WRITE;
	struct srq *srq = qp->srq;
	uint8_t *host = NULL;
	struct ibv_sge sge;
	uint64_t wr_id;

	if (qp->hooks || t->have_recv || !srq_pop_one(srq, len, &wr_id, &sge))
		return false;
	if (len)
		host = mr_again(qp->core, into, sge.lkey, sge.addr, len, access);
	if (len && ((!host && mr_check_inside(qp->core, into, sge.lkey, srq->pd, sge.addr,
					      len, access, &host) != MR_OK) ||
		    mr_write(qp->core, sge.lkey, host, payload, len))) {
		qp_hold_recv(qp, wr_id, false);
		t->recv.wr_id = wr_id;
		t->recv.length = sge.length;
		t->recv.num_sge = 1;
		t->recv.sge[0] = sge;
		t->have_recv = true;
		return false;
	}
	qp->recv.srqs++;
	target_complete_plain(qp, wr_id, PLACE_SHARED, &srq->rq.returned, len, solicited,
			      now);
	return true;
}

enum refusal target_invalidate(struct qp *qp, uint32_t rkey)
{
	turn_is_held(qp->core);
	return mkey_invalidate(qp->core, rkey, qp->pd, qp->qpn) ? REFUSED_INVALIDATE
								: ACCEPTED;
}

void target_complete(struct qp *qp, struct target *t, struct cqe *cqe, bool solicited)
{
	cqe->status = IBV_WC_SUCCESS;
	t->have_recv = false;
	if (qp->hooks)
		qp->hooks->complete(qp, t, cqe, solicited);
	else
		rq_complete(qp, &t->recv, cqe, solicited);
}

void target_fail_recv(struct qp *qp, struct target *t, enum refusal why, uint64_t now)
{
	struct cqe cqe = {
		.now = now,
		.status = (uint8_t)refusals[why].status,
		.opcode = IBV_WC_RECV,
		.vendor_err =
			why == REFUSED_RECV_SGE ? t->refused.verr : refusals[why].verr,
		.src_qp = qp->attr.dest_qp_num,
	};

	if (!t->have_recv || cqe.status == IBV_WC_SUCCESS)
		return;
	t->have_recv = false;
	cqe.wr_id = t->recv.wr_id;
	failure_of_recv(qp, &cqe);
	rq_complete(qp, &t->recv, &cqe, true);
}

/* --- memory -------------------------------------------------------------- */

/* A peer is about to write there, and has done so. */
static inline void writes(const void *host, uint64_t len)
{
	if (__builtin_expect(checks != NULL, 0))
		checks->wrote(host, len, false);
}

static inline void wrote(const void *host, uint64_t len)
{
	if (__builtin_expect(checks != NULL, 0))
		checks->wrote(host, len, true);
}

/* Returns why as a refusal; if that is one, records the request's range for the log. */
static enum refusal noted(struct target *t, enum mr_why why, uint32_t rkey, uint64_t va,
			  uint64_t len, int access)
{
	if (why == MR_OK)
		return ACCEPTED;
	t->refused.rkey = rkey;
	t->refused.va = va;
	t->refused.len = len;
	t->refused.access = access;
	t->refused.why = why;
	return REFUSED_KEY;
}

static enum refusal reached(const struct qp *qp, struct target *t, enum mr_why why,
			    uint32_t rkey, uint64_t va, uint64_t len, int access)
{
	if (why != MR_OK && checks)
		checks->denied(qp->qpn, true, rkey, va, len, access, (int)why);
	return noted(t, why, rkey, va, len, access);
}

/* A request of a process of this host is about to be executed, in this part. */
static void tell_access(const struct qp *qp, const struct target *t, uint32_t rkey,
			uint64_t va, uint64_t len, int how, const void *host)
{
	const struct check_access a = {
		.host = host,
		.va = va,
		.len = len,
		.posted = t->source.posted,
		.rkey = rkey,
		.qpn = qp->attr.dest_qp_num,
		.pid = t->source.pid,
		.how = how,
	};

	if (checks && t->source.known)
		checks->reaches(&a);
}

/* how: what the request does there, where that is not `access'; 0: it was accepted
 * before, and no check is told */
static enum refusal reach_as(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			     uint64_t len, int access, int how, uint8_t **host)
{
	enum mr_why seen;
	enum refusal why;

	*host = NULL;
	if (len == 0)
		return ACCEPTED;
	seen = mr_check(qp->core, rkey, qp->pd, qp->qpn, va, len, access, host);
	why = how ? reached(qp, t, seen, rkey, va, len, access)
		  : noted(t, seen, rkey, va, len, access);
	if (__builtin_expect(checks_time, 0) && !why && how)
		tell_access(qp, t, rkey, va, len, how, *host);
	return why;
}

enum refusal target_reach(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint64_t len, int access, uint8_t **host)
{
	return reach_as(qp, t, rkey, va, len, access, access, host);
}

enum refusal target_reach_again(struct qp *qp, struct target *t, uint32_t rkey,
				uint64_t va, uint64_t len, int access, uint8_t **host)
{
	return reach_as(qp, t, rkey, va, len, access, 0, host);
}

enum refusal target_allows(const struct qp *qp, int access)
{
	if (__builtin_expect(!(~qp->attr.qp_access_flags & (unsigned)access), 1))
		return ACCEPTED;
	if (checks)
		checks->denied(qp->qpn, true, 0, 0, 0, access, CHECK_DENIED_BY_QP);
	return REFUSED_OPERATION;
}

enum refusal target_check(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, int access, uint8_t **host)
{
	if (target_allows(qp, access))
		return REFUSED_OPERATION;
	if (len > REQUEST_MAX)
		return REFUSED_TOO_LONG;
	return target_reach(qp, t, rkey, va, len, access, host);
}

enum refusal target_begin_write(struct qp *qp, struct target *t, uint32_t rkey,
				uint64_t va, uint32_t len)
{
	uint8_t *host;

	t->write.va = va;
	t->write.rkey = rkey;
	t->write.len = t->write.left = len;
	return target_check(qp, t, rkey, va, len, IBV_ACCESS_REMOTE_WRITE, &host);
}

enum refusal target_place(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  const void *data, uint32_t n)
{
	enum refusal why;
	uint8_t *host;

	why = target_reach(qp, t, rkey, va, n, IBV_ACCESS_REMOTE_WRITE, &host);
	if (why || n == 0)
		return why;
	writes(host, n);
	if (__builtin_expect(qp->core->order != NULL, 0)
		    ? order_write(qp->core, rkey, host, data, n)
		    : mr_write(qp->core, rkey, host, data, n))
		why = REFUSED_MEMORY;
	wrote(host, n);
	return why;
}

enum refusal target_write(struct qp *qp, struct target *t, const void *data, uint32_t n)
{
	enum refusal why = target_place(qp, t, t->write.rkey, t->write.va, data, n);

	if (why)
		return why;
	t->write.va += n;
	t->write.left -= n;
	return ACCEPTED;
}

unsigned target_write_all(struct qp *qp, struct target *t, const void *const *data,
			  unsigned n, uint32_t len)
{
	const uint32_t most = t->write.left ? (t->write.left - 1) / len : 0;
	const uint8_t *from;
	uint8_t *host;
	unsigned i;

	if (n > most)
		n = most;
	if (n == 0 || qp->core->order ||
	    target_reach(qp, t, t->write.rkey, t->write.va, (uint64_t)n * len,
			 IBV_ACCESS_REMOTE_WRITE, &host))
		return 0;
	from = host;
	writes(from, (uint64_t)n * len);
	for (i = 0; i < n; i++, host += len)
		if (mr_write(qp->core, t->write.rkey, host, data[i], len) != 0)
			break;
	wrote(from, (uint64_t)n * len);
	t->write.va += (uint64_t)i * len;
	t->write.left -= i * len;
	return i;
}

static enum refusal check_word(struct qp *qp, struct target *t, uint32_t rkey,
			       uint64_t va, int access, uint64_t **at)
{
	enum refusal why;
	uint8_t *host;

	if (target_allows(qp, access))
		return REFUSED_OPERATION;
	if (va & 7) /* IBTA 9.4.5 */
		return REFUSED_ALIGNMENT;
	why = reach_as(qp, t, rkey, va, 8, access, IBV_ACCESS_REMOTE_ATOMIC, &host);
	if (!why && (uintptr_t)host & 7) /* the region's iova and address differ
					  * modulo 8 */
		why = REFUSED_ALIGNMENT;
	*at = (uint64_t *)(void *)host;
	return why;
}

enum refusal target_check_atomic(struct qp *qp, struct target *t, uint32_t rkey,
				 uint64_t va, uint64_t **at)
{
	return check_word(qp, t, rkey, va, IBV_ACCESS_REMOTE_ATOMIC, at);
}

enum refusal target_check_atomic_write(struct qp *qp, struct target *t, uint32_t rkey,
				       uint64_t va, uint64_t **at)
{
	return check_word(qp, t, rkey, va, IBV_ACCESS_REMOTE_WRITE, at);
}

/* mr_write() of 8 bytes to an aligned address is one store (sys/guard.h). */
enum refusal target_atomic_write(struct qp *qp, uint32_t rkey, uint64_t *at,
				 const void *value)
{
	int rc;

	writes(at, sizeof(*at));
	rc = mr_write(qp->core, rkey, (uint8_t *)at, value, sizeof(*at));
	wrote(at, sizeof(*at));
	return rc ? REFUSED_MEMORY : ACCEPTED;
}

enum refusal target_atomic(struct qp *qp, uint32_t rkey, uint64_t *at,
			   const uint64_t *compare, uint64_t swap_add, uint64_t *orig)
{
	int rc;

	writes(at, sizeof(*at));
	rc = compare ? mr_cmp_swap(qp->core, rkey, at, *compare, swap_add, orig)
		     : mr_fetch_add(qp->core, rkey, at, swap_add, orig);
	wrote(at, sizeof(*at));
	return rc ? REFUSED_MEMORY : ACCEPTED;
}

/* The rights that a FETH asks for; 0: it names no placement type, or one or a level that
 * there is not. */
static int flush_access(uint32_t feth)
{
	const unsigned type = feth_type(feth);

	if (type > FLUSH_KNOWN || feth_level(feth) > IBV_FLUSH_MR)
		return 0;
	return (type & IBV_FLUSH_GLOBAL ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
	       (type & IBV_FLUSH_PERSISTENT ? IBV_ACCESS_FLUSH_PERSISTENT : 0);
}

/* WRITEs before it were stores into memory that all see; the fence keeps their order
 * with what the program is told after it. */
enum refusal target_flush(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, uint32_t feth)
{
	const int access = flush_access(feth);
	enum refusal why;
	uint8_t *host;

	if (!access || target_allows(qp, access))
		return REFUSED_OPERATION;
	if (feth_level(feth) == IBV_FLUSH_MR)
		why = reached(qp, t,
			      mr_check_whole(qp->core, rkey, qp->pd, qp->qpn, access),
			      rkey, va, 0, access);
	else
		why = target_reach(qp, t, rkey, va, len, access, &host);
	if (!why)
		atomic_thread_fence(memory_order_seq_cst);
	return why;
}

int target_event(enum refusal why)
{
	return refusals[why].event;
}

enum nak_code target_nak(enum refusal why)
{
	return refusals[why].nak;
}

/* --- texts --------------------------------------------------------------- */

const char *target_why(const struct target *t, enum refusal why,
		       char buf[static TARGET_WHY_LEN])
{
	if (why != REFUSED_KEY)
		return refusals[why].why;
	snprintf(buf, TARGET_WHY_LEN,
		 "%llu bytes at 0x%llx, rkey 0x%08x, access 0x%x: %s",
		 (unsigned long long)t->refused.len, (unsigned long long)t->refused.va,
		 t->refused.rkey, (unsigned)t->refused.access,
		 mr_why_str(t->refused.why));
	return buf;
}
