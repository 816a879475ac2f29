/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.c - polls and arms completion queues. */
#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/cq.h"

/* Called if the CQ seems empty (the thread then drives the NIC for one turn), or if n is
 * not positive. */
__attribute__((noinline)) static int drive(struct nic *nic, struct cq *cq, int n,
					   struct ibv_wc *wc)
{
	int got = cq_poll(cq, n, wc);

	if (!got && n > 0) {
		nic_poll(nic);
		got = cq_poll(cq, n, wc);
	} else {
		nic_polled(nic);
	}
	abi_end();
	return got;
}

int abi_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct abi_context *a = abi_of(ibv->context);
	struct cq *cq = cq_of(ibv);
	int got;

	if (inside_calls) /* in a signal handler: see abi.h */
		return 0;
	if (!abi_enter(ibv->context))
		return -EIO;
	if (n <= 0 || cq_empty(cq))
		return drive(a->nic, cq, n, wc);
	got = cq_take(cq, (uint32_t)n, wc);
	nic_polled(a->nic);
	inside_end();
	return got;
}

int abi_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	int rc;

	if (!abi_enter(ibv->context))
		return EIO;
	if (inside_calls > 1 && !cq_may_arm(cq_of(ibv)))
		rc = -EDEADLK;
	else
		rc = cq_arm(cq_of(ibv), solicited_only != 0);
	if (!rc)
		nic_armed(abi_of(ibv->context)->nic);
	return abi_leave(rc);
}
