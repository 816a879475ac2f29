/* SPDX-License-Identifier: BSD-2-Clause */
/* failure.c - see failure.h. */
#include "verbs/failure.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "sys/log.h"
#include "verbs/transport.h"
#include "verbs/wr_op.h"

enum { WHAT_LEN = 128, PEER_LEN = 192 };

static const char *status_name(enum ibv_wc_status status)
{
	static const char *const name[] = {
#define NAME(s) [IBV_WC_##s] = "IBV_WC_" #s
		NAME(SUCCESS),
		NAME(LOC_LEN_ERR),
		NAME(LOC_QP_OP_ERR),
		NAME(LOC_EEC_OP_ERR),
		NAME(LOC_PROT_ERR),
		NAME(WR_FLUSH_ERR),
		NAME(MW_BIND_ERR),
		NAME(BAD_RESP_ERR),
		NAME(LOC_ACCESS_ERR),
		NAME(REM_INV_REQ_ERR),
		NAME(REM_ACCESS_ERR),
		NAME(REM_OP_ERR),
		NAME(RETRY_EXC_ERR),
		NAME(RNR_RETRY_EXC_ERR),
		NAME(LOC_RDD_VIOL_ERR),
		NAME(REM_INV_RD_REQ_ERR),
		NAME(REM_ABORT_ERR),
		NAME(INV_EECN_ERR),
		NAME(INV_EEC_STATE_ERR),
		NAME(FATAL_ERR),
		NAME(RESP_TIMEOUT_ERR),
		NAME(GENERAL_ERR),
		NAME(TM_ERR),
		NAME(TM_RNDV_INCOMPLETE),
#undef NAME
	};

	return status < sizeof(name) / sizeof(name[0]) ? name[status] : "?";
}

/* Does the peer's end explain the failure? */
static bool is_ordinary(enum verr verr)
{
	return verr == VERR_PEER_ENDED || verr == VERR_CONNECTION;
}

/* Does the failure have a line?  A QP without a context is not the program's. */
static bool is_said(const struct qp *qp, enum ibv_wc_status status, enum verr verr,
		    bool *first)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	*first = false;
	if (status == IBV_WC_WR_FLUSH_ERR || !qp->ctx)
		return false;
	if (log_level >= LOG_INFO)
		return true;
	if (log_level < LOG_WARN || is_ordinary(verr) || atomic_flag_test_and_set(&said))
		return false;
	*first = true;
	return log_hint_left();
}

/* " to QP 0x00000a at 192.0.2.1, PSN 5" */
static void peer_text(const struct qp *qp, const char *dir, char text[PEER_LEN])
{
	char peer[PEER_LEN - 8] = "";

	if (qp->transport && qp->transport->peer)
		qp->transport->peer(qp, peer, sizeof(peer));
	snprintf(text, PEER_LEN, "%s%s", peer[0] ? dir : "", peer);
}

static void say_failure(const struct qp *qp, bool first, enum ibv_wc_status status,
			enum verr verr, uint64_t wr_id, const char *what,
			const char *peer)
{
	const struct log_wc wc = { status_name(status), verr };

	log_line(LOG_FROM(first ? LOG_WARN : LOG_INFO, &wc),
		 "QP 0x%06x: %s: %s, work request 0x%" PRIx64 "%s: %s%s", qp->qpn,
		 wc.status, what, wr_id, peer, verr_text(verr)->what,
		 first ? " (later failures are not shown: for a line about each, use "
			 "`urnic run --log info' or URNIC_LOG=info)"
		       : "");
}

void failure_of_send(const struct qp *qp, const struct swqe *w, enum ibv_wc_status status,
		     enum verr verr)
{
	const struct wr_op *op = wr_op(w->opcode);
	char what[WHAT_LEN], to[PEER_LEN];
	bool first;
	int n;

	if (!is_said(qp, status, verr, &first))
		return;
	n = snprintf(what, sizeof(what), "%s", op->name);
	if (op->traits & (WR_DATA | WR_FEW | WR_VALUE))
		n += snprintf(what + n, sizeof(what) - (size_t)n, " of %u bytes",
			      w->length);
	if (op->traits & WR_REMOTE)
		snprintf(what + n, sizeof(what) - (size_t)n,
			 " at 0x%" PRIx64 " there by rkey 0x%08x", w->remote_addr,
			 w->rkey);
	if (qp->type == IBV_QPT_UD)
		snprintf(to, sizeof(to), " to QP 0x%06x", w->ud.qpn);
	else
		peer_text(qp, " to ", to);
	say_failure(qp, first, status, verr, w->wr_id, what, to);
}

void failure_of_recv(const struct qp *qp, const struct cqe *cqe)
{
	const enum ibv_wc_status status = (enum ibv_wc_status)cqe->status;
	char from[PEER_LEN];
	bool first;

	if (!is_said(qp, status, (enum verr)cqe->vendor_err, &first))
		return;
	peer_text(qp, " from ", from);
	say_failure(qp, first, status, (enum verr)cqe->vendor_err, cqe->wr_id, "receive",
		    from);
}
