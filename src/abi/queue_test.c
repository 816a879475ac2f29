/* SPDX-License-Identifier: BSD-2-Clause */
/* How control calls treat their arguments (cq.c, qp.c, srq.c), and the operations of a
 * context. For objects that are gone or another context's see object_test.c. */
#include <fcntl.h>

#include "abi/fix.h"
#include "verbs/complete.h"
#include "verbs/cq.h"
#include "verbs/pd.h"
#include "verbs/xrc.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

/* --- completion queues ------------------------------------------------------------- */

static void cqs(void **state)
{
	struct ibv_cq *cq;
	int mark;

	(void)state;
	fix_null(ibv_create_cq(fix.ibv, 0, NULL, NULL, 0), EINVAL);
	fix_null(ibv_create_cq(fix.ibv, -1, NULL, NULL, 0), EINVAL);
	fix_null(ibv_create_cq(fix.ibv, 4, NULL, NULL, 1), EINVAL);
	fix_null(ibv_create_cq(fix.ibv, 4, NULL, NULL, -1), EINVAL);
	cq = ibv_create_cq(fix.ibv, 1, &mark, NULL, 0);
	assert_int_equal(cq->cqe, 4); /* rounded up, as an RNIC does */
	assert_ptr_equal(cq->cq_context, &mark);
	assert_int_equal(ibv_resize_cq(cq, 9), 0);
	assert_string_equal(fix_said(), "flush");
	assert_true(cq->cqe >= 9);
	assert_int_equal(ibv_resize_cq(cq, 3), 0);
	assert_int_equal(cq->cqe, 4);
	fix_errno(ibv_resize_cq(cq, 0), EINVAL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	cq = ibv_create_cq(fix.ibv, 5, NULL, NULL, 0);
	assert_int_equal(cq->cqe, 5);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* An allocator of the program's makes calls of its own. The call that it is a part of is
 * not cancelled before its end, either. */
static void calls_of_its_own(void)
{
	int was;

	assert_int_equal(ibv_dealloc_pd(ibv_alloc_pd(fix.ibv)), 0);
	assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was), 0);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
}

static void *take(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		  uint64_t type)
{
	void *at = NULL;

	(void)pd, (void)type;
	++*(int *)context;
	calls_of_its_own();
	assert_int_equal(posix_memalign(&at, alignment, size), 0);
	return at;
}

static void give(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)pd, (void)type;
	--*(int *)context;
	calls_of_its_own();
	free(at);
}

static void allocators_make_calls(void **state)
{
	int taken = 0;
	struct ibv_parent_domain_init_attr how = {
		.pd = fix.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = take,
		.free = give,
		.pd_context = &taken,
	};
	struct ibv_pd *parent = abi_alloc_parent_domain(fix.ibv, &how);
	struct ibv_srq_init_attr attr = { .attr = { 16, 4, 0 } };
	struct ibv_srq *srq = ibv_create_srq(parent, &attr);
	int was;

	(void)state;
	assert_non_null(srq);
	assert_true(taken > 1);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was), 0);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

