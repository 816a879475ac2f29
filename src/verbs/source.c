/* SPDX-License-Identifier: BSD-2-Clause */
/* source.c - see source.h. */
#include "verbs/source.h"

#include "verbs/device.h"
#include "verbs/mr.h"

bool wqe_too_long(const struct swqe *w)
{
	return w->length > caps.max_msg || (wqe_is_atomic(w) && w->length < 8);
}

int wqe_resolve(struct qp *qp, uint32_t index, struct wqe_memory *m)
{
	int access = wqe_is_read(sq_at(&qp->sq, index)) ? IBV_ACCESS_LOCAL_WRITE : 0;
	int rc;

	if (m->resolved && m->index == index)
		return 0;
	rc = span_of_wqe(qp, index, access, &m->span);
	m->resolved = rc == 0;
	m->index = index;
	return rc;
}

enum wqe_end wqe_local_work(struct qp *qp, uint32_t index, enum ibv_wc_status *status,
			    enum verr *verr, uint64_t now)
{
	if (index != qp->sq.tail)
		return WQE_WAITS;
	*status = mw_work(qp, sq_at(&qp->sq, index), verr);
	if (*status != IBV_WC_SUCCESS)
		return WQE_FAILED;
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, now);
	return WQE_DONE;
}
