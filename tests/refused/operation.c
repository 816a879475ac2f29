/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations that inline functions of verbs.h call through a pointer in the context.
 * src/abi/ops_test.c tests those that urnic does not have. */
#include "refused.h"

#include <infiniband/tm_types.h>

#define OPS	      verbs_get_ctx(own.ctx)
#define OLD	      own.ctx->ops
#define OP(name, ...) ROW_OF(#name, __VA_ARGS__)
#define OP_OBJECT(name, text, kind, want, how, call)                                     \
	do {                                                                             \
		void *o = NULL;                                                          \
		OP(name, text " NULL", want, how, call);                                 \
		o = gone.kind;                                                           \
		OP(name, text " freed", want, how, call);                                \
	} while (0)

static void queries(void)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex device_attr;
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_port_attr port;
	struct ibv_sge sge = { (uintptr_t)memory, 8, 1 };

	OP_OBJECT(query_port, "context", ctx, EBADF, of_errno,
		  OPS->query_port(o, 1, &port, sizeof(port)));
	OP(query_port, "port_num 2", EINVAL, of_errno,
	   OPS->query_port(own.ctx, 2, &port, sizeof(port)));
	OP(query_port, "port_attr NULL", EINVAL, of_errno,
	   OPS->query_port(own.ctx, 1, NULL, sizeof(port)));
	OP_OBJECT(query_device_ex, "context", ctx, EBADF, of_errno,
		  OPS->query_device_ex(o, NULL, &device_attr, sizeof(device_attr)));
	OP(query_device_ex, "input unknown", EINVAL, of_errno,
	   OPS->query_device_ex(own.ctx, &input, &device_attr, sizeof(device_attr)));
	OP(query_device_ex, "attr NULL", EINVAL, of_errno,
	   OPS->query_device_ex(own.ctx, NULL, NULL, sizeof(device_attr)));
	OP_OBJECT(query_rt_values, "context", ctx, EBADF, of_errno,
		  OPS->query_rt_values(o, &values));
	OP(query_rt_values, "values NULL", EINVAL, of_errno,
	   OPS->query_rt_values(own.ctx, NULL));
	OP_OBJECT(advise_mr, "pd", pd, EINVAL, of_errno,
		  OPS->advise_mr(o, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	OP(advise_mr, "sg_list NULL", EINVAL, of_errno,
	   OPS->advise_mr(own.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1));
	OP_OBJECT(alloc_null_mr, "pd", pd, EINVAL, of_pointer, OPS->alloc_null_mr(o));
	OP_OBJECT(get_srq_num, "srq", srq, EINVAL, of_errno,
		  OPS->get_srq_num(o, &(uint32_t){ 0 }));
	OP(get_srq_num, "srq_num NULL", EINVAL, of_errno,
	   OPS->get_srq_num(own.srq, NULL));
}

static void create(void)
{
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_RC,
					  .send_cq = own.cq,
					  .recv_cq = own.cq,
					  .cap = { 1, 1, 1, 1, 0 },
					  .pd = own.pd };
	struct ibv_flow_attr flow = { 0 };
	struct ibv_cq_init_attr_ex cq = { .cqe = 4, .channel = gone.channel };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ,
				       .pd = gone.pd,
				       .cq = gone.cq };
	struct ibv_wq *stranger = (struct ibv_wq *)memory;
	struct ibv_srq_init_attr_ex srq = { .attr = { 4, 1, 0 },
					    .comp_mask = IBV_SRQ_INIT_ATTR_PD,
					    .pd = gone.pd };

	OP_OBJECT(create_qp_ex, "context", ctx, EBADF, of_pointer,
		  OPS->create_qp_ex(o, &qp));
	OP(create_qp_ex, "attr NULL", EINVAL, of_pointer,
	   OPS->create_qp_ex(own.ctx, NULL));
	OP(create_qp_ex, "attr pd not in comp_mask", EINVAL, of_pointer,
	   OPS->create_qp_ex(own.ctx, &qp));
	OP_OBJECT(create_cq_ex, "context", ctx, EBADF, of_pointer,
		  (void *)OPS->create_cq_ex(o, &cq));
	OP(create_cq_ex, "attr NULL", EINVAL, of_pointer,
	   (void *)OPS->create_cq_ex(own.ctx, NULL));
	OP(create_cq_ex, "attr channel freed", EBADF, of_pointer,
	   (void *)OPS->create_cq_ex(own.ctx, &cq));
	OP_OBJECT(ibv_create_flow, "qp", qp, EINVAL, of_pointer,
		  OPS->ibv_create_flow(o, &flow));
	OP(ibv_create_flow, "qp that is not raw", EINVAL, of_pointer,
	   OPS->ibv_create_flow(own.rc, &flow));
	OP(ibv_create_flow, "flow NULL", EINVAL, of_pointer,
	   OPS->ibv_create_flow(own.qp, NULL));
	OP(ibv_destroy_flow, "flow_id NULL", EINVAL, of_errno,
	   OPS->ibv_destroy_flow(NULL));
	OP_OBJECT(modify_cq, "cq", cq, EINVAL, of_errno,
		  OPS->modify_cq(o, &(struct ibv_modify_cq_attr){ 0 }));
	OP(modify_cq, "attr NULL", EINVAL, of_errno, OPS->modify_cq(own.cq, NULL));
	OP_OBJECT(create_srq_ex, "context", ctx, EBADF, of_pointer,
		  OPS->create_srq_ex(o, &srq));
	OP(create_srq_ex, "attr NULL", EINVAL, of_pointer,
	   OPS->create_srq_ex(own.ctx, NULL));
	OP(create_srq_ex, "attr pd freed", EINVAL, of_pointer,
	   OPS->create_srq_ex(own.ctx, &srq));
	OP_OBJECT(open_qp, "context", ctx, EBADF, of_pointer,
		  OPS->open_qp(o, &(struct ibv_qp_open_attr){ 0 }));
	OP(open_qp, "attr NULL", EINVAL, of_pointer, OPS->open_qp(own.ctx, NULL));
	OP(open_qp, "attr empty", EINVAL, of_pointer,
	   OPS->open_qp(own.ctx, &(struct ibv_qp_open_attr){ 0 }));
	OP_OBJECT(create_wq, "context", ctx, EBADF, of_pointer, OPS->create_wq(o, &wq));
	OP(create_wq, "attr NULL", EINVAL, of_pointer, OPS->create_wq(own.ctx, NULL));
	OP(create_wq, "attr pd freed", EINVAL, of_pointer, OPS->create_wq(own.ctx, &wq));
	wq.pd = own.pd;
	OP(create_wq, "attr cq freed", EINVAL, of_pointer, OPS->create_wq(own.ctx, &wq));
	wq.cq = own.cq;
	OP(create_wq, "attr max_wr 0", EINVAL, of_pointer, OPS->create_wq(own.ctx, &wq));
	OP(modify_wq, "wq NULL", EINVAL, of_errno,
	   OPS->modify_wq(NULL, &(struct ibv_wq_attr){ 0 }));
	OP(modify_wq, "attr NULL", EINVAL, of_errno, OPS->modify_wq(NULL, NULL));
	OP(destroy_wq, "wq NULL", ENOENT, of_errno, OPS->destroy_wq(NULL));
	OP_OBJECT(create_rwq_ind_table, "context", ctx, EBADF, of_pointer,
		  OPS->create_rwq_ind_table(o, &table));
	OP(create_rwq_ind_table, "attr NULL", EINVAL, of_pointer,
	   OPS->create_rwq_ind_table(own.ctx, NULL));
	OP(create_rwq_ind_table, "attr without queues", EINVAL, of_pointer,
	   OPS->create_rwq_ind_table(own.ctx, &table));
	table.ind_tbl = &stranger;
	OP(create_rwq_ind_table, "attr with what is no queue", EINVAL, of_pointer,
	   OPS->create_rwq_ind_table(own.ctx, &table));
	OP(destroy_rwq_ind_table, "table NULL", ENOENT, of_errno,
	   OPS->destroy_rwq_ind_table(NULL));
	OP_OBJECT(modify_qp_rate_limit, "qp", qp, EINVAL, of_errno,
		  OPS->modify_qp_rate_limit(o, &(struct ibv_qp_rate_limit_attr){ 0 }));
	OP(modify_qp_rate_limit, "qp that is not raw", EOPNOTSUPP, of_errno,
	   OPS->modify_qp_rate_limit(own.rc, &(struct ibv_qp_rate_limit_attr){ 0 }));
	OP(modify_qp_rate_limit, "attr NULL", EINVAL, of_errno,
	   OPS->modify_qp_rate_limit(own.rc, NULL));
	OP(post_srq_ops, "srq without tags", EINVAL, of_errno,
	   OPS->post_srq_ops(own.srq, &(struct ibv_ops_wr){ 0 },
			     &(struct ibv_ops_wr *){ 0 }));
}

