/* SPDX-License-Identifier: BSD-2-Clause */
/* Domains, queues of completions and events, shared receive queues, address handles. */
#include "refused.h"

#include <endian.h>
#include <limits.h>

static void domains(void)
{
	OBJECT(ibv_alloc_pd, "context", ctx, EBADF, of_pointer, (o));
	OBJECT(ibv_dealloc_pd, "pd", pd, ENOENT, of_errno, (o));
	OBJECT(ibv_import_pd, "context", ctx, EBADF, of_pointer, (o, own.pd->handle));
	ROW(ibv_import_pd, "pd_handle unknown", ENOENT, of_pointer,
	    (own.ctx, UINT32_MAX));
	ROW(ibv_import_pd, "pd_handle of another device file", ENOENT, of_pointer,
	    (own.ctx, foreign.pd->handle));
	OBJECT_VOID(ibv_unimport_pd, "pd", pd, (o));
	VOID(ibv_unimport_pd, "pd not imported", (own.pd));
}

static void completions(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *user;

	OBJECT(ibv_create_comp_channel, "context", ctx, EBADF, of_pointer, (o));
	OBJECT(ibv_destroy_comp_channel, "channel", channel, ENOENT, of_errno, (o));
	OBJECT(ibv_create_cq, "context", ctx, EBADF, of_pointer, (o, 1, NULL, NULL, 0));
	ROW(ibv_create_cq, "cqe 0", EINVAL, of_pointer, (own.ctx, 0, NULL, NULL, 0));
	ROW(ibv_create_cq, "cqe -1", EINVAL, of_pointer, (own.ctx, -1, NULL, NULL, 0));
	ROW(ibv_create_cq, "cqe above max_cqe", EINVAL, of_pointer,
	    (own.ctx, INT_MAX, NULL, NULL, 0));
	ANY(ibv_create_cq, "cq_context is the program's own");
	ANY(ibv_create_cq, "channel NULL: none");
	ROW(ibv_create_cq, "channel freed", EBADF, of_pointer,
	    (own.ctx, 1, NULL, gone.channel, 0));
	ROW(ibv_create_cq, "channel of another context", EBADF, of_pointer,
	    (own.ctx, 1, NULL, foreign.channel, 0));
	ROW(ibv_create_cq, "comp_vector -1", EINVAL, of_pointer,
	    (own.ctx, 1, NULL, NULL, -1));
	ROW(ibv_create_cq, "comp_vector above", EINVAL, of_pointer,
	    (own.ctx, 1, NULL, NULL, own.ctx->num_comp_vectors));
	OBJECT(ibv_resize_cq, "cq", cq, EINVAL, of_errno, (o, 8));
	ROW(ibv_resize_cq, "cqe 0", EINVAL, of_errno, (own.cq, 0));
	ROW(ibv_resize_cq, "cqe -1", EINVAL, of_errno, (own.cq, -1));
	ROW(ibv_resize_cq, "cqe above max_cqe", EINVAL, of_errno, (own.cq, INT_MAX));
	OBJECT(ibv_destroy_cq, "cq", cq, ENOENT, of_errno, (o));
	OBJECT(ibv_get_cq_event, "channel", channel, EBADF, of_minus, (o, &cq, &user));
	ROW(ibv_get_cq_event, "cq NULL", EINVAL, of_minus, (own.channel, NULL, &user));
	ROW(ibv_get_cq_event, "cq_context NULL", EINVAL, of_minus,
	    (own.channel, &cq, NULL));
	OBJECT_VOID(ibv_ack_cq_events, "cq", cq, (o, 1));
	VOID(ibv_ack_cq_events, "nevents that never came", (own.cq, 0));
	OBJECT(ibv_get_async_event, "context", ctx, EBADF, of_minus, (o, &event));
	ROW(ibv_get_async_event, "event NULL", EINVAL, of_minus, (own.ctx, NULL));
	VOID(ibv_ack_async_event, "event NULL", (NULL));
	memset(&event, 0xff, sizeof(event));
	VOID(ibv_ack_async_event, "event of no type", (&event));
}

