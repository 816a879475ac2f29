/* SPDX-License-Identifier: BSD-2-Clause */
/* poll.c - polls and arms completion queues. */
#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/cq.h"
#include "verbs/like.h"

/* Called if the CQ seems empty (the thread then drives the NIC for one turn), or if n is
 * not positive. */
__attribute__((noinline)) static int drive(struct nic *nic, struct cq *cq, int n,
					   struct ibv_wc *wc)
{
	int got = cq_poll(cq, n, wc);

	if (!got && n > 0) {
		nic_poll(nic);
		got = cq_poll(cq, n, wc);
	}
	if (got > 0) /* nic_poll() does not know of completions without input */
		nic_polled(nic);
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

int abi_poll_cq_one(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	return abi_poll_cq(ibv, n > 1 ? 1 : n, wc);
}

/* URNIC_LIKE: what polled before; the same for all contexts of a process. */
static int (*_Atomic polls)(struct ibv_cq *ibv, int n, struct ibv_wc *wc);

static int poll_like(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	const int got = atomic_load_explicit(&polls, memory_order_relaxed)(ibv, n, wc);

	for (int i = 0; i < got; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			wc[i].vendor_err =
				like_vendor_err(wc[i].status, wc[i].vendor_err);
	return got;
}

void abi_poll_like(struct ibv_context *ibv)
{
	if (!like_has_vendor())
		return;
	atomic_store_explicit(&polls, ibv->ops.poll_cq, memory_order_relaxed);
	ibv->ops.poll_cq = poll_like;
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
		nic_armed(abi_of(ibv->context)->nic, cq_of(ibv)->channel);
	return abi_leave(rc);
}
