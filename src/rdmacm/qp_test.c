/* SPDX-License-Identifier: BSD-2-Clause */
/* An id makes the CQs that its program does not supply. */
#include "rdmacm/qp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/connect.h"
#include "rdmacm/ep.h"
#include "rdmacm/fix.h"

static void with_queues_of_its_own(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 3, .max_recv_wr = 4, .max_send_sge = 2 },
		.qp_type = IBV_QPT_RC
	};

	(void)state;
	assert_int_equal(cma_create_qp_of(id, NULL, &attr), 0);
	assert_int_equal(fix.made, 5);
	assert_ptr_equal(attr.send_cq, id->id.send_cq);
	assert_int_equal(id->id.send_cq->cqe, 3);
	assert_ptr_equal(id->id.recv_cq->channel, id->id.recv_cq_channel);
	/* 16 bytes for each entry */
	assert_int_equal(attr.cap.max_inline_data, 32);
	/* The id has a QP already. */
	assert_int_equal(cma_create_qp_of(id, NULL, &attr), -EINVAL);
	cma_destroy_qp(id);
	cma_destroy_qp(id);
	assert_int_equal(fix.made, 0);
	assert_null(id->id.send_cq);
	assert_int_equal(cma_destroy(id), 0);
}

static void with_the_program_s(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct ibv_cq cq;
	struct ibv_qp_init_attr attr = { .send_cq = &cq,
					 .recv_cq = &cq,
					 .cap = { .max_send_wr = 1, .max_recv_wr = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_pd foreign = { .context = NULL };

	(void)state;
	assert_int_equal(cma_create_qp_of(id, &foreign, &attr), -EINVAL);
	assert_int_equal(cma_create_qp_of(id, NULL, &attr), 0);
	assert_int_equal(fix.made, 1);
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
}

static void one_without_a_device_gets_none(void **state)
{
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 1 } };

	(void)state;
	assert_int_equal(cma_create_qp(id, &attr), -EINVAL);
	assert_int_equal(cma_create_srq(id, &srq), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
}

/* The SRQ's CQ is the QP's receive CQ, too. */
static void shared_receives(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 } };
	struct ibv_cq *cq;

	(void)state;
	assert_int_equal(cma_create_srq_of(id, id->id.pd, &srq), 0);
	cq = id->id.recv_cq;
	fix_qp(id);
	assert_ptr_equal(id->id.qp->srq, id->id.srq);
	assert_ptr_equal(id->id.qp->recv_cq, cq);
	cma_destroy_qp(id);
	assert_ptr_equal(id->id.recv_cq, cq);
	cma_destroy_srq(id);
	cma_destroy_srq(id);
	assert_int_equal(fix.made, 0);
	assert_int_equal(cma_destroy(id), 0);
}

/* A QP may be busy: a peer may still be reading or writing memory that it gives access to
 * (docs/dev/direct.md). */
static void one_that_stays(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 } };
	struct ibv_qp *qp;

	(void)state;
	assert_int_equal(cma_create_srq_of(id, id->id.pd, &srq), 0);
	fix_qp(id);
	qp = id->id.qp;
	fix.busy = true;
	assert_int_equal(cma_destroy_qp(id), -EBUSY);
	assert_int_equal(cma_destroy_srq(id), -EBUSY);
	assert_ptr_equal(id->id.qp, qp);
	assert_non_null(id->id.srq);
	assert_non_null(id->id.send_cq);
	assert_non_null(id->id.recv_cq);
	fix.busy = false;
	assert_int_equal(cma_destroy_ep(id), 0);
	assert_int_equal(fix.made, 0);
}

/* An endpoint is destroyed though its QP stays: no program calls rdma_destroy_ep()
 * twice. */
static void an_endpoint_goes(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 } };
	struct rdma_cm_id was;

	(void)state;
	assert_int_equal(cma_create_srq_of(id, id->id.pd, &srq), 0);
	fix_qp(id);
	was = id->id;
	fix.busy = true;
	assert_int_equal(cma_destroy_ep(id), -EBUSY);
	fix.busy = false;
	assert_int_equal(ibv_destroy_qp(was.qp), 0);
	assert_int_equal(ibv_destroy_srq(was.srq), 0);
	assert_int_equal(ibv_destroy_cq(was.send_cq), 0);
	assert_int_equal(ibv_destroy_cq(was.recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(was.send_cq_channel), 0);
	assert_int_equal(ibv_destroy_comp_channel(was.recv_cq_channel), 0);
	assert_int_equal(fix.made, 0);
}