static void extended_cqs(void **state)
{
	struct ibv_parent_domain_init_attr how = { .pd = fix.pd };
	struct ibv_pd *parent = abi_alloc_parent_domain(fix.ibv, &how);
	const struct {
		struct ibv_cq_init_attr_ex attr;
		int err;
		bool overrun, stamped;
	} row[] = {
		{ { .cqe = 4 }, 0, false, false },
		{ { .cqe = 0 }, EINVAL, false, false },
		{ { .cqe = 4, .comp_vector = 1 }, EINVAL, false, false },
		{ { .cqe = 4, .comp_mask = 4 }, EOPNOTSUPP, false, false },
		{ { .cqe = 4, .wc_flags = 1ull << 63 }, EOPNOTSUPP, false, false },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG },
		  EOPNOTSUPP,
		  false,
		  false },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN }, 0, false, false },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_IMM }, 0, false, false },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP },
		  0,
		  false,
		  true },
		{ { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK },
		  0,
		  false,
		  true },
		/* Flags are ignored unless the mask names them. */
		{ { .cqe = 4, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
		  0,
		  false,
		  false },
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
		  0,
		  true,
		  false },
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		    .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED },
		  0,
		  false,
		  false },
		{ { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 4 },
		  EOPNOTSUPP,
		  false,
		  false },
		/* A parent domain must be of that kind. */
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		    .parent_domain = parent },
		  0,
		  false,
		  false },
		{ { .cqe = 4,
		    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		    .parent_domain = fix.pd },
		  EINVAL,
		  false,
		  false },
		{ { .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD },
		  EINVAL,
		  false,
		  false },
		{ { .cqe = 4, .parent_domain = fix.pd }, 0, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_cq_init_attr_ex attr = row[i].attr;
		struct ibv_cq_ex *ex;
		struct cq *cq;

		errno = 0;
		ex = abi_create_cq_ex(fix.ibv, &attr);
		if (row[i].err != errno || !ex != !!row[i].err)
			fail_msg("row %zu: errno %d", i, errno);
		if (!ex)
			continue;
		cq = cq_of((struct ibv_cq *)ex);
		assert_int_equal(cq->ignore_overrun, row[i].overrun);
		assert_int_equal(cq->stamped, row[i].stamped);
		assert_ptr_equal(cq->in, row[i].attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD
						 ? pd_of(parent)
						 : NULL);
		assert_non_null(ex->start_poll);
		assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
	}
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void moderation(void **state)
{
	const struct {
		uint32_t mask;
		uint16_t count, period;
		int err;
	} row[] = {
		{ 0, 9, 9, 0 },
		{ IBV_CQ_ATTR_MODERATE, 1, 0, 0 },
		{ IBV_CQ_ATTR_MODERATE, 0, 0, 0 },
		{ IBV_CQ_ATTR_MODERATE, 2, 0, EOPNOTSUPP },
		{ IBV_CQ_ATTR_MODERATE, 1, 1, EOPNOTSUPP },
		{ 2, 0, 0, EINVAL },
		{ IBV_CQ_ATTR_MODERATE | 2, 0, 0, EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_modify_cq_attr attr = { row[i].mask,
						   { row[i].count, row[i].period } };

		assert_int_equal(abi_modify_cq(fix.cq, &attr), row[i].err);
	}
}

/* --- queue pairs --------------------------------------------------------- */

static int to(struct ibv_qp *qp, enum ibv_qp_state next, int more)
{
	struct ibv_qp_attr attr = { .qp_state = next,
				    .port_num = 1,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = 0x1234,
				    .max_dest_rd_atomic = 1,
				    .ah_attr = fix_path() };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
}

enum {
	INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	INIT_UD = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	RTR = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
};

static void creates_a_qp(void **state)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = fix.cq,
		.recv_cq = fix.cq,
		.cap = { 3, 3, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.qp_context = &attr,
	};
	struct ibv_qp *qp = ibv_create_qp(fix.pd, &attr);
	uint32_t number;

	(void)state;
	assert_ptr_equal(qp->qp_context, &attr);
	assert_ptr_equal(qp->pd, fix.pd);
	assert_true(qp_of(qp)->sig_all);
	assert_true(attr.cap.max_send_wr >= 3);
	assert_int_equal(attr.cap.max_send_wr, qp_of(qp)->init.cap.max_send_wr);
	number = qp->qp_num;
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_string_equal(fix_said(), "flush fence");
	assert_int_equal(fix.number, number);
	attr.cap.max_send_sge = 4711;
	fix_null(ibv_create_qp(fix.pd, &attr), EINVAL);
	assert_int_equal(attr.cap.max_send_sge, 4711);
}

