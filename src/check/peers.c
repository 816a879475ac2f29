/* SPDX-License-Identifier: BSD-2-Clause */
/* peers.c - the two ends of a connection, of this process or of two of this host:
 * ends-differ.  Of retry counts and timers each end has its own. */
#include "check/check.h"
#include "check/parts.h"
#include "verbs/qp.h"

/* The other end */
struct far_end {
	uint32_t qpn;
	struct check_end end;
	struct check_before set_up; /* of this process only */
};

static void say_difference(const struct check_qp *qp, const struct far_end *far,
			   const char *what, uint32_t here, uint32_t there)
{
	check_report_at(
		CHECK_ENDS_DIFFER, qp->state_trace, &far->set_up, 1,
		"QP 0x%06x and its peer QP 0x%06x do not fit: %s is %u here, %u there",
		qp->qpn, far->qpn, what, here, there);
}

static unsigned mtu_bytes(uint8_t mtu)
{
	return mtu <= IBV_MTU_4096 ? 128u << mtu : mtu;
}

struct check_end check_end_of(const struct check_qp *qp)
{
	const struct ibv_qp_attr *a = &qp_of(qp->ibv)->attr;

	return (struct check_end){ .sq_psn = a->sq_psn,
				   .rq_psn = a->rq_psn,
				   .mtu = (uint8_t)a->path_mtu,
				   .rd_atomic = a->max_rd_atomic,
				   .dest_rd_atomic = a->max_dest_rd_atomic,
				   .sends = qp_of(qp->ibv)->state == IBV_QPS_RTS,
				   .reset_at = qp->reset_at,
				   .rtr_at = qp->rtr_at };
}

/* Who has no place for READs at all may be meant to get none. */
static bool is_too_deep(const struct check_end *source, const struct check_end *target)
{
	return source->sends && target->dest_rd_atomic &&
	       source->rd_atomic > target->dest_rd_atomic;
}

/* An end that goes through RESET again meets one that has not yet, with what was agreed
 * the last time. */
static bool is_one_connection(const struct check_end *a, const struct check_end *b)
{
	return a->reset_at <= b->rtr_at && b->reset_at <= a->rtr_at;
}

static void compare_ends(const struct check_qp *qp, const struct far_end *far)
{
	const struct check_end here = check_end_of(qp), *there = &far->end;

	if (!is_one_connection(&here, there))
		return;
	if (here.mtu != there->mtu)
		say_difference(qp, far, "path_mtu", mtu_bytes(here.mtu),
			       mtu_bytes(there->mtu));
	if (there->sends && here.rq_psn != there->sq_psn)
		say_difference(qp, far,
			       "the first PSN of requests (rq_psn here, sq_psn there)",
			       here.rq_psn, there->sq_psn);
	else if (here.sends && here.sq_psn != there->rq_psn)
		say_difference(qp, far,
			       "the first PSN of requests (sq_psn here, rq_psn there)",
			       here.sq_psn, there->rq_psn);
	if (is_too_deep(there, &here))
		say_difference(qp, far,
			       "the number of READs and atomics under way "
			       "(max_dest_rd_atomic here, max_rd_atomic there)",
			       here.dest_rd_atomic, there->rd_atomic);
	else if (is_too_deep(&here, there))
		say_difference(qp, far,
			       "the number of READs and atomics under way "
			       "(max_rd_atomic here, max_dest_rd_atomic there)",
			       here.rd_atomic, there->dest_rd_atomic);
}

static bool is_ready(const struct check_qp *qp)
{
	return qp->type == IBV_QPT_RC && !qp->o.gone &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS);
}

/* Both ends are past RTR: the later one is told of. */
static void modified(struct check_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct check_qp *peer;
	struct far_end far;

	(void)attr;
	if (!(mask & IBV_QP_STATE) || !is_ready(qp))
		return;
	peer = check_qp_of_number(qp_of(qp->ibv)->attr.dest_qp_num);
	if (!peer || peer == qp || !is_ready(peer) ||
	    qp_of(peer->ibv)->attr.dest_qp_num != qp->qpn)
		return;
	far = (struct far_end){ peer->qpn,
				check_end_of(peer),
				{ "the other end was set up", peer->state_trace,
				  peer->state_at } };
	compare_ends(qp, &far);
}

static void meets(struct check_qp *qp, uint32_t peer, const struct check_end *its)
{
	const struct far_end far = { .qpn = peer, .end = *its };

	if (is_ready(qp))
		compare_ends(qp, &far);
}

static void start(void)
{
	checks_ends = !check_clock_is_shifted();
}

const struct check_part peers_part = {
	.name = "peers",
	.first = CHECK_ENDS_DIFFER,
	.last = CHECK_ENDS_DIFFER,
	.start = start,
	.modified = modified,
	.meets = meets,
};
