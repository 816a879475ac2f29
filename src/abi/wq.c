/* SPDX-License-Identifier: BSD-2-Clause */
/* wq.c - work queues and indirection tables. */
#include "abi/abi.h"
#include "driver/nic.h"
#include "raw/packet.h"
#include "verbs/cq.h"
#include "verbs/limits.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

static int post_recv(struct ibv_wq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return abi_post_recv(&wq_of(ibv)->qp->ex.qp_base, wr, bad);
}

struct ibv_wq *abi_create_wq(struct ibv_context *ibv, struct ibv_wq_init_attr *attr)
{
	struct wq *wq;
	int rc;

	if (!GIVEN("create_wq", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = abi_check("create_wq", LIVE(pd_of, attr->pd), LIVE_PD, ibv);
	if (!rc)
		rc = abi_check("create_wq", LIVE(cq_of, attr->cq), LIVE_CQ, ibv);
	if (!rc)
		rc = wq_create(&abi_of(ibv)->ctx, attr, &wq);
	if (!rc)
		wq->ibv.post_recv = post_recv;
	return abi_leave(rc) ? NULL : &wq->ibv;
}

int abi_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr)
{
	struct ibv_context *ctx;

	if (!GIVEN("modify_wq", attr))
		return errno;
	ctx = abi_enter_on(LIVE(wq_of, ibv), LIVE_WQ, EINVAL);
	if (!ctx)
		return errno;
	nic_flush(abi_of(ctx)->nic);
	return abi_leave(wq_modify(wq_of(ibv), attr, nic_now()));
}

int abi_destroy_wq(struct ibv_wq *ibv)
{
	if (!abi_enter_on(LIVE(wq_of, ibv), LIVE_WQ, ENOENT))
		return errno;
	return abi_leave(wq_destroy(wq_of(ibv)));
}

static int check_queues(struct ibv_context *ibv,
			const struct ibv_rwq_ind_table_init_attr *attr)
{
	int rc = 0;

	if (attr->log_ind_tbl_size > RSS_TABLE_LOG || !attr->ind_tbl)
		return 0; /* left to wq_table_create() to report */
	for (uint32_t i = 0; !rc && i < 1u << attr->log_ind_tbl_size; i++)
		rc = attr->ind_tbl[i]
			     ? abi_check("create_rwq_ind_table",
					 LIVE(wq_of, attr->ind_tbl[i]), LIVE_WQ, ibv)
			     : -EINVAL;
	return rc;
}

struct ibv_rwq_ind_table *abi_create_rwq_ind_table(
	struct ibv_context *ibv, struct ibv_rwq_ind_table_init_attr *attr)
{
	struct wq_table *table;
	int rc;

	if (!GIVEN("create_rwq_ind_table", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = check_queues(ibv, attr);
	if (!rc)
		rc = wq_table_create(&abi_of(ibv)->ctx, attr, &table);
	return abi_leave(rc) ? NULL : &table->ibv;
}

int abi_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ibv)
{
	if (!abi_enter_on(LIVE(wq_table_of, ibv), LIVE_WQ_TABLE, ENOENT))
		return errno;
	return abi_leave(wq_table_destroy(wq_table_of(ibv)));
}