/* Whichever call fails, what was made before it is destroyed. */
static void nothing_is_left_behind(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	for (unsigned i = 1; i <= 6; i++) {
		struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1,
							  .max_recv_wr = 1 },
						 .qp_type = IBV_QPT_RC };
		struct ibv_srq_init_attr srq = { .attr = { .max_wr = 2 } };

		fix.fail = i;
		assert_int_equal(cma_create_qp_of(id, NULL, &attr), -ENOMEM);
		assert_int_equal(fix.made, 0);
		fix.fail = i;
		if (i <= 3)
			assert_int_equal(cma_create_srq_of(id, id->id.pd, &srq), -ENOMEM);
		assert_int_equal(fix.made, 0);
	}
	fix.fail = 0;
	assert_int_equal(cma_destroy(id), 0);
}

static struct cma_id *xrc_id(enum ibv_qp_type type)
{
	struct sockaddr_in a = fix_addr("192.0.2.1", 7174);
	struct cma_id *id;

	assert_int_equal(cma_id_new(NULL, NULL, RDMA_PS_TCP, type, &id), 0);
	assert_int_equal(cma_bind(id, (struct sockaddr *)&a), 0);
	fix_said();
	return id;
}

/* The device has a domain of its own, opened when an id first needs it. */
static void xrc_without_a_domain(void **state)
{
	struct cma_id *id = xrc_id(IBV_QPT_XRC_RECV);
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 2 },
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					    .srq_type = IBV_SRQT_XRC };
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 2 } };
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_XRC_RECV };

	(void)state;
	fix.fail = 3; /* after the CQ and its channel */
	assert_int_equal(cma_create_srq(id, &srq), -ENOMEM);
	assert_int_equal(fix.made, 0);
	assert_int_equal(cma_create_srq(id, &srq), 0);
	assert_string_equal(fix_said(), "xrcd xrcd");
	assert_ptr_equal(fix.xrcd, id->dev->xrcd);
	assert_ptr_equal(fix.cq, id->id.recv_cq);
	fix.xrcd = NULL;
	assert_int_equal(cma_create_qp_of(id, NULL, &qp), 0);
	assert_string_equal(fix_said(), "INIT");
	assert_ptr_equal(fix.xrcd, id->dev->xrcd);
	assert_ptr_equal(id->id.pd, id->dev->pd);
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy_srq(id), 0);
	fix.xrcd = NULL;
	assert_int_equal(cma_create_srq_of(id, NULL, &plain), 0);
	assert_ptr_equal(fix.xrcd, id->dev->xrcd);
	assert_int_equal(cma_destroy_ep(id), 0);
}

static void xrc_with_the_program_s(void **state)
{
	struct cma_id *id = xrc_id(IBV_QPT_XRC_RECV);
	struct ibv_xrcd xrcd;
	struct ibv_cq cq;
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = 2 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = &xrcd,
		.cq = &cq,
	};
	struct ibv_qp_init_attr_ex qp = { .qp_type = IBV_QPT_XRC_RECV,
					  .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					  .xrcd = &xrcd };

	(void)state;
	assert_int_equal(cma_create_srq(id, &srq), 0);
	assert_ptr_equal(fix.xrcd, &xrcd);
	assert_ptr_equal(fix.cq, &cq);
	assert_null(id->id.recv_cq);
	fix.xrcd = NULL;
	assert_int_equal(cma_create_qp(id, &qp), 0);
	assert_ptr_equal(fix.xrcd, &xrcd);
	assert_string_equal(fix_said(), "INIT");
	assert_int_equal(cma_destroy_ep(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(with_queues_of_its_own, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(with_the_program_s, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(one_without_a_device_gets_none, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(shared_receives, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(one_that_stays, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(an_endpoint_goes, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(nothing_is_left_behind, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(xrc_without_a_domain, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(xrc_with_the_program_s, fix_begin,
						fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