static void counting(void)
{
	struct ibv_counters_init_attr none = { 0 }, unknown = { .comp_mask = 1 };
	struct ibv_counter_attach_attr at = { .comp_mask = 1 };
	struct ibv_counters *c = OPS->create_counters(own.ctx, &none);
	struct ibv_counters *stranger = OPS->create_counters(foreign.ctx, &none);
	struct ibv_flow *no_flow = (struct ibv_flow *)memory;
	uint64_t value;

	OP_OBJECT(create_counters, "context", ctx, EBADF, of_pointer,
		  OPS->create_counters(o, &none));
	OP(create_counters, "init_attr NULL", EINVAL, of_pointer,
	   OPS->create_counters(own.ctx, NULL));
	OP(create_counters, "init_attr comp_mask unknown", EOPNOTSUPP, of_pointer,
	   OPS->create_counters(own.ctx, &unknown));
	OP(attach_counters_point_flow, "counters NULL", EINVAL, of_errno,
	   OPS->attach_counters_point_flow(NULL, &at, NULL));
	OP(attach_counters_point_flow, "attr NULL", EINVAL, of_errno,
	   OPS->attach_counters_point_flow(c, NULL, NULL));
	OP(attach_counters_point_flow, "attr comp_mask unknown", EOPNOTSUPP, of_errno,
	   OPS->attach_counters_point_flow(c, &at, NULL));
	at.comp_mask = 0, at.counter_desc = (enum ibv_counter_description)2;
	OP(attach_counters_point_flow, "attr counter_desc unknown", EOPNOTSUPP, of_errno,
	   OPS->attach_counters_point_flow(c, &at, NULL));
	at.counter_desc = IBV_COUNTER_BYTES;
	OP(attach_counters_point_flow, "flow that is none", EINVAL, of_errno,
	   OPS->attach_counters_point_flow(c, &at, no_flow));
	OP(read_counters, "counters NULL", EINVAL, of_errno,
	   OPS->read_counters(NULL, &value, 1, 0));
	OP(read_counters, "counters_value NULL", EINVAL, of_errno,
	   OPS->read_counters(c, NULL, 1, 0));
	OP(read_counters, "counters that no flow names", EINVAL, of_errno,
	   OPS->read_counters(c, &value, 1, 0));
	OP(read_counters, "flags unknown", EINVAL, of_errno,
	   OPS->read_counters(c, &value, 1, 2));
	OP(destroy_counters, "counters NULL", ENOENT, of_errno,
	   OPS->destroy_counters(NULL));
	OP(destroy_counters, "counters", 0, of_errno, OPS->destroy_counters(c));
	OP(destroy_counters, "counters freed", ENOENT, of_errno,
	   OPS->destroy_counters(c));
	OP(attach_counters_point_flow, "counters freed", EINVAL, of_errno,
	   OPS->attach_counters_point_flow(c, &at, NULL));
	OP(read_counters, "counters freed", EINVAL, of_errno,
	   OPS->read_counters(c, &value, 1, 0));
	OP(destroy_counters, "counters of another context", 0, of_errno,
	   OPS->destroy_counters(stranger));
}