/* Before RTR: the path is looked up, and the UDP port is bound for what arrives. */
static void goes_to_rtr(void **state)
{
	const struct ibv_ah_attr path = fix_path();
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);

	(void)state;
	assert_int_equal(to(qp, IBV_QPS_INIT, INIT), 0);
	assert_string_equal(fix_said(), "fence"); /* its access flags changed */
	assert_int_equal(fix.number, qp->qp_num);
	fix.listen_rc = -EADDRINUSE;
	fix_errno(to(qp, IBV_QPS_RTR, RTR), EADDRINUSE);
	assert_string_equal(fix_said(), "route listen");
	fix.listen_rc = 0;
	fix.route_rc = -ENOMEM;
	fix_errno(to(qp, IBV_QPS_RTR, RTR), ENOMEM);
	assert_string_equal(fix_said(), "route");
	assert_memory_equal(fix.told, path.grh.dgid.raw, 16);
	assert_int_equal(fix.number, 0x1234);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	fix.route_rc = 0;
	assert_int_equal(to(qp, IBV_QPS_RTR, RTR), 0);
	assert_string_equal(fix_said(), "route listen post");
	assert_false(fix.nested);
	assert_int_equal(fix.told[15], 1); /* our address */
	assert_false(fix.any_device);
	assert_int_equal(to(qp, IBV_QPS_RESET, 0), 0);
	assert_string_equal(fix_said(), "flush fence");
	/* A QP to the same host needs no UDP port. */
	fix.route_rc = 1;
	assert_int_equal(to(qp, IBV_QPS_INIT, INIT), 0);
	inside_begin(); /* as while a call is interrupted */
	fix_errno(to(qp, IBV_QPS_RTR, RTR), EDEADLK);
	abi_end();
	assert_int_equal(to(qp, IBV_QPS_RTR, RTR), 0);
	assert_string_equal(fix_said(), "fence route post");
	assert_int_equal(to(qp, IBV_QPS_ERR, 0), 0);
	assert_string_equal(fix_said(), "flush fence post");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* verbs/ reports what is wrong with the call or the path, and no UDP port is bound. */
static void does_not_go_to_rtr(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	(void)state;
	assert_int_equal(to(qp, IBV_QPS_INIT, INIT), 0);
	fix_said();
	fix_errno(to(qp, IBV_QPS_RTR, RTR & ~IBV_QP_AV), EINVAL);
	assert_string_equal(fix_said(), "");
	attr.ah_attr = fix_path();
	attr.ah_attr.grh.sgid_index = 5; /* a free entry */
	fix_errno(ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTR), EINVAL);
	attr.ah_attr.grh.sgid_index = 1;
	attr.ah_attr.port_num = 2;
	fix_errno(ibv_modify_qp(qp, &attr, IBV_QP_STATE | RTR), EINVAL);
	assert_string_equal(fix_said(), "");
	/* Without a destination QP number none is passed on. */
	attr.ah_attr.port_num = 1;
	attr.dest_qp_num = 7;
	fix.number = 99;
	fix_errno(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (RTR & ~IBV_QP_DEST_QPN)),
		  EINVAL);
	assert_int_equal(fix.number, 0);
	fix_said();
	/* RTR that the mask does not name. */
	fix_errno(ibv_modify_qp(qp, &attr, RTR), EINVAL);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void datagrams_come_from_anywhere(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_UD);

	(void)state;
	assert_int_equal(to(qp, IBV_QPS_INIT, INIT_UD), 0);
	assert_string_equal(fix_said(), "");
	assert_int_equal(to(qp, IBV_QPS_RTR, 0), 0);
	assert_string_equal(fix_said(), "listen-any post");
	assert_false(fix.any_device);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* A peer of this host is in the middle of a copy to our memory. */
static void is_not_left_alone(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC), *last = fix_qp(IBV_QPT_RC);

	(void)state;
	fix.fence_rc = -EBUSY;
	fix_errno(to(qp, IBV_QPS_ERR, 0), EBUSY);
	assert_int_equal(qp->state, IBV_QPS_ERR); /* nevertheless */
	assert_string_equal(fix_said(), "flush fence post");
	qp_of(qp)->same_host = true;
	fix_errno(ibv_destroy_qp(qp), EBUSY);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_string_equal(fix_said(), "flush fence");
	fix_errno(ibv_destroy_qp(qp), EBUSY);
	fix.fence_rc = 0;
	fix_said();
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_string_equal(fix_said(), "flush fence fence");
	fix.fence_rc = -EBUSY; /* for a QP that no peer knows */
	assert_int_equal(ibv_destroy_qp(last), 0);
	assert_string_equal(fix_said(), "flush fence");
}

static void queries_a_qp(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	(void)state;
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, 0x1234);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	/* The program sees that the QP has failed where it asks for the state. */
	lock_take(&qp_of(qp)->lock);
	qp_set_state(qp_of(qp), IBV_QPS_ERR);
	lock_give(&qp_of(qp)->lock);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV | IBV_QP_STATE, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* Multicast: the NIC joins at each first attach. */
