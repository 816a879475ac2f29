/* SPDX-License-Identifier: BSD-2-Clause */
/* post.c - posting work requests. */
#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/qp.h"
#include "verbs/rq.h"
#include "verbs/tm.h"

/* Requests before one that is refused are posted nevertheless. */
int abi_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = qp_of(ibv);
	int rc;

	if (!abi_enter(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	rc = nic_post_send(abi_of(ibv->context)->nic, qp, wr, bad, inside_calls > 1);
	inside_end();
	return abi_result(rc);
}

/* Ends a post of receives that returned rc. Before the one that was refused, others may
 * have been posted. */
static inline int recv_result(struct ibv_context *ibv, int rc)
{
	if (__builtin_expect(!rc, 1)) {
		inside_end();
		return 0;
	}
	nic_called(abi_of(ibv)->nic, inside_calls > 1);
	return abi_leave(rc < 0 ? rc : 0);
}

int abi_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = qp_of(ibv);
	int rc;

	if (!abi_enter(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	rc = qp_post_recv(qp, wr, bad);
	return recv_result(ibv->context, rc);
}

int abi_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad)
{
	if (!abi_enter(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	return recv_result(ibv->context, srq_post(srq_of(ibv), wr, bad));
}

int abi_post_srq_ops(struct ibv_srq *ibv, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	if (!abi_enter(ibv->context)) {
		*bad = wr;
		return EIO;
	}
	if (inside_calls > 1) {
		*bad = wr;
		return abi_leave(-EDEADLK);
	}
	return recv_result(ibv->context, tm_post(srq_of(ibv), wr, bad));
}