static void srqs(void)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq_attr attr = { 4, 1, 0 };

	OBJECT(ibv_create_srq, "pd", pd, EINVAL, of_pointer, (o, &init));
	ROW(ibv_create_srq, "srq_init_attr NULL", EINVAL, of_pointer, (own.pd, NULL));
	init.attr.max_wr = 0;
	ROW(ibv_create_srq, "srq_init_attr max_wr 0", EINVAL, of_pointer,
	    (own.pd, &init));
	init.attr.max_wr = UINT32_MAX;
	ROW(ibv_create_srq, "srq_init_attr max_wr above", EINVAL, of_pointer,
	    (own.pd, &init));
	init.attr.max_wr = 4, init.attr.max_sge = UINT32_MAX;
	ROW(ibv_create_srq, "srq_init_attr max_sge above", EINVAL, of_pointer,
	    (own.pd, &init));
	OBJECT(ibv_modify_srq, "srq", srq, EINVAL, of_errno, (o, &attr, IBV_SRQ_LIMIT));
	ROW(ibv_modify_srq, "srq_attr NULL", EINVAL, of_errno,
	    (own.srq, NULL, IBV_SRQ_LIMIT));
	attr.srq_limit = UINT32_MAX;
	ROW(ibv_modify_srq, "srq_attr srq_limit above", EINVAL, of_errno,
	    (own.srq, &attr, IBV_SRQ_LIMIT));
	ROW(ibv_modify_srq, "srq_attr_mask unknown", EINVAL, of_errno,
	    (own.srq, &attr, 1 << 30));
	OBJECT(ibv_query_srq, "srq", srq, EINVAL, of_errno, (o, &attr));
	ROW(ibv_query_srq, "srq_attr NULL", EINVAL, of_errno, (own.srq, NULL));
	OBJECT(ibv_destroy_srq, "srq", srq, ENOENT, of_errno, (o));
}

static struct ibv_ah_attr path(void)
{
	return (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = 1,
				     .grh = { .dgid = gid, .sgid_index = 1 } };
}

static void addresses(void)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH }, plain = { 0 };
	struct ibv_ah_attr a = path(), out;
	struct ibv_grh grh = { .version_tclass_flow = htobe32(6u << 28), .dgid = gid };
	uint8_t mac[6];
	uint16_t vid;

	OBJECT(ibv_create_ah, "pd", pd, EINVAL, of_pointer, (o, &a));
	ROW(ibv_create_ah, "attr NULL", EINVAL, of_pointer, (own.pd, NULL));
	a.port_num = 2;
	ROW(ibv_create_ah, "attr port_num 2", EINVAL, of_pointer, (own.pd, &a));
	a = path(), a.is_global = 0;
	ROW(ibv_create_ah, "attr without a GRH", EINVAL, of_pointer, (own.pd, &a));
	a = path(), a.grh.sgid_index = 255;
	ROW(ibv_create_ah, "attr sgid_index above", EINVAL, of_pointer, (own.pd, &a));
	a = path(), memset(&a.grh.dgid, 0, 16);
	ROW(ibv_create_ah, "attr dgid zero", EINVAL, of_pointer, (own.pd, &a));
	OBJECT(ibv_destroy_ah, "ah", ah, ENOENT, of_errno, (o));
	OBJECT(ibv_init_ah_from_wc, "context", ctx, EBADF, of_errno,
	       (o, 1, &wc, &grh, &out));
	ROW(ibv_init_ah_from_wc, "port_num 2", ENODEV, of_errno,
	    (own.ctx, 2, &wc, &grh, &out));
	ROW(ibv_init_ah_from_wc, "wc NULL", EINVAL, of_errno,
	    (own.ctx, 1, NULL, &grh, &out));
	ROW(ibv_init_ah_from_wc, "wc without a GRH", EINVAL, of_errno,
	    (own.ctx, 1, &plain, &grh, &out));
	ROW(ibv_init_ah_from_wc, "grh NULL", EINVAL, of_errno,
	    (own.ctx, 1, &wc, NULL, &out));
	ROW(ibv_init_ah_from_wc, "ah_attr NULL", EINVAL, of_errno,
	    (own.ctx, 1, &wc, &grh, NULL));
	OBJECT(ibv_create_ah_from_wc, "pd", pd, EINVAL, of_pointer, (o, &wc, &grh, 1));
	ROW(ibv_create_ah_from_wc, "wc NULL", EINVAL, of_pointer,
	    (own.pd, NULL, &grh, 1));
	ROW(ibv_create_ah_from_wc, "grh NULL", EINVAL, of_pointer,
	    (own.pd, &wc, NULL, 1));
	ROW(ibv_create_ah_from_wc, "port_num 2", ENODEV, of_pointer,
	    (own.pd, &wc, &grh, 2));
	a = path();
	OBJECT(ibv_resolve_eth_l2_from_gid, "context", ctx, EBADF, of_errno,
	       (o, &a, mac, &vid));
	ROW(ibv_resolve_eth_l2_from_gid, "attr NULL", EINVAL, of_errno,
	    (own.ctx, NULL, mac, &vid));
	ROW(ibv_resolve_eth_l2_from_gid, "eth_mac NULL", EINVAL, of_errno,
	    (own.ctx, &a, NULL, &vid));
	ANY(ibv_resolve_eth_l2_from_gid, "vid NULL: not asked for");
}

void object_rows(void)
{
	domains();
	completions();
	srqs();
	addresses();
}
