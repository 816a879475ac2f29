/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.c - see qp_state.h. */
#include "rdmacm/qp_state.h"

#include <errno.h>
#include <string.h>

void cma_fill_ah(struct cma_id *id, const uint8_t dst[16], struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = id->id.port_num,
		.grh = { .sgid_index = (uint8_t)id->sgid_index,
			 .hop_limit = 64,
			 .traffic_class = id->tos },
	};
	memcpy(ah->grh.dgid.raw, dst, 16);
	if (id->to.route.dlid) { /* InfiniBand, within the subnet */
		ah->is_global = 0;
		ah->dlid = id->to.route.dlid;
		ah->sl = id->to.route.sl;
		ah->static_rate = id->to.rate;
	}
}

/* --- attributes ---------------------------------------------------------- */

/* As with Linux's iw_cm, the connection sets all other attributes. */
static int iwarp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = 0;
	if (a->qp_state != IBV_QPS_INIT && a->qp_state != IBV_QPS_RTR)
		return a->qp_state == IBV_QPS_RTS ? 0 : -EINVAL;
	a->port_num = id->id.port_num;
	a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
	return 0;
}

static int init_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	a->pkey_index = id->to.route.pkey_index;
	a->port_num = id->id.port_num;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (cma_is_datagram(id)) {
		a->qkey = id->qkey;
		*mask |= IBV_QP_QKEY;
		return 0;
	}
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
	return 0;
}

/* The peer is known only after a request or a response. */
static int rtr_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE;
	if (cma_is_datagram(id))
		return 0;
	if (!id->conn)
		return -EINVAL;
	cma_fill_ah(id, id->to.route.dst, &a->ah_attr);
	a->path_mtu = (enum ibv_mtu)id->to.mtu;
	a->dest_qp_num = id->peer_qpn;
	a->rq_psn = id->psn; /* each end chooses the PSN with which the other begins */
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (id->id.qp_type != IBV_QPT_RC && id->id.qp_type != IBV_QPT_XRC_RECV)
		return 0;
	a->max_dest_rd_atomic = id->resources;
	a->min_rnr_timer = 0; /* the longest: 655 ms */
	*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return 0;
}

static int rts_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = cma_is_datagram(id) ? 0 : id->peer_psn;
	if (cma_is_datagram(id) || id->id.qp_type == IBV_QPT_UC)
		return 0;
	a->timeout = id->ack_timeout;
	*mask |= IBV_QP_TIMEOUT;
	if (id->id.qp_type == IBV_QPT_XRC_RECV)
		return 0;
	a->retry_cnt = id->retry_count;
	a->rnr_retry = id->rnr_retry;
	a->max_rd_atomic = id->depth;
	*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

int cma_qp_attr(struct cma_id *id, struct ibv_qp_attr *a, int *mask)
{
	if (cma_is_iwarp(id))
		return iwarp_attr(id, a, mask);
	switch (a->qp_state) {
	case IBV_QPS_INIT:
		return init_attr(id, a, mask);
	case IBV_QPS_RTR:
		return rtr_attr(id, a, mask);
	case IBV_QPS_RTS:
		return rts_attr(id, a, mask);
	case IBV_QPS_RESET:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
	case IBV_QPS_UNKNOWN:
		break;
	}
	return -EINVAL;
}

static int enter_state(struct cma_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };
	int mask, rc = cma_qp_attr(id, &a, &mask);

	return rc ? rc : -ibv_modify_qp(qp, &a, mask);
}

int cma_qp_start(struct cma_id *id, struct ibv_qp *qp)
{
	int rc = enter_state(id, qp, IBV_QPS_INIT);

	if (rc || !cma_is_datagram(id))
		return rc;
	rc = enter_state(id, qp, IBV_QPS_RTR);
	return rc ? rc : enter_state(id, qp, IBV_QPS_RTS);
}

int cma_qp_connect(struct cma_id *id)
{
	/* INIT again, as the access flags depend on the request or response. */
	int rc = enter_state(id, id->id.qp, IBV_QPS_INIT);

	if (!rc)
		rc = enter_state(id, id->id.qp, IBV_QPS_RTR);
	return rc ? rc : enter_state(id, id->id.qp, IBV_QPS_RTS);
}

int cma_qp_prepare(struct cma_id *id)
{
	return enter_state(id, id->id.qp, IBV_QPS_INIT);
}

void cma_qp_error(struct cma_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	if (id->id.qp && !cma_is_datagram(id))
		(void)ibv_modify_qp(id->id.qp, &a, IBV_QP_STATE);
}
