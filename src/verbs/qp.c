/* SPDX-License-Identifier: BSD-2-Clause */
/* qp.c - looking up queue pairs and their P_Keys (IBTA vol. 1, 10.2.4). */
#include "verbs/qp.h"

#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/transport.h"

struct qp *qp_of(struct ibv_qp *ibv)
{
	return container_of(ibv, struct qp, ex.qp_base);
}

struct qp *qp_of_ex(struct ibv_qp_ex *ibv)
{
	return container_of(ibv, struct qp, ex);
}

uint16_t qp_pkey(const struct qp *qp)
{
	return qp->dev->pkey[qp->path.pkey_index];
}

int qp_hears(const struct qp *qp, uint16_t pkey)
{
	const uint16_t own = qp->path.pkey_index;

	return pkey_match(qp->dev->pkey[own], pkey) ? own : -1;
}

struct qp *qp_find(struct core *core, uint32_t qpn)
{
	if (qpn_slot(qpn) != core->slot)
		return NULL;
	return numbers_at(&core->qps, qpn_index(qpn));
}

void qp_init_nodes(struct qp *qp)
{
	lock_init(&qp->lock);
	list_init(&qp->recv.node);
}

bool qp_receives(const struct qp *qp)
{
	switch (qp->state) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		return true;
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN:
		return false;
	}
	return false;
}

int qp_change_transport(struct qp *qp, const struct transport *to)
{
	void *old = qp->tp.state, *new;
	int rc = to->open(qp);

	new = qp->tp.state;
	qp->tp.state = old;
	if (rc)
		return rc;
	qp->transport->close(qp);
	qp->tp.state = new;
	/* A thread that posts looks without the lock, and again with it. */
	__atomic_store_n(&qp->transport, to, __ATOMIC_RELEASE);
	return 0;
}

int qp_enter_again(struct qp *qp, uint64_t now)
{
	const enum ibv_qp_state to = qp->state;
	int rc = 0;

	if (to != IBV_QPS_RTR && to != IBV_QPS_RTS && to != IBV_QPS_SQD)
		return 0;
	qp->state = IBV_QPS_RTR;
	rc = qp->transport->enter(qp, IBV_QPS_INIT, now);
	if (!rc && to != IBV_QPS_RTR) {
		qp->state = IBV_QPS_RTS;
		rc = qp->transport->enter(qp, IBV_QPS_RTR, now);
	}
	qp->state = to;
	return rc;
}