/* A target QP has neither PD nor queues: these fields are ignored. */
static int target_with_garbage(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_XRC_RECV,
					 .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					 .xrcd = xrcd,
					 .pd = gone.pd,
					 .send_cq = gone.cq,
					 .recv_cq = gone.cq,
					 .srq = gone.srq };
	struct ibv_qp *qp = OPS->create_qp_ex(own.ctx, &a);

	if (!qp)
		return errno;
	ROW_OF("close_xrcd", "xrcd with a queue pair", EBUSY, of_errno,
	       OPS->close_xrcd(xrcd));
	return ibv_destroy_qp(qp);
}

static void domains(void)
{
	struct ibv_parent_domain_init_attr parent = { .pd = gone.pd };
	struct ibv_td_init_attr td = { .comp_mask = 1 };
	struct ibv_xrcd_init_attr xrcd = { .fd = -1 };

	OP_OBJECT(alloc_td, "context", ctx, EBADF, of_pointer, OPS->alloc_td(o, &td));
	OP(alloc_td, "attr NULL", EINVAL, of_pointer, OPS->alloc_td(own.ctx, NULL));
	OP(alloc_td, "attr comp_mask unknown", EINVAL, of_pointer,
	   OPS->alloc_td(own.ctx, &td));
	OP_OBJECT(dealloc_td, "td", td, ENOENT, of_errno, OPS->dealloc_td(o));
	OP_OBJECT(alloc_parent_domain, "context", ctx, EBADF, of_pointer,
		  OPS->alloc_parent_domain(o, &parent));
	OP(alloc_parent_domain, "attr NULL", EINVAL, of_pointer,
	   OPS->alloc_parent_domain(own.ctx, NULL));
	OP(alloc_parent_domain, "attr pd freed", EINVAL, of_pointer,
	   OPS->alloc_parent_domain(own.ctx, &parent));
	parent.pd = own.pd, parent.td = gone.td;
	OP(alloc_parent_domain, "attr td freed", EINVAL, of_pointer,
	   OPS->alloc_parent_domain(own.ctx, &parent));
	OP_OBJECT(open_xrcd, "context", ctx, EBADF, of_pointer, OPS->open_xrcd(o, &xrcd));
	OP(open_xrcd, "attr NULL", EINVAL, of_pointer, OPS->open_xrcd(own.ctx, NULL));
	OP(open_xrcd, "attr without fd and oflags", EINVAL, of_pointer,
	   OPS->open_xrcd(own.ctx, &xrcd));
	OP_OBJECT(close_xrcd, "xrcd", xrcd, ENOENT, of_errno, OPS->close_xrcd(o));
	ROW_OF("create_qp_ex", "attr with fields that comp_mask does not name", 0,
	       target_with_garbage, own.xrcd);
}