static void groups(void **state)
{
	union ibv_gid gid = { .raw = { [10] = 255, 255, 239, 1, 2, 3 } };
	struct ibv_qp *qp = fix_qp(IBV_QPT_UD), *rc = fix_qp(IBV_QPT_RC);

	(void)state;
	fix_errno(ibv_attach_mcast(rc, &gid, 0), EINVAL);
	assert_string_equal(fix_said(), "");
	assert_int_equal(ibv_attach_mcast(qp, &gid, 0), 0);
	assert_string_equal(fix_said(), "join");
	assert_memory_equal(fix.told, &gid, 16);
	assert_int_equal(ibv_attach_mcast(qp, &gid, 0), 0);
	assert_string_equal(fix_said(), "");
	fix_errno(ibv_destroy_qp(qp), EBUSY);
	assert_string_equal(fix_said(), "flush");
	assert_int_equal(ibv_detach_mcast(qp, &gid, 0), 0);
	assert_string_equal(fix_said(), "leave");
	fix_errno(ibv_detach_mcast(qp, &gid, 0), EINVAL);
	assert_string_equal(fix_said(), "");
	fix.join_rc = -ENOBUFS;
	fix_errno(ibv_attach_mcast(qp, &gid, 0), ENOBUFS);
	fix.join_rc = 0;
	assert_int_equal(ibv_destroy_qp(rc), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0); /* it has left all groups */
}

/* --- shared receive queues ------------------------------------------------ */

