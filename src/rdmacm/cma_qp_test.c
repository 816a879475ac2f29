/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes that a QP gets in each state; an id makes the CQs that its program does
 * not supply. */
#include "rdmacm/cma_qp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/bind.h"
#include "rdmacm/connect.h"
#include "rdmacm/ep.h"
#include "rdmacm/fix.h"

/* --- attributes ---------------------------------------------------------- */

static struct cma_id *connected(void)
{
	static struct cm_conn conn;
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	fix_qp(id);
	assert_string_equal(fix_said(), "INIT");
	id->conn = &conn;
	id->resources = 4;
	id->depth = 5;
	id->psn = 100;
	id->peer_psn = 200;
	id->peer_qpn = 300;
	id->retry_count = 6;
	id->rnr_retry = 3;
	return id;
}

static void destroy(struct cma_id *id)
{
	cma_destroy_qp(id);
	id->conn = NULL;
	assert_int_equal(cma_destroy(id), 0);
}

static void a_connection(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask;

	(void)state;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	/* Each end chooses the PSN with which the other begins. */
	assert_int_equal(a.rq_psn, 100);
	assert_int_equal(a.dest_qp_num, 300);
	assert_int_equal(a.max_dest_rd_atomic, 4);
	assert_memory_equal(a.ah_attr.grh.dgid.raw, id->to.route.dst, 16);
	assert_int_equal(cma_qp_connect(id), 0);
	assert_string_equal(fix_said(), "INIT RTR RTS");
	assert_int_equal(fix.attr.sq_psn, 200);
	assert_int_equal(fix.attr.max_rd_atomic, 5);
	assert_int_equal(fix.attr.retry_cnt, 6);
	assert_int_equal(fix.attr.rnr_retry, 3);
	cma_qp_error(id);
	assert_string_equal(fix_said(), "ERR");
	destroy(id);
}

/* An initiator has what a requester needs, a target what a responder needs. */
static void the_halves_of_xrc(void **state)
{
	enum {
		RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		      IBV_QP_RQ_PSN,
		RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT
	};
	struct cma_id *id = connected();
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR },
			   rts = { .qp_state = IBV_QPS_RTS };
	int mask;

	(void)state;
	id->id.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(cma_qp_attr(id, &rtr, &mask), 0);
	assert_int_equal(mask, RTR);
	assert_int_equal(cma_qp_attr(id, &rts, &mask), 0);
	assert_int_equal(mask, RTS | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC);
	id->id.qp_type = IBV_QPT_XRC_RECV;
	assert_int_equal(cma_qp_attr(id, &rtr, &mask), 0);
	assert_int_equal(mask, RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(cma_qp_attr(id, &rts, &mask), 0);
	assert_int_equal(mask, RTS);
	id->id.qp_type = IBV_QPT_RC;
	destroy(id);
}

static void what_the_peer_may_do(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	(void)state;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC);
	id->resources = 0;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	destroy(id);
}

static void who_has_no_peer_yet(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask;

	(void)state;
	id->conn = NULL;
	assert_int_equal(cma_qp_attr(id, &a, &mask), -EINVAL);
	a.qp_state = IBV_QPS_SQD;
	assert_int_equal(cma_qp_attr(id, &a, &mask), -EINVAL);
	destroy(id);
}

static void datagrams_go_at_once(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_UDP, "127.0.0.1", 7174);

	(void)state;
	fix_qp(id);
	assert_string_equal(fix_said(), "INIT RTR RTS");
	cma_qp_error(id); /* a datagram QP is left alone */
	assert_string_equal(fix_said(), "");
	destroy(id);
}

/* The connection takes an iWARP QP on from INIT. */
static void iwarp(void **state)
{
	struct cma_id *id = connected();
	struct cma_dev dev = *id->dev;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	int mask;

	(void)state;
	dev.iwarp = true;
	id->dev = &dev;
	assert_int_equal(cma_qp_prepare(id), 0);
	assert_string_equal(fix_said(), "INIT");
	assert_int_equal(fix.mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(mask, 0);
	destroy(id);
}

static void it_may_fail_on_its_way(void **state)
{
	struct cma_id *id = connected();

	(void)state;
	fix.fail = 2;
	assert_int_equal(cma_qp_connect(id), -ENOMEM);
	assert_string_equal(fix_said(), "INIT");
	destroy(id);
}

/* --- QPs, SRQs and CQs --------------------------------------------------- */

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
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connection, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(the_halves_of_xrc, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_the_peer_may_do, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(who_has_no_peer_yet, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(datagrams_go_at_once, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_may_fail_on_its_way, fix_begin,
						fix_end),
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
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