static void memories(void)
{
	struct ibv_mw_bind bind = { .bind_info = { .mr = gone.mr } };
	struct ibv_mr *mr;

	OP_OBJECT(alloc_dm, "context", ctx, EBADF, of_pointer,
		  OPS->alloc_dm(o, &(struct ibv_alloc_dm_attr){ .length = 8 }));
	OP(alloc_dm, "attr NULL", EINVAL, of_pointer, OPS->alloc_dm(own.ctx, NULL));
	OP(alloc_dm, "attr length 0", EINVAL, of_pointer,
	   OPS->alloc_dm(own.ctx, &(struct ibv_alloc_dm_attr){ .length = 0 }));
	OP_OBJECT(free_dm, "dm", dm, ENOENT, of_errno, OPS->free_dm(o));
	OP_OBJECT(reg_dm_mr, "pd", pd, EINVAL, of_pointer,
		  OPS->reg_dm_mr(o, own.dm, 0, 8, IBV_ACCESS_ZERO_BASED));
	OP_OBJECT(reg_dm_mr, "dm", dm, EINVAL, of_pointer,
		  OPS->reg_dm_mr(own.pd, o, 0, 8, IBV_ACCESS_ZERO_BASED));
	OP(reg_dm_mr, "dm_offset above", EINVAL, of_pointer,
	   OPS->reg_dm_mr(own.pd, own.dm, 1 << 20, 8, IBV_ACCESS_ZERO_BASED));
	mr = OPS->reg_dm_mr(own.pd, own.dm, 0, 8, IBV_ACCESS_ZERO_BASED);
	OP(free_dm, "dm with a region", EBUSY, of_errno, OPS->free_dm(own.dm));
	ROW(ibv_dereg_mr, "mr of device memory", 0, of_errno, (mr));

	OP_OBJECT(context.ops.alloc_mw, "pd", pd, EINVAL, of_pointer,
		  OLD.alloc_mw(o, IBV_MW_TYPE_1));
	OP(context.ops.alloc_mw, "type unknown", EINVAL, of_pointer,
	   OLD.alloc_mw(own.pd, (enum ibv_mw_type)77));
	OP_OBJECT(context.ops.dealloc_mw, "mw", mw, ENOENT, of_errno, OLD.dealloc_mw(o));
	OP_OBJECT(context.ops.bind_mw, "qp", rc, EINVAL, of_errno,
		  OLD.bind_mw(o, own.mw, &bind));
	OP_OBJECT(context.ops.bind_mw, "mw", mw, EINVAL, of_errno,
		  OLD.bind_mw(own.rc, o, &bind));
	OP(context.ops.bind_mw, "mw_bind NULL", EINVAL, of_errno,
	   OLD.bind_mw(own.rc, own.mw, NULL));
	OP(context.ops.bind_mw, "mw_bind mr freed", EINVAL, of_errno,
	   OLD.bind_mw(own.rc, own.mw, &bind));
	bind.bind_info.mr = foreign.mr;
	OP(context.ops.bind_mw, "mw_bind mr of another context", EINVAL, of_errno,
	   OLD.bind_mw(own.rc, own.mw, &bind));
}