static void srqs(void **state)
{
	struct ibv_srq *srq = fix_srq();
	struct ibv_srq_attr attr;
	uint32_t num = 0;

	(void)state;
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr >= 4);
	attr.max_wr = 100;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_true(attr.max_wr >= 100);
	fix_errno(ibv_modify_srq(srq, &attr, 1 << 30), EINVAL);
	assert_int_equal(abi_get_srq_num(srq, &num), 0);
	assert_int_not_equal(num, 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void extended_srqs(void **state)
{
	enum {
		PD = IBV_SRQ_INIT_ATTR_PD,
		XRC = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
		      IBV_SRQ_INIT_ATTR_CQ,
		TYPE = IBV_SRQ_INIT_ATTR_TYPE,
		TAGS = TYPE | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};
	struct ibv_xrcd_init_attr init = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *x = abi_open_xrcd(fix.ibv, &init);
	const struct {
		uint32_t mask;
		enum ibv_srq_type type;
		struct ibv_pd *pd;
		struct ibv_xrcd *xrcd;
		struct ibv_cq *cq;
		int err;
	} row[] = {
		/* The mask does not name the type. */
		{ PD, IBV_SRQT_XRC, fix.pd, NULL, NULL, 0 },
		{ PD | TYPE, IBV_SRQT_BASIC, fix.pd, x, fix.cq, 0 },
		{ TYPE, IBV_SRQT_BASIC, fix.pd, NULL, NULL, EINVAL },
		{ PD, IBV_SRQT_BASIC, NULL, NULL, NULL, EINVAL },
		{ PD | TYPE, IBV_SRQT_TM, fix.pd, NULL, fix.cq, EINVAL },
		{ PD | TAGS, IBV_SRQT_TM, fix.pd, NULL, fix.cq, 0 },
		{ PD | TAGS, IBV_SRQT_TM, fix.pd, NULL, NULL, EINVAL },
		{ PD | (TAGS & ~IBV_SRQ_INIT_ATTR_CQ), IBV_SRQT_TM, fix.pd, NULL, fix.cq,
		  EINVAL },
		{ PD | TYPE, (enum ibv_srq_type)9, fix.pd, NULL, NULL, EOPNOTSUPP },
		{ PD | IBV_SRQ_INIT_ATTR_RESERVED, IBV_SRQT_BASIC, fix.pd, NULL, NULL,
		  EOPNOTSUPP },
		{ PD | XRC, IBV_SRQT_XRC, fix.pd, x, fix.cq, 0 },
		{ PD | XRC, IBV_SRQT_XRC, fix.pd, NULL, fix.cq, EINVAL },
		{ PD | XRC, IBV_SRQT_XRC, fix.pd, x, NULL, EINVAL },
		{ PD | TYPE, IBV_SRQT_XRC, fix.pd, x, fix.cq, EINVAL },
		{ PD | (XRC & ~IBV_SRQ_INIT_ATTR_CQ), IBV_SRQT_XRC, fix.pd, x, fix.cq,
		  EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct ibv_srq_init_attr_ex attr = {
			.srq_context = &attr,
			.attr = { 3, 1, 0 },
			.comp_mask = row[i].mask,
			.srq_type = row[i].type,
			.pd = row[i].pd,
			.xrcd = row[i].xrcd,
			.cq = row[i].cq,
			.tm_cap = { 4, 4 },
		};
		struct ibv_srq *srq;
		bool xrc, tags;

		errno = 0;
		srq = abi_create_srq_ex(fix.ibv, &attr);
		if (errno != row[i].err || !srq != !!row[i].err)
			fail_msg("row %zu: errno %d", i, errno);
		if (!srq)
			continue;
		xrc = row[i].mask & TYPE && row[i].type == IBV_SRQT_XRC;
		tags = row[i].mask & TYPE && row[i].type == IBV_SRQT_TM;
		assert_ptr_equal(srq_of(srq)->cq, xrc || tags ? cq_of(fix.cq) : NULL);
		assert_int_equal(!srq_of(srq)->hooks, !xrc && !tags);
		if (xrc)
			assert_ptr_equal(srq_of(srq)->kind, xrcd_of(x));
		assert_ptr_equal(srq->srq_context, &attr);
		assert_int_equal(attr.attr.max_wr, srq_of(srq)->rq.cap);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	assert_int_equal(abi_close_xrcd(x), 0);
	init.comp_mask = 0;
	fix_null(abi_open_xrcd(fix.ibv, &init), EINVAL);
}

/* Each supported operation can be reached through the context. */
static void operations(void **state)
{
	const struct verbs_context *v = &abi_of(fix.ibv)->ctx.verbs;
	const struct ibv_context_ops *ops = &v->context.ops;

	(void)state;
	assert_ptr_equal(ops->alloc_mw, abi_alloc_mw);
	assert_ptr_equal(ops->bind_mw, abi_bind_mw);
	assert_ptr_equal(ops->dealloc_mw, abi_dealloc_mw);
	assert_ptr_equal(ops->poll_cq, abi_poll_cq);
	assert_ptr_equal(ops->req_notify_cq, abi_req_notify_cq);
	assert_ptr_equal(ops->post_srq_recv, abi_post_srq_recv);
	assert_ptr_equal(ops->post_send, abi_post_send);
	assert_ptr_equal(ops->post_recv, abi_post_recv);
	assert_ptr_equal(v->query_port, abi_query_port);
	assert_ptr_equal(v->query_device_ex, abi_query_device_ex);
	assert_ptr_equal(v->query_rt_values, abi_query_rt_values);
	assert_ptr_equal(v->create_cq_ex, abi_create_cq_ex);
	assert_ptr_equal(v->modify_cq, abi_modify_cq);
	assert_ptr_equal(v->create_qp_ex, abi_create_qp_ex);
	assert_ptr_equal(v->create_srq_ex, abi_create_srq_ex);
	assert_ptr_equal(v->get_srq_num, abi_get_srq_num);
	assert_ptr_equal(v->open_xrcd, abi_open_xrcd);
	assert_ptr_equal(v->close_xrcd, abi_close_xrcd);
	assert_ptr_equal(v->alloc_td, abi_alloc_td);
	assert_ptr_equal(v->dealloc_td, abi_dealloc_td);
	assert_ptr_equal(v->alloc_parent_domain, abi_alloc_parent_domain);
	assert_ptr_equal(v->alloc_dm, abi_alloc_dm);
	assert_ptr_equal(v->free_dm, abi_free_dm);
	assert_ptr_equal(v->reg_dm_mr, abi_reg_dm_mr);
	assert_ptr_equal(v->alloc_null_mr, abi_alloc_null_mr);
	assert_ptr_equal(v->advise_mr, abi_advise_mr);
	assert_ptr_equal(v->create_counters, abi_create_counters);
	assert_ptr_equal(v->attach_counters_point_flow, abi_attach_counters_point_flow);
	assert_ptr_equal(v->read_counters, abi_read_counters);
	assert_ptr_equal(v->destroy_counters, abi_destroy_counters);
	assert_non_null(v->create_flow_action_esp); /* all others return EOPNOTSUPP */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cqs),
		TEST(allocators_make_calls),
		TEST(extended_cqs),
		TEST(moderation),
		TEST(creates_a_qp),
		TEST(goes_to_rtr),
		TEST(does_not_go_to_rtr),
		TEST(datagrams_come_from_anywhere),
		TEST(is_not_left_alone),
		TEST(queries_a_qp),
		TEST(groups),
		TEST(srqs),
		TEST(extended_srqs),
		TEST(operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
