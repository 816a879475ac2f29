/* SPDX-License-Identifier: BSD-2-Clause */
/* spread.c - QPs that spread received frames over the work queues of a table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "raw/packet.h"
#include "raw/packet_own.h"
#include "raw/rss.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/qp.h"

static int refuse_qp(int rc, const char *what)
{
	log_info("create_qp refused: a QP with an indirection table must have %s", what);
	return rc;
}

static int check_attr(const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_rx_hash_conf *h = &a->rx_hash_conf;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const uint32_t needed = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
				IBV_QP_INIT_ATTR_RX_HASH;

	if (~a->comp_mask & needed || !a->pd || !a->rwq_ind_tbl)
		return refuse_qp(-EINVAL, "a PD, the table and rx_hash_conf");
	if (a->comp_mask & ~known)
		return refuse_qp(-EOPNOTSUPP, "nothing else in comp_mask");
	if (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags)
		return refuse_qp(-EOPNOTSUPP, "no create_flags");
	if (a->cap.max_send_wr)
		return refuse_qp(-EOPNOTSUPP, "no send queue");
	if (a->cap.max_recv_wr || a->cap.max_recv_sge || a->srq)
		return refuse_qp(-EINVAL, "no receive queue of its own");
	if (h->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    h->rx_hash_fields_mask & ~(uint64_t)RSS_FIELDS)
		return refuse_qp(-EOPNOTSUPP,
				 "Toeplitz's hash of IP addresses and ports");
	if (h->rx_hash_key_len != RSS_KEY || !h->rx_hash_key)
		return refuse_qp(-EINVAL, "a key of 40 bytes");
	return 0;
}

int spread_create(struct context *ctx, const struct ibv_qp_init_attr_ex *attr,
		  struct qp **out)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = attr->qp_context,
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = attr->pd,
	};
	struct wq_table *table;
	struct spread *spread;
	int rc = check_attr(attr);

	if (rc)
		return rc;
	table = wq_table_of(attr->rwq_ind_tbl);
	spread = calloc(1, sizeof(*spread));
	if (!spread)
		return -ENOMEM;
	spread->table = table;
	spread->rss.fields = attr->rx_hash_conf.rx_hash_fields_mask;
	memcpy(spread->rss.key, attr->rx_hash_conf.rx_hash_key, RSS_KEY);
	/* A QP must have CQs, but nothing completes on these. */
	a.send_cq = a.recv_cq = table->wq[0]->ibv.cq;
	rc = qp_create(ctx, &a, &packet_transport, out);
	if (rc) {
		free(spread);
		return rc;
	}
	atomic_fetch_add(&table->users, 1);
	(*out)->ex.qp_base.send_cq = (*out)->ex.qp_base.recv_cq = NULL;
	turn_take(&ctx->core->turn);
	packet_qp_of(*out)->spread = spread;
	turn_give(&ctx->core->turn);
	return 0;
}
