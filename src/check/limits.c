/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.c - posts beyond what the queue pair was created with: post-limit. */
#include <errno.h>

#include "check/check.h"
#include "check/parts.h"

static void say_limit(const struct check_qp *qp, const struct check_wr *w,
		      const char *what, uint32_t is, const char *limit, uint32_t max)
{
	const struct check_before before = { "the queue pair was created", qp->o.made,
					     0 };

	check_report(
		CHECK_POST_LIMIT, &before, 1,
		"QP 0x%06x: the %s of wr_id 0x%llx is refused: %s is %u, and %s of the "
		"queue pair is %u",
		qp->qpn, check_opcode(w->opcode), (unsigned long long)w->wr_id, what, is,
		limit, max);
}

static void refused(struct check_qp *qp, const struct check_wr *w, int rc)
{
	const bool receives = w->opcode == CHECK_RECV;
	const uint32_t sges = receives ? qp->cap.max_recv_sge : qp->cap.max_send_sge;

	if (receives && rc == ENOMEM)
		say_limit(qp, w, "the number of receives", qp->cap.max_recv_wr + 1,
			  "max_recv_wr", qp->cap.max_recv_wr);
	else if (w->asked_sge > sges)
		say_limit(qp, w, "num_sge", w->asked_sge,
			  receives ? "max_recv_sge" : "max_send_sge", sges);
	else if (!receives && w->flags & IBV_SEND_INLINE &&
		 w->length > qp->cap.max_inline_data)
		say_limit(qp, w, "the inline data", w->length, "max_inline_data",
			  qp->cap.max_inline_data);
}

const struct check_part limits_part = {
	.name = "limits",
	.first = CHECK_POST_LIMIT,
	.last = CHECK_POST_LIMIT,
	.refused = refused,
};