/* The fast path checks what its pointers lead to, not whether the queue exists. */
static void posts(void)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_sge two[2] = { { 0 } };
	struct ibv_recv_wr recv = { .sg_list = two, .num_sge = 2 }, *bad_recv;
	struct ibv_wc wc;

	OP(context.ops.post_send, "qp in RESET", EINVAL, of_errno,
	   OLD.post_send(own.qp, &send, &bad_send));
	OP(context.ops.post_recv, "qp in RESET", EINVAL, of_errno,
	   OLD.post_recv(own.qp, &recv, &bad_recv));
	OP(context.ops.post_srq_recv, "recv_wr num_sge above max_sge", EINVAL, of_errno,
	   OLD.post_srq_recv(own.srq, &recv, &bad_recv));
	recv.num_sge = -1;
	OP(context.ops.post_srq_recv, "recv_wr num_sge -1", EINVAL, of_errno,
	   OLD.post_srq_recv(own.srq, &recv, &bad_recv));
	row_begin("context.ops.poll_cq", "num_entries -1");
	row_end(-OLD.poll_cq(own.cq, -1, &wc), EINVAL);
	row_begin("context.ops.poll_cq", "num_entries 0, wc NULL");
	row_end(OLD.poll_cq(own.cq, 0, NULL), 0);
	ANY(context.ops.req_notify_cq, "solicited_only: any value is yes or no");
}

void operation_rows(void)
{
	queries();
	create();
	counting();
	domains();
	memories();
	posts();
}
